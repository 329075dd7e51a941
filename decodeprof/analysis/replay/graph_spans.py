"""What do the graphs of a step take when no profiler watches their nodes?

A profiler that traces nodes changes the gaps between them: of one graph of 1,767 nodes it showed
4.37 and 5.00 ms in two recordings, while the graph took 4.64 ms. And it makes the launch call of
such a graph last milliseconds instead of tens of microseconds. A recording therefore times each
replay of one unprofiled call, and a program that is to tell unprofiled time takes its graphs' times
from there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from decodeprof.analysis.launches import GRAPH, LAUNCH_KINDS, Launches
from decodeprof.analysis.replay.delays import graph_key
from decodeprof.analysis.replay.program import Program
from decodeprof.model.trace import Trace


@dataclass(frozen=True)
class GraphTimes:
    """Unprofiled times of one graph, in ns."""

    span_ns: int
    """From its first node's start to its last one's end."""
    host_ns: int
    """Of its launch call."""


def graph_times(
    trace: Trace, launches: Launches, *, device_ns: list[int], host_ns: list[int], queued_ns: int
) -> dict[bytes, GraphTimes]:
    """Match the timed replays to the graphs of a trace, by their order in the call.

    Args:
        trace: of a call that replays the same graphs in the same order, or the first of them.
        launches: the launches on the device.
        device_ns: each replay's time in the unprofiled call.
        host_ns: each replay's launch call there.
        queued_ns: the gap before a graph that was queued, which the timed replays hold.

    Returns:
        By `delays.graph_key`: medians over each graph's replays. Nothing where the trace replays
        more graphs than were timed: then the two calls differ.
    """
    rows = np.flatnonzero(launches.kind == LAUNCH_KINDS.index(GRAPH))
    if not len(rows) or len(rows) > min(len(device_ns), len(host_ns)):
        return {}
    table = trace.device
    order = np.argsort(table.call, kind="stable")
    begins = np.searchsorted(table.call[order], launches.call[rows], side="left")
    ends = np.searchsorted(table.call[order], launches.call[rows], side="right")
    spans: dict[bytes, list[tuple[int, int]]] = {}
    for index, (begin, end) in enumerate(zip(begins, ends, strict=True)):
        key = graph_key(table, order[begin:end])
        spans.setdefault(key, []).append((device_ns[index], host_ns[index]))
    return {
        key: GraphTimes(
            span_ns=max(int(np.median([span for span, _ in seen])) - queued_ns, 1),
            host_ns=int(np.median([host for _, host in seen])),
        )
        for key, seen in spans.items()
    }


def with_graph_times(program: Program, trace: Trace, times: dict[bytes, GraphTimes]) -> Program:
    """The same with each graph as long as it was without a profiler, and its launch as short.

    Nodes keep their durations; what the graph takes beyond them, or less, is between them.
    """
    events = program.events
    if not times or not events.is_launch.any():
        return program
    between, own, submit = events.between_ns.copy(), events.own_ns.copy(), events.submit_ns.copy()
    work, lag, tail = events.work_ns.copy(), events.lag_ns.copy(), program.tail_ns
    total = np.r_[0, np.cumsum(program.duration_ns)]
    for at in np.flatnonzero(events.is_launch & (events.count > 1)).tolist():
        first, count = int(events.first[at]), int(events.count[at])
        known = times.get(graph_key(trace.device, program.activity[first : first + count]))
        if known is None:
            continue
        between[at] = known.span_ns - int(total[first + count] - total[first])
        less = max(int(own[at]) - known.host_ns, 0)
        # A call's own time is part of the next event's work.
        if at + 1 < len(events):
            less = min(less, int(work[at + 1]))
            work[at + 1] -= less
        else:
            less = min(less, tail)
            tail -= less
        own[at] -= less
        submit[at] = min(int(submit[at]), int(own[at]))
    return replace(
        program,
        events=replace(
            events, between_ns=between, own_ns=own, submit_ns=submit, work_ns=work, lag_ns=lag
        ),
        tail_ns=tail,
    )
