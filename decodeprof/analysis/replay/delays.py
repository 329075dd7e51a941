"""How far do the device and the runtime lag behind what was asked of them?

Learnt once from a recording, beside the latency floors: the gap that the device leaves between two
queued activities, the gap between a graph's nodes, how long after the drain a blocking call
returns, and which pageable copies blocked. Nothing else of the recorded device times enters replay.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from decodeprof.analysis.host import blocking_calls
from decodeprof.analysis.launches import GRAPH, LAUNCH_KINDS, LatencyFloors, Launches
from decodeprof.analysis.replay.waits import ALL_STREAMS, RECORD, WAIT, OrderCalls, order_calls
from decodeprof.model.trace import I64, NONE, Bool, DeviceTable, Trace

# Gaps between queued kernels on an H200: 1.1 to 1.7 µs after kernels, 0.8 µs before sets, 4.7 µs
# before a graph, 4.5 to 9 µs before copies. Used where a recording has no queued pair of a kind.
TYPICAL_QUEUED_NS = {"kernel": 1_300, "copy": 5_000, "set": 900, "graph": 4_700}
# Idle time between two nodes of a graph on an H200: median 0.416 µs over several models.
TYPICAL_NODE_GAP_NS = 420
# A stream sync returns 3 to 13 µs after the drain on H200 machines.
TYPICAL_RETURN_NS = 8_000
TYPICAL_CALL_NS = 2_500
# An arrival varies by a microsecond or two: what should have arrived this much before its
# predecessor's end was queued by then.
ARRIVAL_JITTER_NS = 2_000
# A call that waited this long has a return latency that its own cost does not hide.
REALLY_WAITED_NS = 20_000
FEWEST_NODE_GAPS = 20
FEWEST_TAILS = 5
# The median of fewer launches of a graph would be one of the launches that it is to reproduce.
FEWEST_LAUNCHES_OF_GRAPH = 3


@dataclass(frozen=True)
class GraphLags:
    """What one graph takes beside its nodes' durations, in ns."""

    between_ns: int
    """All gaps between its nodes together; negative where they overlap."""
    span_ns: int
    """From its first node's start to its last one's end."""


@dataclass(frozen=True)
class Delays:
    """What replay needs to know of lags, all in ns."""

    queued_ns: dict[str, int]
    """Gap before a queued activity, by launch kind."""
    node_gap_ns: int
    """Between consecutive nodes of a graph whose own is not known."""
    node_gap_source: str
    """measured (in this recording's graph launches) | typical."""
    tail_ns: dict[str, int]
    """From the end of a launch call to its activity on an idle device, by launch kind (median).

    On H200s a kernel starts 1.5 µs after its call returns, whether the call took 5 or 400 µs: what
    makes a launch call long comes before the launch leaves for the device. So the call's own
    duration, which a profiler dilates as it does all host work, is the larger part of a latency.
    """
    upload_tail_ns: int
    """The same for a graph's first launch: its call uploads the graph as well."""
    returns_ns: dict[tuple[int, int], int]
    """From the drain to a blocking call's return, by API and by the name of what it waited for."""
    calls_ns: dict[tuple[int, int], int]
    """What a blocking call takes when there is nothing to wait for."""
    blocking: Bool
    """Which rows of `Trace.calls` made the host wait."""
    graphs: dict[bytes, GraphLags]
    """Of each graph that was launched often enough, by `graph_key`."""

    def of_wait(self, api: int, activity_name: int) -> tuple[int, int]:
        """Return latency and least duration of a wait, from its like or else from its API."""
        for key in ((api, activity_name), (api, NONE), (NONE, NONE)):
            if key in self.returns_ns:
                return self.returns_ns[key], self.calls_ns[key]
        return TYPICAL_RETURN_NS, TYPICAL_CALL_NS


def learn_delays(
    trace: Trace, *, device: int, thread: int, launches: Launches, floors: LatencyFloors
) -> Delays:
    """Learn the lags of one device from a recording.

    Args:
        trace: the trace.
        device: the device.
        thread: the launching thread.
        launches: the launches on that device.
        floors: their latency floors.
    """
    blocking = blocking_calls(trace)
    order = order_calls(trace, launches, thread=thread, blocking=blocking)
    returns, least = _returns(trace, launches, order)
    gap, source = _node_gap(trace, device)
    tails = _tails(trace, launches, floors)
    return Delays(
        queued_ns=_queued(trace, launches, tails),
        node_gap_ns=gap,
        node_gap_source=source,
        tail_ns=tails,
        upload_tail_ns=_upload_tail(trace, launches, usual=tails[GRAPH]),
        returns_ns=returns,
        calls_ns=least,
        blocking=blocking,
        graphs=_graphs(trace, device),
    )


def graph_key(table: DeviceTable, rows: I64) -> bytes:
    """What tells a graph from others: its nodes' names, in any order."""
    return np.sort(table.name[rows]).tobytes()


def _graphs(trace: Trace, device: int) -> dict[bytes, GraphLags]:
    """Medians over each graph's launches: how many sets and copies it holds decides its gaps.

    A kernel that is launched before its predecessor has ended (programmatic dependent launch)
    lasts until it has: how far two overlap is in both their durations, which then say little. What
    such a graph takes as a whole repeats better.
    """
    table = trace.device
    rows = np.flatnonzero((table.device == device) & (table.call != NONE))
    rows = rows[np.argsort(table.call[rows], kind="stable")]
    calls, begins = np.unique(table.call[rows], return_index=True)
    seen: dict[bytes, list[tuple[int, int]]] = {}
    for nodes in np.split(rows, begins[1:]) if len(calls) else []:
        if len(nodes) > 1:
            starts, ends = table.start_ns[nodes], table.end_ns[nodes]
            span = int(ends.max() - starts.min())
            lags = (span - int((ends - starts).sum()), span)
            seen.setdefault(graph_key(table, nodes), []).append(lags)
    return {
        key: GraphLags(
            between_ns=_middle(np.array([lag[0] for lag in lags], np.int64), 0),
            span_ns=_middle(np.array([lag[1] for lag in lags], np.int64), 0),
        )
        for key, lags in seen.items()
        if len(lags) >= FEWEST_LAUNCHES_OF_GRAPH
    }


def ends_of_launches(trace: Trace, launches: Launches) -> I64:
    """The end of each launch's last activity."""
    table = trace.device
    last = np.full(len(trace.calls), np.iinfo(np.int64).min)
    linked = np.flatnonzero(table.call != NONE)
    np.maximum.at(last, table.call[linked], table.end_ns[linked])
    return last[launches.call]


def _queued(trace: Trace, launches: Launches, tails: dict[str, int]) -> dict[str, int]:
    """Median gap between an activity that was surely queued and its stream's previous one."""
    table = trace.device
    ends = ends_of_launches(trace, launches)
    streams = table.stream[launches.activity]
    gaps = np.zeros(launches.count, np.int64)
    queued = np.zeros(launches.count, bool)
    tail = np.array([tails[kind] for kind in LAUNCH_KINDS], np.int64)[launches.kind]
    ready = trace.calls.end_ns[launches.call] + tail + ARRIVAL_JITTER_NS
    for stream in np.unique(streams):
        mine = np.flatnonzero(streams == stream)
        before, after = mine[:-1], mine[1:]
        gaps[after] = table.start_ns[launches.activity[after]] - ends[before]
        queued[after] = ready[after] <= ends[before]
    found = dict(TYPICAL_QUEUED_NS)
    for index, kind in enumerate(LAUNCH_KINDS):
        chosen = gaps[queued & (launches.kind == index) & (gaps >= 0)]
        if len(chosen):
            found[kind] = int(np.percentile(chosen, 50, method="lower"))
    return found


def _node_gap(trace: Trace, device: int) -> tuple[int, str]:
    """Median over graph launches of (span less durations) per gap."""
    table = trace.device
    rows = np.flatnonzero((table.device == device) & (table.call != NONE))
    calls, inverse, sizes = np.unique(table.call[rows], return_inverse=True, return_counts=True)
    first = np.full(len(calls), np.iinfo(np.int64).max)
    last = np.full(len(calls), np.iinfo(np.int64).min)
    total = np.zeros(len(calls), np.int64)
    np.minimum.at(first, inverse, table.start_ns[rows])
    np.maximum.at(last, inverse, table.end_ns[rows])
    np.add.at(total, inverse, table.end_ns[rows] - table.start_ns[rows])
    many = sizes > 1
    if int((sizes[many] - 1).sum()) < FEWEST_NODE_GAPS:
        return TYPICAL_NODE_GAP_NS, "typical"
    # Of the launches of the largest graphs: small ones have few gaps, which say little.
    many &= 2 * sizes >= sizes.max()
    gap = round(float(np.median((last - first - total)[many] / (sizes[many] - 1))))
    # Nodes that overlap leave no gap that could be measured.
    return (gap, "measured") if gap >= 0 else (TYPICAL_NODE_GAP_NS, "typical")


def _tails(trace: Trace, launches: Launches, floors: LatencyFloors) -> dict[str, int]:
    """Median of (activity's start - call's end) over launches that found the device idle."""
    calls = trace.calls
    tail = trace.device.start_ns[launches.activity] - calls.end_ns[launches.call]
    own = calls.end_ns[launches.call] - calls.start_ns[launches.call]
    uploads = first_of_graph(trace, launches)
    found: dict[str, int] = {}
    for index, kind in enumerate(LAUNCH_KINDS):
        mine = launches.kind == index
        idle = mine & launches.found_idle
        if (idle & ~uploads).any():
            idle &= ~uploads
        if int(idle.sum()) >= (1 if kind == GRAPH else FEWEST_TAILS):
            found[kind] = _middle(tail[idle], 0)
        elif kind == GRAPH:
            found[kind] = 0
        else:
            # The usual call then arrives one latency floor after its start.
            usual = _middle(own[mine], floors.floor_ns[kind])
            found[kind] = floors.floor_ns[kind] - usual
    return found


def _upload_tail(trace: Trace, launches: Launches, *, usual: int) -> int:
    first = first_of_graph(trace, launches) & launches.found_idle
    tail = trace.device.start_ns[launches.activity] - trace.calls.end_ns[launches.call]
    return _middle(tail[first], usual)


def first_of_graph(trace: Trace, launches: Launches) -> Bool:
    """Which launches are the first of their graph, told from others by its number of nodes.

    Uploading a graph's nodes takes as long as all else in a launch call, and goes on while the
    first ones already run.
    """
    call = trace.device.call
    sizes = np.bincount(call[call != NONE], minlength=len(trace.calls))[launches.call]
    graphs = np.flatnonzero(launches.kind == LAUNCH_KINDS.index(GRAPH))
    first = np.zeros(launches.count, np.bool_)
    first[graphs[np.unique(sizes[graphs], return_index=True)[1]]] = True
    return first


def last_launches(trace: Trace, launches: Launches, order: OrderCalls) -> I64:
    """For each wait the index of the last launch that it waits for; -1: nothing was launched."""
    streams = trace.device.stream[launches.activity]
    until = trace.calls.start_ns[order.call].copy()
    stream = order.stream.copy()
    recorded = np.flatnonzero(order.recorded_by != NONE)
    if len(recorded):
        position = {int(call): i for i, call in enumerate(order.call) if order.op[i] == RECORD}
        for i in recorded.tolist():
            at = position.get(int(order.recorded_by[i]))
            if at is not None:
                until[i], stream[i] = trace.calls.start_ns[order.call[at]], order.stream[at]
    found = np.full(len(order.call), NONE, np.int64)
    for value in np.unique(stream):
        mine = np.flatnonzero(stream == value)
        known = (
            np.arange(launches.count) if value == ALL_STREAMS else np.flatnonzero(streams == value)
        )
        if len(known):
            last = np.searchsorted(launches.start_ns[known], until[mine], side="right") - 1
            found[mine] = np.where(last >= 0, known[np.maximum(last, 0)], NONE)
    return found


def _returns(
    trace: Trace, launches: Launches, order: OrderCalls
) -> tuple[dict[tuple[int, int], int], dict[tuple[int, int], int]]:
    calls = trace.calls
    waits = np.flatnonzero(order.op == WAIT)
    last = last_launches(trace, launches, order)[waits]
    waits, last = waits[last != NONE], last[last != NONE]
    if not len(waits):
        return {}, {}
    ends = ends_of_launches(trace, launches)
    drained = np.where(
        order.stream[waits] == ALL_STREAMS, np.maximum.accumulate(ends)[last], ends[last]
    )
    rows = order.call[waits]
    api = calls.name[rows]
    what = trace.device.name[launches.activity[last]]
    duration = calls.end_ns[rows] - calls.start_ns[rows]
    late = calls.end_ns[rows] - drained
    waited = drained - calls.start_ns[rows]
    returns: dict[tuple[int, int], int] = {}
    least: dict[tuple[int, int], int] = {}
    pairs = {(int(a), int(w)) for a, w in zip(api, what, strict=True)}
    keys = [*sorted(pairs), *sorted({(a, NONE) for a, _ in pairs}), (NONE, NONE)]
    for key in keys:
        mine = ((api == key[0]) | (key[0] == NONE)) & ((what == key[1]) | (key[1] == NONE))
        real, some = mine & (waited > REALLY_WAITED_NS), mine & (waited > 0)
        sample = late[real] if real.any() else late[some]
        idle = duration[mine & (waited <= 0)]
        if not len(sample) and key[0] != NONE:
            continue
        returns[key] = max(_middle(sample, TYPICAL_RETURN_NS), 0)
        least[key] = _middle(idle, min(TYPICAL_CALL_NS, int(duration[mine].min())))
    return returns, least


def _middle(values: I64, otherwise: int) -> int:
    return int(np.percentile(values, 50, method="lower")) if len(values) else otherwise
