"""How long does each graph replay take when nobody watches, on the device and on the host?

A profiler that traces a graph's nodes changes the gaps between them, by up to 10 % of a step, and
makes the launch call of a large graph last milliseconds. So each replay of one more call is timed
by a pair of events. The device is given something to do first, so that the graph is queued when its
turn comes: the pair then holds the graph alone, and not the time that its launch takes.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from decodeprof.capture.session import Session
from decodeprof.capture.timing import new_event

_HEAD_START_CYCLES = 400_000
"""0.2 ms at 2 GHz: several times as long as the launch of a graph of a few thousand nodes."""
_NS_PER_MS = 1_000_000
MOST_REPLAYS = 20_000
"""Of one call; each takes two events, and adds the head start."""


@dataclass
class ReplayClock:
    """Times each replay that it is entered around."""

    host_ns: list[int] = field(default_factory=list)
    pairs: list[tuple[Any, Any]] = field(default_factory=list)

    @contextlib.contextmanager
    def around(self) -> Iterator[None]:
        """Let the device work, then time what is done inside."""
        if torch.cuda.is_current_stream_capturing() or len(self.pairs) >= MOST_REPLAYS:
            yield
            return
        cuda: Any = torch.cuda
        cuda._sleep(_HEAD_START_CYCLES)
        before, after = new_event(), new_event()
        before.record()
        began = time.perf_counter_ns()
        yield
        self.host_ns.append(time.perf_counter_ns() - began)
        after.record()
        self.pairs.append((before, after))

    def device_ns(self) -> list[int]:
        """Of each replay; the device must have run them."""
        return [round(a.elapsed_time(b) * _NS_PER_MS) for a, b in self.pairs]


def time_graphs(session: Session) -> ReplayClock | None:
    """Call the target once more and time its replays; None: it replays nothing.

    Raises:
        UserCodeFailed: the target raised.
    """
    watch = session.watches.steps
    clock = ReplayClock()
    replays = watch.replays
    watch.around_replays = clock.around
    try:
        session.call()
    finally:
        watch.around_replays = None
    return clock if watch.replays > replays and clock.pairs else None
