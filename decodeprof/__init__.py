"""Why does each token of a PyTorch generation loop take as long as it takes?

The public API. It is imported lazily: ``import decodeprof`` loads neither torch nor numpy, so that
a user's script may import it for `step` alone.
"""

from __future__ import annotations

import typing
from importlib import import_module

if typing.TYPE_CHECKING:
    import os

    from decodeprof.mark import step
    from decodeprof.model.diagnosis import Diagnosis

__version__ = "0.1.0"

__all__ = ["__version__", "analyze", "step"]


def analyze(path: str | os.PathLike[str]) -> Diagnosis:
    """Diagnose a recording or a torch trace, as ``decodeprof analyze`` does.

    Args:
        path: a recording's directory, or a torch.profiler trace (.json or .json.gz).

    Raises:
        decodeprof.errors.InputError: the file is missing, is no trace, or holds nothing to analyse.
    """
    from pathlib import Path

    # Named by text: the analysis lies above the layers that may import this package's root.
    pipeline = import_module("decodeprof.diagnosis.pipeline")
    diagnosis: Diagnosis = pipeline.analyze_path(Path(path)).diagnosis
    return diagnosis


def __getattr__(name: str) -> typing.Any:
    if name == "step":
        return import_module("decodeprof.mark").step
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
