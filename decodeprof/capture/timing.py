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

from decodeprof import mark
from decodeprof.capture.watch import Boundary
from decodeprof.recording import Run

_NS_PER_MS = 1_000_000


def new_event() -> Any:
    """A CUDA event that can be asked for its time."""
    event_class: Any = torch.cuda.Event
    return event_class(enable_timing=True)


@dataclass(frozen=True)
class FirstToken:
    """A sign that the first token was there."""

    by: str
    """yield | forward | mark: what was seen of it."""
    host_ns: int
    event: Any
    """The same on the device; None: there is none, or a graph was being captured."""


@dataclass
class Stamps:
    """A listener that notes when each boundary came, on the host and on the device."""

    on_device: bool
    host_ns: list[int] = field(default_factory=list)
    events: list[Any] = field(default_factory=list)
    """One for each boundary; None where a graph was being captured."""
    prefills: list[bool] = field(default_factory=list)
    """For each boundary, whether the target's own mark calls it a prefill."""
    first: FirstToken | None = None
    """When the first token was there, by the first sign of it that came."""
    ends_with_token: bool = False
    """The end of the first forward is the first token, but for its sampling."""

    def start(self, boundary: Boundary) -> None:
        """Note the time."""
        self.prefills.append(boundary.prefill)
        if self.on_device:
            self.events.append(self._event())
        self.host_ns.append(time.perf_counter_ns())

    def end(self, boundary: Boundary) -> None:
        """Note the first one's end, where that tells of the first token."""
        marked = boundary.name == mark.STEP and self.prefills[0]
        if len(self.host_ns) == 1 and (self.ends_with_token or marked):
            self._note_first("mark" if marked else "forward")

    def item(self) -> None:
        """A generator yielded."""
        if self.first is None or self.first.by != "yield":
            self._note_first("yield")

    def _note_first(self, by: str) -> None:
        event = self._event() if self.on_device else None
        self.first = FirstToken(by, time.perf_counter_ns(), event)

    def withdraw(self) -> None:
        """The last boundary began no step."""
        self.host_ns.pop()
        self.prefills.pop()
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
        call's end, so that it holds what follows the loop. What the target itself marks as a
        prefill is none.
        """
        host = [*self.stamps.host_ns, self.end[0]]
        steps = len(self.stamps.host_ns)
        host_step_ns = self._decode(
            [after - before for before, after in itertools.pairwise(host[1:])]
        )
        first = self.stamps.first
        if self.stamps.on_device:
            step_ns, ttft_ns = self._device_times()
        else:
            step_ns = host_step_ns
            ttft_ns = host[1] - self.begin[0] if steps else None
        return Run(
            total_ns=self.drained_ns - self.begin[0],
            tokens=tokens,
            steps=sum(not prefill for prefill in self.stamps.prefills[1:]),
            ttft_ns=ttft_ns,
            first_token_ns=self._first_token_ns(),
            first_token_by=first.by if first is not None else "",
            step_ns=step_ns,
            host_step_ns=host_step_ns,
        )

    def _decode(self, steps: list[int]) -> list[int]:
        """The steps after the first one that no mark calls a prefill."""
        prefills = self.stamps.prefills[1:]
        return [ns for ns, prefill in zip(steps, prefills, strict=True) if not prefill]

    def _first_token_ns(self) -> int | None:
        """From the call's begin to the first token; the later of host and device, for an item.

        An item that nobody has read may be on its way while the host runs ahead; one that was
        read is there when the host has it.
        """
        first = self.stamps.first
        if first is None:
            return None
        host_ns = first.host_ns - self.begin[0]
        if first.event is None or self.begin[1] is None:
            return None if self.stamps.on_device else host_ns
        device_ns = _between(self.begin[1], first.event)
        return max(host_ns, device_ns) if first.by == "yield" else device_ns

    def _device_times(self) -> tuple[list[int], int | None]:
        events = [*self.stamps.events, self.end[1]]
        steps = []
        pairs = itertools.pairwise(events[1:])
        for (before, after), prefill in zip(pairs, self.stamps.prefills[1:], strict=True):
            if before is not None and after is not None and not prefill:
                steps.append(_between(before, after))
        first = self.begin[1]
        known = len(events) > 1 and first is not None and events[1] is not None
        return steps, _between(first, events[1]) if known else None


def _between(before: Any, after: Any) -> int:
    milliseconds: float = before.elapsed_time(after)
    return round(milliseconds * _NS_PER_MS)


def steady_samples(runs: list[Run]) -> list[int]:
    """The steps that stand for the decode: without each run's first and last, if that leaves any.

    The last one is cut short by the call's end. Runs in which no step was seen count by their time
    for each token.
    """
    samples: list[int] = []
    for run in runs:
        samples += run.inner_step_ns()
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
