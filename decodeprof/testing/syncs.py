"""Does this piece of code block the host, and on which lines?"""

from __future__ import annotations

import linecache
from collections import Counter
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Self

from decodeprof.capture.places import Frame, Places
from decodeprof.testing.backend import Blocked, backend

# Code that torch.compile generates lies in files of its own, which say nothing to a person.
_GENERATED = "torchinductor_"
_PREDICTED = (
    "  predicted: torch finds no CUDA device, so the code ran on the CPU as if there were one"
)


class SyncsFound(AssertionError):
    """A piece of code blocked the host more often than it may; the message names each place."""

    def __init__(self, message: str, *, blocked: list[Blocked]) -> None:
        super().__init__(message)
        self.blocked = blocked


class no_syncs:
    """Fail when the code inside blocks the host, as a context manager.

    It counts every stream, event and device synchronisation of this thread, whatever op or line
    makes it, and copies of pageable memory that were asked not to block. It needs no warning
    filter, and what torch.compile compiled stays compiled.

    Without a CUDA device the code runs on the CPU as if there were one, and what would block is
    predicted. That takes tensors that were made on or moved to ``cuda`` while it was pretended:
    inside, or anywhere in a test that has the fixture or the marker of this name.

    Args:
        allow: how many times the host may be blocked.

    Raises:
        SyncsFound: on leaving, if it was blocked more often. An error raised inside goes first.
        CannotWatch: on entering, where nothing can tell, or on leaving, where nothing inside ran on
            a device that is only pretended; test runners take it for a skip.
    """

    def __init__(self, allow: int = 0) -> None:
        if type(allow) is not int or allow < 0:
            raise ValueError(f"allow is a number of blocking calls, not {allow!r}")
        self._allow = allow
        self._watching: AbstractContextManager[None] | None = None
        self.blocked: list[Blocked] = []
        """What was seen, in order; grows while the context is open."""

    def __enter__(self) -> Self:
        """Begin to watch this thread."""
        __tracebackhide__ = True
        if self._watching is not None:
            raise RuntimeError("this no_syncs is open already; make one for each block")
        self.blocked = []
        watching = backend().watching(self.blocked.append)
        watching.__enter__()
        self._watching = watching
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop watching, and fail if there was too much."""
        __tracebackhide__ = True
        assert self._watching is not None
        watching, self._watching = self._watching, None
        watching.__exit__(kind, error, trace)
        if kind is None and len(self.blocked) > self._allow:
            message = told(self.blocked, allow=self._allow)
            raise SyncsFound(message, blocked=self.blocked)


def told(blocked: list[Blocked], *, allow: int) -> str:
    """All that blocked, place by place in the order of their first call, as lines of text."""
    places = Places(str(Path.cwd()))
    rows: Counter[tuple[str, ...]] = Counter()
    for each in blocked:
        rows[_lines(each, places)] += 1
    n = len(blocked)
    allowed = f"{allow} allowed" if allow else "none allowed"
    predicted = any(each.predicted for each in blocked)
    times = "time" if n == 1 else "times"
    text = [f"the host {'would be' if predicted else 'was'} blocked {n} {times}, {allowed}"]
    for lines, count in rows.items():
        first, how, *rest = lines
        text += [f"  {first}", f"    {how}" + (f", {count} times" if count > 1 else "")]
        text += [f"    {line}" for line in rest]
    if predicted:
        text.append(_PREDICTED)
    return "\n".join(text)


def _lines(blocked: Blocked, places: Places) -> tuple[str, ...]:
    """A place with its source text; what blocked there; and the user's line that led to it."""
    frames = [frame for frame in blocked.stack if not _says_nothing(frame, places)]
    how = f"{blocked.op or 'a call'} {blocked.why}"
    if not frames:
        return ("a place without Python frames", how)
    site = frames[0]
    own = next((frame for frame in frames if not places.is_package(frame.file)), None)
    lines = [_with_source(site, places), how]
    if own is not None and own != site:
        lines.append(f"called from {_with_source(own, places)}")
    return tuple(lines)


def _says_nothing(frame: Frame, places: Places) -> bool:
    return _GENERATED in frame.file or frame.file.startswith("<") or places.is_torch(frame.file)


def _with_source(frame: Frame, places: Places) -> str:
    source = linecache.getline(frame.file, frame.line).strip()
    function = frame.function.rpartition("<locals>.")[2]
    where = f"{places.shorten(frame.file)}:{frame.line} in {function}"
    return f"{where}: {source}" if source else where
