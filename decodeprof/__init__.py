"""Why does each token of a PyTorch generation loop take as long as it takes?

The public API. It is imported lazily: ``import decodeprof`` loads neither torch nor numpy, so that
a user's script may import it for `step` alone.
"""

from __future__ import annotations

import typing
from importlib import import_module

if typing.TYPE_CHECKING:
    import os

    from decodeprof.api.result import Result
    from decodeprof.mark import step

__version__ = "0.1.0"

__all__ = ["__version__", "analyze", "step"]


def analyze(path: str | os.PathLike[str]) -> Result:
    """Diagnose a recording or a trace, as ``decodeprof analyze`` does.

    Args:
        path: a recording's directory, or a trace file.

    Returns:
        The diagnosis, which also gives tables and timelines, and shows itself in a notebook.

    Raises:
        decodeprof.errors.DecodeprofError: the file is missing, is no trace, or holds nothing to
            analyse.
    """
    # Named by text: it lies above the layers that may import this package's root.
    api = import_module("decodeprof.api.analyze")
    result: Result = api.analyze(path)
    return result


def __getattr__(name: str) -> typing.Any:
    if name == "step":
        return import_module("decodeprof.mark").step
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
