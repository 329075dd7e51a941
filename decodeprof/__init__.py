"""Why does each token of a PyTorch generation loop take as long as it takes?

The public API. It is imported lazily: ``import decodeprof`` loads neither torch nor numpy, so that
a user's script may import it for `step` alone.
"""

from __future__ import annotations

import typing
from importlib import import_module

if typing.TYPE_CHECKING:
    import os
    from collections.abc import Callable
    from typing import Any

    from decodeprof.api.result import Result
    from decodeprof.mark import step

__version__ = "0.1.0"

__all__ = ["__version__", "analyze", "diagnose", "step"]


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


def diagnose(
    function: Callable[..., Any],
    /,
    *,
    out: str | os.PathLike[str] | None = None,
    new_tokens: int | None = None,
    budget_s: float = 20.0,
    **arguments: Any,
) -> Result:
    """Run a live generate function several times in this process, measure it and diagnose it.

    It is for notebooks, where the function is in no script. It takes the measures that
    ``decodeprof diagnose script.py:name`` takes, but for gpu_trace, which could not be switched off
    again, and for the profile of a first call in a process of its own. On a GPU the profiler's
    library stays attached to the process afterwards; the diagnosis says so.

    Args:
        function: the function itself: plain, a generator function, or asynchronous where no event
            loop runs yet.
        out: the recording's directory; by default a new numbered one below ``decodeprof-runs``.
        new_tokens: tokens of one call, where neither its yields nor its result show it.
        budget_s: seconds for the unprofiled timing, which ends earlier when its median is known.
        **arguments: the function's own arguments, by name. One that bears the name of an option
            above is given with `functools.partial`.

    Returns:
        The diagnosis, which also gives tables and timelines, and shows itself in a notebook.

    Raises:
        decodeprof.errors.DecodeprofError: an option or the arguments do not fit, the directory
            cannot be written, or the function failed; its own exception is the cause.
    """
    api = import_module("decodeprof.api.diagnose")
    result: Result = api.diagnose(
        function, out=out, new_tokens=new_tokens, budget_s=budget_s, arguments=arguments
    )
    return result


def __getattr__(name: str) -> typing.Any:
    if name == "step":
        return import_module("decodeprof.mark").step
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
