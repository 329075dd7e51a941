"""How is one call recorded by torch.profiler, for a few steps only?"""

from __future__ import annotations

import contextlib
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from decodeprof import mark
from decodeprof.capture.hooks import ProfilerWatch
from decodeprof.capture.watch import Boundary


def new_profiler(*, on_device: bool, all_threads: bool = False) -> Any:
    """A profiler with shapes and CUDA sync events, without Python stacks, which slow it down."""
    activities = [ProfilerActivity.CPU]
    if on_device:
        activities.append(ProfilerActivity.CUDA)
    return profile(
        activities=activities,
        record_shapes=True,
        with_stack=False,
        # One cycle is all there is; without this, torch warns that others would be lost.
        acc_events=True,
        experimental_config=_configuration(all_threads=all_threads),
    )


def _configuration(*, all_threads: bool) -> Any:
    make: Any = torch._C._profiler._ExperimentalConfig
    wanted: dict[str, bool] = {"enable_cuda_sync_events": True, "trace_only": True}
    if all_threads:
        wanted["profile_all_threads"] = True
    # Options come and go between releases; the trace is whole without them.
    for dropped in (None, "trace_only", "profile_all_threads"):
        wanted.pop(str(dropped), None)
        try:
            return make(**wanted)
        except TypeError:
            continue
    return make()


class Session:
    """One profile: started, marked at boundaries, and stopped after enough steps."""

    def __init__(
        self, watch: ProfilerWatch, *, on_device: bool, all_threads: bool, max_steps: int | None
    ) -> None:
        self._watch = watch
        self._on_device = on_device
        self._profiler = new_profiler(on_device=on_device, all_threads=all_threads)
        self._max_boundaries = None if max_steps is None else max_steps + 1
        self._thread = threading.get_ident()
        self._call: Any = None
        self._open: dict[int, list[Any]] = {}
        self.boundaries = 0
        self._prepared = False
        self.running = False
        self.stopped_early = False

    def prepare(self) -> None:
        """Do what takes the profiler a second, so that `begin` takes no time; optional."""
        self._profiler.prepare_trace()
        self._prepared = True

    def begin(self) -> None:
        """Start the profiler, and wake it with one kernel that belongs to no step."""
        one = torch.zeros(1, device="cuda") if self._on_device else torch.zeros(1)
        self._watch.ours = True
        try:
            if self._prepared:
                self._profiler.start_trace()
            else:
                self._profiler.start()
        finally:
            self._watch.ours = False
        self.running = True
        if self._on_device:
            with record_function(mark.THROWAWAY):
                one.add_(1)
                torch.cuda.synchronize()

    @contextlib.contextmanager
    def call(self) -> Iterator[None]:
        """Mark the target's call, and stop the profiler after it, if that is still to do."""
        self._call = record_function(mark.CALL)
        self._call.__enter__()
        try:
            yield
        finally:
            self.end_profile()

    def start(self, boundary: Boundary) -> None:
        """A step begins: mark it, or end the profile if there were enough."""
        if not self.running:
            return
        here = threading.get_ident() == self._thread
        # Only the thread that started a profile can end it.
        if self._max_boundaries is not None and self.boundaries >= self._max_boundaries and here:
            self.stopped_early = True
            self.end_profile()
            return
        self.boundaries += 1
        if boundary.name == mark.STEP:
            return  # The target's own mark is in the trace already.
        marked: Any = record_function(boundary.label())
        marked.__enter__()
        self._open.setdefault(threading.get_ident(), []).append(marked)

    def end(self, boundary: Boundary) -> None:
        """Close the mark."""
        if boundary.name == mark.STEP:
            return
        marks = self._open.get(threading.get_ident())
        if marks:
            marks.pop().__exit__(None, None, None)

    def withdraw(self) -> None:
        """The generator was exhausted: its last mark began no step."""
        if self.running:
            self.boundaries -= 1

    def end_profile(self) -> None:
        """Close what is open and stop the profiler, once."""
        if not self.running:
            return
        self.running = False
        for marks in self._open.values():
            while marks:
                marks.pop().__exit__(None, None, None)
        if self._call is not None:
            self._call.__exit__(None, None, None)
        if self._on_device:
            torch.cuda.synchronize()
        self._profiler.stop()

    def exported(self) -> bytes:
        """The trace as torch.profiler writes it."""
        return exported(self._profiler)


def exported(profiler: Any) -> bytes:
    """The text of a stopped profiler's trace."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(path))
        return path.read_bytes()
