"""Who waits for the device, and from which line?

Two detectors, kept apart: sync-debug mode warns of synchronising operations; gpu_trace calls back
before every stream, event and device synchronisation. The latter is private to torch and cannot
be switched off again, so it comes last.
"""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any, Protocol, TextIO

import torch

from decodeprof.capture.places import Frame, Places, stack_from
from decodeprof.recording import SyncEvent, SyncPass

_SYNC_WARNING = "called a synchronizing CUDA operation"
_PROTOTYPE_NOTICE = "Synchronization debug mode is a prototype feature"
_NO_BOUNDARIES = -1


class SyncCollector:
    """Notes each sync with its stack and the step in which it happened."""

    def __init__(self, current_step: Callable[[], int]) -> None:
        self._current_step = current_step
        self._noted: list[tuple[int, str, tuple[Frame, ...]]] = []
        self._active = False

    @contextlib.contextmanager
    def noting(self) -> Iterator[None]:
        """Note syncs while this is open: the target's, and not ours around it."""
        self._active = True
        try:
            yield
        finally:
            self._active = False

    def note(self, kind: str) -> None:
        """Note a sync that is happening now, called from the place where it happens."""
        if self._active:
            self._noted.append((self._current_step(), kind, stack_from(sys._getframe(1))))

    def result(self, places: Places, *, boundaries: int) -> SyncPass:
        """All that was noted, in order; equal stacks are one site."""
        indices: dict[tuple[Frame, ...], int] = {}
        events = []
        for step, kind, stack in self._noted:
            site = indices.setdefault(stack, len(indices))
            events.append(
                SyncEvent(step=step if boundaries else _NO_BOUNDARIES, site=site, kind=kind)
            )
        return SyncPass(
            sites=[places.site(stack) for stack in indices],
            events=events,
            steps=max(0, boundaries - 1),
        )


@contextlib.contextmanager
def warnings_noted(collector: SyncCollector) -> Iterator[None]:
    """Note sync-debug warnings, each time; show all others as the user's filters say.

    `showwarning` runs in the frame that called the operation, so the stack there is the site's.
    """
    shown = warnings.showwarning

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        text = str(message)
        if _SYNC_WARNING in text:
            collector.note("warned")
        elif _PROTOTYPE_NOTICE not in text:
            shown(message, category, filename, lineno, file, line)

    with warnings.catch_warnings():
        for text in (_SYNC_WARNING, _PROTOTYPE_NOTICE):
            # The user's filters stay below these, and come back as they were.
            warnings.filterwarnings("always", message=f".*{text}.*")
        warnings.showwarning = show
        yield


@contextlib.contextmanager
def sync_debug(collector: SyncCollector) -> Iterator[None]:
    """Sync-debug mode, with its warnings noted."""
    before = torch.cuda.get_sync_debug_mode()
    with warnings_noted(collector):
        torch.cuda.set_sync_debug_mode("warn")
        try:
            yield
        finally:
            torch.cuda.set_sync_debug_mode(before)


class Notes(Protocol):
    """Is told of each synchronisation."""

    def note(self, kind: str) -> None:
        """One is about to happen, from the place where it happens: stream | event | device."""


def gpu_trace(collector: Notes) -> None:
    """Note every stream, event and device synchronisation from now on, for good."""
    # Imported before the switch is thrown: without it every call logs an error.
    import torch.cuda._gpu_trace as callbacks

    activate: Any = torch._C._activate_gpu_trace  # type: ignore[attr-defined,unused-ignore]
    activate()
    callbacks.register_callback_for_stream_synchronization(lambda _: collector.note("stream"))
    callbacks.register_callback_for_event_synchronization(lambda _: collector.note("event"))
    callbacks.register_callback_for_device_synchronization(lambda: collector.note("device"))
