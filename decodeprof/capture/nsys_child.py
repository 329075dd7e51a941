"""What runs under `nsys profile`: the target, warmed up, then one call with NVTX marks.

Started by `nsys` as ``python -m decodeprof.capture.nsys_child ORDER MESSAGES``: both are files,
since nsys hands neither its standard input nor open descriptors on. Collection begins and ends with
`cudaProfilerStart` and `cudaProfilerStop`, so that neither loading nor warm-up is in the report.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterator

from decodeprof import mark
from decodeprof.capture.channel import Channel
from decodeprof.capture.child import connect, load_session, main
from decodeprof.capture.job import Failed, Finished, Order
from decodeprof.capture.nsys_watch import hold
from decodeprof.capture.places import Places
from decodeprof.capture.target import Spec
from decodeprof.capture.watch import Boundary

STEPS = 36
"""Two whole periods of a stop check every 16 steps, and some to spare."""


class NvtxMarks:
    """Pushes the same marks that the torch.profiler pass records, and stops after enough steps."""

    def __init__(self, *, max_steps: int) -> None:
        self._max_boundaries = max_steps + 1
        self._thread = threading.get_ident()
        self._boundaries = 0
        self._open: dict[int, int] = {}
        self._running = False

    def begin(self) -> None:
        """Start collecting, and wake the collector with one kernel that belongs to no step."""
        import torch

        one = torch.zeros(1, device="cuda")
        torch.cuda.synchronize()
        torch.cuda.profiler.start()
        self._running = True
        self._push(mark.THROWAWAY)
        one.add_(1)
        torch.cuda.synchronize()
        self._pop()

    @contextlib.contextmanager
    def call(self) -> Iterator[None]:
        """Mark the target's call, and stop collecting after it, if that is still to do."""
        self._push(mark.CALL)
        try:
            yield
        finally:
            self._stop()

    def start(self, boundary: Boundary) -> None:
        """A step begins: mark it, or end the collection if there were enough."""
        if not self._running:
            return
        here = threading.get_ident() == self._thread
        if self._boundaries >= self._max_boundaries and here:
            self._stop()
            return
        self._boundaries += 1
        self._push(boundary.label())

    def end(self, boundary: Boundary) -> None:
        """Close the mark."""
        del boundary
        if self._running:
            self._pop()

    def withdraw(self) -> None:
        """The generator was exhausted: its last mark began no step."""
        self._boundaries -= 1

    def _push(self, text: str) -> None:
        import torch

        thread = threading.get_ident()
        self._open[thread] = self._open.get(thread, 0) + 1
        torch.cuda.nvtx.range_push(text)

    def _pop(self) -> None:
        import torch

        thread = threading.get_ident()
        if self._open.get(thread):
            self._open[thread] -= 1
            torch.cuda.nvtx.range_pop()

    def _stop(self) -> None:
        import torch

        if not self._running:
            return
        self._running = False
        while self._open.get(threading.get_ident()):
            self._pop()
        torch.cuda.synchronize()
        torch.cuda.profiler.stop()


def profiled(order: Order, spec: Spec, channel: Channel, places: Places) -> Finished | Failed:
    """Warm the target up, and call it once with marks while nsys collects."""
    # Its parent is one of nsys's own threads, which may end before it.
    channel.outlive_parent()
    channel.progress("nsys", "importing torch")
    watches = connect()
    session = load_session(order, spec, channel, places, watches)
    from decodeprof.capture import passes, warmup

    warmup.warm_up(session)
    if not session.on_device:
        return Failed(what=passes.NO_DEVICE)
    steps = order.job.profile_steps or STEPS
    marks = NvtxMarks(max_steps=steps)
    channel.progress("nsys", "one call under nsys")
    marks.begin()
    session.call(marks, override=passes.fewer_tokens(session, steps), around=marks.call())
    return Finished()


def run_under_nsys() -> None:
    """Take the order from its file, and send messages to theirs."""
    order, messages = sys.argv[1:3]
    sys.stdin = open(order)  # noqa: SIM115
    descriptor = os.open(messages, os.O_WRONLY | os.O_APPEND)
    hold(descriptor)
    # What the target prints was seen before, and is not to be taken for nsys's own words.
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for printed in (1, 2):
        os.dup2(nowhere, printed)
    sys.argv[1:] = [str(descriptor)]
    main(profiled)


if __name__ == "__main__":
    run_under_nsys()
