"""Marks that a person may put into an engine so that its steps are exact, and those we put there.

Nothing here is needed: `diagnose` finds steps by itself. An engine that batches requests, or that
runs several forwards a token, can say what a step is::

    from decodeprof import step

    for _ in range(max_new_tokens):
        with step():
            token = decode_one_token(model, token)

A mark is a `record_function` range (seen by torch.profiler) and an NVTX range (seen by nsys). With
no profiler running it costs half a microsecond, and torch need not be installed.
"""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any, NoReturn, Protocol, Self

PREFIX = "decodeprof."
STEP = PREFIX + "step"
"""A user's own step; `decodeprof.step prefill` marks a prompt pass."""
CALL = PREFIX + "call"
"""One whole call of the target."""
FORWARD = PREFIX + "forward"
"""An outermost module's forward: ``decodeprof.forward m=0 q=16 b=1``."""
REPLAY = PREFIX + "replay"
"""A CUDA graph's replay: ``decodeprof.replay g=0``."""
YIELD = PREFIX + "yield"
"""A generator target was asked for its next token."""
LOOP = PREFIX + "loop"
"""An iteration of the target's own loop began, where no module is called in it."""
THROWAWAY = PREFIX + "throwaway"
"""Work that only wakes the profiler up; never part of a step."""


def label(name: str, **values: int | str) -> str:
    """A mark's full name: ``decodeprof.forward m=0 q=16``; `parse` is its inverse."""
    return " ".join([name, *(f"{key}={value}" for key, value in values.items())])


def parse(text: str) -> tuple[str, dict[str, str]] | None:
    """Split a mark into its name and its values; None for a range that is not ours."""
    if not text.startswith(PREFIX):
        return None
    name, *rest = text.split(" ")
    return name, dict(word.split("=", 1) for word in rest if "=" in word)


class Observer(Protocol):
    """Hears of each mark while a target is recorded."""

    def marked(self, phase: str) -> None:
        """A mark is entered."""

    def unmarked(self) -> None:
        """The innermost mark is left."""


_observer: Observer | None = None
_NO_DECORATOR = "step marks a block and is no decorator: write `with step():` around one step"
_LABELS = {phase: label(STEP, phase=phase) for phase in ("decode", "prefill")}


def observe(observer: Observer | None) -> None:
    """Tell `observer` of every mark from now on; None: nobody."""
    global _observer  # One recording runs in a process, and a mark must be cheap.
    _observer = observer


class step:
    """Mark one step of an engine, as a context manager.

    Args:
        phase: "decode" for a step that makes one token for each running request, "prefill" for a
            prompt pass.

    Raises:
        ValueError: `phase` is neither.
        TypeError: it is used as a decorator.
    """

    __slots__ = ("_nvtx", "_observer", "_range", "_text")

    def __init__(self, phase: str = "decode") -> None:
        if callable(phase):
            raise TypeError(_NO_DECORATOR)
        if phase not in ("decode", "prefill"):
            raise ValueError(f'phase is "decode" or "prefill", not {phase!r}')
        self._text = _LABELS[phase]
        self._range: Any = None
        self._nvtx: Any = None
        self._observer: Observer | None = None

    def __call__(self, *_: object) -> NoReturn:
        """Refuse to decorate a function."""
        raise TypeError(_NO_DECORATOR)

    def __enter__(self) -> Self:
        """Open the range, where a profiler could see it."""
        if _observer is not None:
            # First of all, since a profile may end at this very mark.
            self._observer = _observer
            _observer.marked("prefill" if self._text is _LABELS["prefill"] else "decode")
        torch = sys.modules.get("torch")
        if torch is not None:
            if torch.autograd._profiler_enabled():
                self._range = torch.profiler.record_function(self._text)
                self._range.__enter__()
            # Not `is_available`, which asks the driver each time: half a microsecond.
            if torch.cuda.is_initialized():
                self._nvtx = torch.cuda.nvtx
                self._nvtx.range_push(self._text)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close what was opened."""
        if self._nvtx is not None:
            self._nvtx.range_pop()
            self._nvtx = None
        if self._range is not None:
            self._range.__exit__(kind, error, trace)
            self._range = None
        if self._observer is not None:
            self._observer.unmarked()
            self._observer = None
