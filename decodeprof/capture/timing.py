"""How long does a step take when nobody watches?

CUDA events are recorded at the boundaries of steps and read after the run: a host clock says when
the host issued a step, which during run-ahead is not when the device ran it. Without a GPU the
host's clock is the truth.
"""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass, field
from typing import Any

import torch

from decodeprof.capture.watch import Boundary
from decodeprof.recording import Run

_NS_PER_MS = 1_000_000


def new_event() -> Any:
    """A CUDA event that can be asked for its time."""
    event_class: Any = torch.cuda.Event
    return event_class(enable_timing=True)


@dataclass
class Stamps:
    """A listener that notes when each boundary came, on the host and on the device."""

    on_device: bool
    host_ns: list[int] = field(default_factory=list)
    events: list[Any] = field(default_factory=list)
    """One for each boundary; None where a graph was being captured."""

    def start(self, boundary: Boundary) -> None:
        """Note the time."""
        del boundary
        if self.on_device:
            self.events.append(self._event())
        self.host_ns.append(time.perf_counter_ns())

    def end(self, boundary: Boundary) -> None:
        """Nothing to do."""

    def withdraw(self) -> None:
        """The last boundary began no step."""
        self.host_ns.pop()
        if self.on_device:
            self.events.pop()

    def now(self) -> tuple[int, Any]:
        """The time outside of any boundary, on the host and on the device."""
        event = self._event() if self.on_device else None
        return time.perf_counter_ns(), event

    @staticmethod
    def _event() -> Any:
        if torch.cuda.is_current_stream_capturing():
            return None
        event: Any = new_event()
        event.record()
        return event


@dataclass(frozen=True)
class Clocked:
    """One timed call, read after the device has drained."""

    begin: tuple[int, Any]
    end: tuple[int, Any]
    drained_ns: int
    """Host time at which the device had run everything."""
    stamps: Stamps

    def run(self, *, tokens: int | None) -> Run:
        """Its times, as they stand in a recording.

        Decode step i lasts from boundary i to boundary i + 1; the last one is closed by the
        call's end, so that it holds what follows the loop.
        """
        host = [*self.stamps.host_ns, self.end[0]]
        steps = len(self.stamps.host_ns)
        host_step_ns = [after - before for before, after in itertools.pairwise(host[1:])]
        if self.stamps.on_device:
            step_ns, ttft_ns = self._device_times()
        else:
            step_ns = host_step_ns
            ttft_ns = host[1] - self.begin[0] if steps else None
        return Run(
            total_ns=self.drained_ns - self.begin[0],
            tokens=tokens,
            steps=max(0, steps - 1),
            ttft_ns=ttft_ns,
            step_ns=step_ns,
            host_step_ns=host_step_ns,
        )

    def _device_times(self) -> tuple[list[int], int | None]:
        events = [*self.stamps.events, self.end[1]]
        steps = []
        for before, after in itertools.pairwise(events[1:]):
            if before is not None and after is not None:
                steps.append(_between(before, after))
        first = self.begin[1]
        known = len(events) > 1 and first is not None and events[1] is not None
        return steps, _between(first, events[1]) if known else None


def _between(before: Any, after: Any) -> int:
    milliseconds: float = before.elapsed_time(after)
    return round(milliseconds * _NS_PER_MS)


def steady_samples(runs: list[Run]) -> list[int]:
    """The steps that stand for the decode: without each run's first and last, if that leaves any.

    Runs in which no step was seen count by their time for each token.
    """
    samples: list[int] = []
    for run in runs:
        inner = run.step_ns[1:-1]
        samples += inner or run.step_ns
    if samples:
        return samples
    return [run.total_ns // run.tokens if run.tokens else run.total_ns for run in runs]


def slope_ns_per_token(full: list[Run], short: list[Run]) -> int | None:
    """Difference in wall time of two token counts over the difference in tokens; medians of each.

    None where a count is unknown, or the longer run was not the longer one in time.
    """
    if not full or not short or not full[0].tokens or not short[0].tokens:
        return None
    tokens = full[0].tokens - short[0].tokens
    if tokens <= 0:
        return None
    totals = [sorted(run.total_ns for run in runs) for runs in (full, short)]
    long_ns, short_ns = (times[(len(times) - 1) // 2] for times in totals)
    return (long_ns - short_ns) // tokens if long_ns > short_ns else None
