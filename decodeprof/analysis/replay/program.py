"""What does a step consist of, when it is a program of host work, launches, waits and activities?

A program holds durations, order, launch times in host work, and lags. It holds no recorded device
start: replay computes those.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Self

import numpy as np

from decodeprof.model.trace import I8, I32, I64, Bool

LAUNCH = 0


@dataclass(frozen=True)
class Events:
    """What the launching thread does, in order. Columns are row-aligned; times in ns."""

    op: I8
    """LAUNCH, or WAIT, STREAM_WAIT, RECORD of `waits`."""
    work_ns: I64
    """Host work since the previous event began, or since its wait ended."""
    python_ns: I64
    """The part of that work outside every framework op and API call."""
    call: I64
    """Row in `Trace.calls`; -1 for what a change put in."""
    stream: I32
    """Index of the stream launched to, waited for or acted on; -1: all streams."""
    slot: I32
    """The event waited for or recorded, below `Program.slots`; -1: none.

    `Program.slots` more means the event's last recording but one: the one of the repetition before,
    where this repetition has recorded it anew already.
    """
    own_ns: I64
    """Launches: host work inside the call, which is part of the next event's `work_ns`."""
    submit_ns: I64
    """Launches: host work inside the call before the launch leaves for the device."""
    lag_ns: I64
    """Launches: the latency floor. Waits: from the drain to the call's return."""
    least_ns: I64
    """Waits: what the call takes when there is nothing to wait for."""
    queued_ns: I64
    """Launches: the gap that the device leaves before it when it was queued."""
    first: I64
    """Launches: the first activity (row of `Program.duration_ns`)."""
    count: I64
    """Launches: number of activities, in order, one after the other."""
    between_ns: I64
    """Launches: all gaps between its activities together; negative where they overlap."""
    step: I32
    """The step it belongs to, counted from the program's first; -1: none."""

    def __len__(self) -> int:
        return len(self.op)

    def take(self, rows: I64 | Bool) -> Self:
        """The events at the given indices, or where a mask is true."""
        return type(self)(**{f.name: getattr(self, f.name)[rows] for f in fields(self)})

    @property
    def is_launch(self) -> Bool:
        """Which events put work on a stream."""
        return np.asarray(self.op == LAUNCH)


@dataclass(frozen=True)
class Program:
    """A stretch of steps that repeats (or a whole recording, which does not)."""

    events: Events
    tail_ns: int
    """Host work after the last event until the stretch ends."""
    tail_python_ns: int
    duration_ns: I64
    """Each activity's duration, in order of launch."""
    activity: I64
    """Row in `Trace.device` of each activity; -1 for what a change put in."""
    steps: int
    streams: int
    slots: int
    queue_depth: int
    """Launches that may be outstanding on a stream before a launch call blocks."""

    @property
    def host_work_ns(self) -> int:
        """Host work of the whole stretch; waits and blocked launches are none."""
        return int(self.events.work_ns.sum()) + self.tail_ns

    @property
    def device_work_ns(self) -> int:
        """Sum of all activities' durations."""
        return int(self.duration_ns.sum())

    @property
    def activities(self) -> int:
        """Number of activities in the stretch."""
        return len(self.duration_ns)

    def block_ns(self) -> I64:
        """How long each event's activities take together; 0 for what launches nothing."""
        total = np.r_[0, np.cumsum(self.duration_ns)]
        first, count = self.events.first, self.events.count
        spent = total[first + count] - total[first]
        return np.where(count > 0, np.maximum(spent + self.events.between_ns, 0), 0)

    def with_events(self, rows: I64 | Bool) -> Program:
        """The same with fewer events, whose work falls to the next one kept: host time stays."""
        kept = np.zeros(len(self.events), bool)
        kept[rows] = True
        return replace(
            self,
            events=replace(
                self.events.take(kept),
                work_ns=_carried(self.events.work_ns, kept)[0],
                python_ns=_carried(self.events.python_ns, kept)[0],
            ),
            tail_ns=self.tail_ns + _carried(self.events.work_ns, kept)[1],
            tail_python_ns=self.tail_python_ns + _carried(self.events.python_ns, kept)[1],
        )


def _carried(work: I64, kept: Bool) -> tuple[I64, int]:
    if not len(work):
        return work, 0
    total = np.cumsum(work)
    at = total[kept]
    rest = int(total[-1] - at[-1]) if len(at) else int(work.sum())
    return np.diff(at, prepend=0), rest
