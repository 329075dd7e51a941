"""How long from a launch call to its start on the device, and how much was queued?

A launch latency is large and harmless when the queue is full. The latency *floor* is what a launch
takes on an idle device with an empty queue: the 1st percentile of (start - launch call's start)
over exactly those launches, for kernels, copies, sets and graph launches apart.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from decodeprof.model.calls import CallKind
from decodeprof.model.trace import I64, NONE, ActivityKind, Bool, Trace

KERNEL, COPY, SET, GRAPH = "kernel", "copy", "set", "graph"
LAUNCH_KINDS = (KERNEL, COPY, SET, GRAPH)
# Below this many launches on an idle device, a 1st percentile is the luck of the minimum.
FEWEST_SAMPLES = 20
FLOOR_PERCENTILE = 1


@dataclass(frozen=True)
class Launches:
    """The first activity of every launch call, in the order of the calls' starts. Row-aligned."""

    activity: I64
    """Row in `Trace.device`."""
    call: I64
    """Row in `Trace.calls`."""
    start_ns: I64
    """The call's start."""
    kind: I64
    """Index into `LAUNCH_KINDS`."""
    found_idle: Bool
    """The device was idle and its queue empty when the call began."""

    @property
    def count(self) -> int:
        """Number of launch calls."""
        return len(self.activity)


@dataclass(frozen=True)
class LatencyFloors:
    """The latency floor of each launch kind in ns, and how each is known."""

    floor_ns: dict[str, int]
    source: dict[str, str]
    """measured | recording | typical, by kind."""
    samples: dict[str, int]

    def of(self, kinds: I64) -> I64:
        """The floor for each index into `LAUNCH_KINDS`."""
        return np.array([self.floor_ns[k] for k in LAUNCH_KINDS], dtype=np.int64)[kinds]


def launches_of(trace: Trace, device: int) -> Launches:
    """The launch calls of one device."""
    table = trace.device
    rows = np.flatnonzero((table.device == device) & (table.call != NONE))
    # Rows are sorted by start, so the first of each call is the call's first activity.
    calls, first = np.unique(table.call[rows], return_index=True)
    activity = rows[first].astype(np.int64)
    order = np.lexsort((calls, trace.calls.start_ns[calls]))
    calls, activity = calls[order].astype(np.int64), activity[order]
    starts = trace.calls.start_ns[calls]
    kind = np.select(
        [
            trace.calls.kind[calls] == CallKind.GRAPH_LAUNCH,
            table.kind[activity] == ActivityKind.COPY,
            table.kind[activity] == ActivityKind.SET,
        ],
        [LAUNCH_KINDS.index(GRAPH), LAUNCH_KINDS.index(COPY), LAUNCH_KINDS.index(SET)],
        LAUNCH_KINDS.index(KERNEL),
    ).astype(np.int64)
    # Everything launched earlier had ended when this call began: idle, with an empty queue.
    last_end = np.full(len(trace.calls), np.iinfo(np.int64).min)
    np.maximum.at(last_end, table.call[rows], table.end_ns[rows])
    ends = last_end[calls]
    earlier = np.r_[np.iinfo(np.int64).min, np.maximum.accumulate(ends)[:-1]] if len(ends) else ends
    return Launches(
        activity=activity, call=calls, start_ns=starts, kind=kind, found_idle=starts >= earlier
    )


_CAPTURE_BEGINS = "StreamBeginCapture"
_CAPTURE_ENDS = "StreamEndCapture"


def captured_into_graphs(trace: Trace) -> Bool:
    """Which calls were made while their thread captured a graph: they run nothing on the device.

    One for each row of `Trace.calls`.
    """
    calls = trace.calls
    change = np.zeros(len(trace.names), np.int64)
    for index, name in enumerate(trace.names):
        if name.endswith((_CAPTURE_BEGINS, _CAPTURE_ENDS)):
            change[index] = 1 if name.endswith(_CAPTURE_BEGINS) else -1
    inside = np.zeros(len(calls), np.bool_)
    changes = change[calls.name]
    for thread in np.unique(calls.thread[changes != 0]):
        mine = np.flatnonzero(calls.thread == thread)
        inside[mine] = np.cumsum(changes[mine]) > 0
    return inside


def kernel_launches(trace: Trace) -> tuple[Bool, Bool]:
    """Which calls launch kernels or graphs, and which of those have nothing on the device.

    Only lost records explain the latter: a set or a copy of no bytes is a call that the device
    never sees, and no loss. Launches into a capture are left out. Both have one entry for each
    row of `Trace.calls`.
    """
    kinds = (int(CallKind.LAUNCH), int(CallKind.GRAPH_LAUNCH))
    launching = np.isin(trace.calls.kind, kinds) & ~captured_into_graphs(trace)
    ran = np.isin(np.arange(len(trace.calls)), trace.device.call)
    return launching, launching & ~ran


def lost_copies(trace: Trace) -> int:
    """How many calls copy, where the device has no copy at all; 0 where it has any."""
    if (trace.device.kind == ActivityKind.COPY).any():
        return 0
    kinds = (int(CallKind.COPY), int(CallKind.BLOCKING_COPY))
    return int((np.isin(trace.calls.kind, kinds) & ~captured_into_graphs(trace)).sum())


def latency_floors(
    trace: Trace, launches: Launches, *, recorded_ns: int | None, typical_ns: dict[str, int]
) -> LatencyFloors:
    """Learn the latency floors from the trace, or take them from elsewhere and say so.

    Args:
        trace: the trace.
        launches: its launches on one device.
        recorded_ns: the kernel latency that the recording measured, if any.
        typical_ns: for each launch kind, a typical value; MODELLED where it is used.
    """
    latency = trace.device.start_ns[launches.activity] - launches.start_ns
    floors: dict[str, int] = {}
    source: dict[str, str] = {}
    samples: dict[str, int] = {}
    for index, kind in enumerate(LAUNCH_KINDS):
        chosen = latency[(launches.kind == index) & launches.found_idle & (latency >= 0)]
        samples[kind] = len(chosen)
        if len(chosen) >= FEWEST_SAMPLES:
            value = np.percentile(chosen, FLOOR_PERCENTILE, method="lower")
            floors[kind], source[kind] = int(value), "measured"
        elif recorded_ns is not None and kind in (KERNEL, GRAPH):
            floors[kind], source[kind] = recorded_ns, "recording"
        elif floors.get(KERNEL) and source[KERNEL] == "measured":
            # The kinds' floors lie within a microsecond of each other on one machine; machines
            # differ by twice that, so the neighbour beats a value from another machine.
            floors[kind], source[kind] = floors[KERNEL], "measured"
        else:
            floors[kind], source[kind] = typical_ns[kind], "typical"
        if len(chosen) and source[kind] != "measured":
            # A floor that a launch of this very trace undercut is no floor.
            floors[kind] = min(floors[kind], int(chosen.min()))
    return LatencyFloors(floor_ns=floors, source=source, samples=samples)
