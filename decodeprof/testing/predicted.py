"""Which operations would block the host, told on a machine without a CUDA device?

Lint's pretence does it: the code really runs, on the CPU, and its tensors answer that they live on
a GPU. That has to be so from where the tensors are made, so that a whole test with its fixtures
runs in `surroundings`, and what is inside of a guard is watched.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import torch

from decodeprof.capture.places import Frame, stack_from
from decodeprof.capture.waiting import Wait
from decodeprof.lint.mode import Copied, PretendMode
from decodeprof.lint.pretend import pretended
from decodeprof.testing.backend import Blocked, CannotWatch, Profiled

_OWN = tuple(str(Path(__file__).resolve().parents[1] / name) for name in ("testing", "lint"))
_PAGEABLE = "would copy pageable memory, which non_blocking does not make asynchronous"


@dataclass
class _Listeners:
    """Passes what the host would do in one thread to the guards that are open."""

    thread: int
    notes: list[Callable[[Blocked], None]] = field(default_factory=list)

    def waited(self, op: str, wait: Wait) -> None:
        """The host would wait."""
        for _ in range(wait.count):
            self._tell(op, f"would wait: {wait.reason}")

    def copied(self, op: str, copy: Copied) -> None:
        """Something would cross; other copies than this one block by a wait, or do not block."""
        if copy.non_blocking and not copy.pinned:
            self._tell(op, _PAGEABLE)

    def _tell(self, op: str, why: str) -> None:
        if self.notes and threading.get_ident() == self.thread:
            blocked = Blocked(why, op, _stack(), predicted=True)
            for note in self.notes:
                note(blocked)


def _stack() -> tuple[Frame, ...]:
    return tuple(each for each in stack_from(sys._getframe(1)) if not each.file.startswith(_OWN))


@dataclass(frozen=True)
class _Pretence:
    mode: PretendMode
    listeners: _Listeners


_open: list[_Pretence] = []
"""The one that is up; torch's answers can be replaced once at a time."""


class PredictedBackend:
    """Runs code on the CPU as if there were one GPU, and predicts what would block."""

    predicts = True

    def __init__(self) -> None:
        self.why_uncounted = (
            f"launches are counted on a CUDA device, and torch finds none "
            f"(torch {torch.__version__}, {_built()})"
        )

    @contextlib.contextmanager
    def surroundings(self) -> Iterator[None]:
        """Let torch answer as if there were a GPU: what makes tensors has to run inside."""
        if _open:
            yield
            return
        listeners = _Listeners(threading.get_ident())
        with pretended(listeners) as mode:
            _open.append(_Pretence(mode, listeners))
            try:
                yield
            finally:
                _open.clear()

    @contextlib.contextmanager
    def watching(self, note: Callable[[Blocked], None]) -> Iterator[None]:
        """Tell `note` of each time that this thread would be blocked while the context is open.

        Raises:
            CannotWatch: on leaving, if nothing inside was on a GPU, so that nothing was learnt.
        """
        seen: list[Blocked] = []
        with self.surroundings():
            [up] = _open
            before = up.mode.ran_on_device

            def tell(blocked: Blocked) -> None:
                seen.append(blocked)
                note(blocked)

            up.listeners.notes.append(tell)
            try:
                yield
            finally:
                up.listeners.notes.remove(tell)
            if not seen and up.mode.ran_on_device == before:
                raise CannotWatch(
                    f"torch finds no CUDA device (torch {torch.__version__}, {_built()}), and "
                    "nothing could be predicted: nothing inside ran on tensors of the device "
                    "`cuda`"
                )

    def profiling(self, into: Profiled) -> contextlib.AbstractContextManager[None]:
        """Nothing counts launches here.

        Raises:
            CannotWatch: always.
        """
        del into
        raise CannotWatch(self.why_uncounted)


def _built() -> str:
    return f"built for CUDA {torch.version.cuda}" if torch.version.cuda else "built for the CPU"
