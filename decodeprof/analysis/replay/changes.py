"""What would a program look like without its waits, with a faster host, or captured in graphs?"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from decodeprof.analysis.grouping import rows_by_value
from decodeprof.analysis.replay.delays import TYPICAL_NODE_GAP_NS, TYPICAL_QUEUED_NS, Delays
from decodeprof.analysis.replay.program import LAUNCH, Events, Program
from decodeprof.analysis.replay.run import replay
from decodeprof.analysis.replay.waits import WAIT
from decodeprof.analysis.traffic.columns import KernelTraffic
from decodeprof.model.graph_nodes import NodeCosts, costs_ns, mixture, whole_gap
from decodeprof.model.trace import I64, NONE, Bool, Trace

# What one launch call of an instantiated graph takes on the host where nobody measured it.
TYPICAL_GRAPH_LAUNCH_NS = 10_000
# A kernel that moves bytes at this share of the measured bandwidth waits for memory: what a
# profiler adds to its blocks is hidden. One of 0.9 of it shows nothing on an H200, one of 0.55 all.
MEMORY_BOUND_SHARE = 0.7
# Mean gaps beyond this are not the device's own step from node to node: branches wait there.
LARGEST_NODE_GAP_NS = 5_000
# A piece of this little of a step's activities is captured together with its neighbour: nobody
# makes a graph of the two copies that precede a step.
SMALL_PIECE_SHARE = 0.1


@dataclass(frozen=True)
class GraphCosts:
    """What a captured step pays besides its activities, in ns."""

    node_gap_ns: int
    source: str
    """ceilings | trace | typical: how the node gap is known; the last is modelled."""
    launch_ns: int
    """Host time of one graph launch."""
    lag_ns: int
    """From the launch call's end to the first node, on an idle device."""
    queued_ns: int
    """Gap before a graph that was queued."""
    large_gap_ns: int | None = None
    """The node gap of kernels of many blocks, where it is known apart."""


def graph_costs(
    delays: Delays,
    *,
    measured_gap_ns: int | None,
    measured_launch_ns: int | None,
    measured_start_ns: int | None = None,
    measured_large_gap_ns: int | None = None,
) -> GraphCosts:
    """The costs from the device's ceilings, else from graph launches in this trace, else typical.

    Args:
        delays: what was learnt from the recording.
        measured_gap_ns: the node gap among the recording's ceilings.
        measured_launch_ns: the host time of a graph launch among them.
        measured_start_ns: the device time before a queued graph's first node among them.
        measured_large_gap_ns: the node gap of kernels of many blocks among them.
    """
    gap, source = TYPICAL_NODE_GAP_NS, "typical"
    if measured_gap_ns is not None:
        gap, source = measured_gap_ns, "ceilings"
    elif delays.node_gap_source == "measured" and 0 <= delays.node_gap_ns <= LARGEST_NODE_GAP_NS:
        gap, source = delays.node_gap_ns, "trace"
    return GraphCosts(
        node_gap_ns=gap,
        source=source,
        launch_ns=TYPICAL_GRAPH_LAUNCH_NS if measured_launch_ns is None else measured_launch_ns,
        lag_ns=max(delays.tail_ns["kernel"], 0),
        queued_ns=(
            min(delays.queued_ns["graph"], 2 * TYPICAL_QUEUED_NS["graph"])
            if measured_start_ns is None
            else measured_start_ns
        ),
        large_gap_ns=measured_large_gap_ns if source == "ceilings" else None,
    )


def node_shifts(
    trace: Trace, program: Program, costs: NodeCosts, *, hidden: Bool | None = None
) -> I64:
    """How much longer each activity would take as a graph's node than one of few blocks, in ns.

    What is already in a graph does not change.

    Args:
        trace: the trace.
        program: a program of it.
        costs: what nodes cost; the gap of few blocks is paid by every node.
        hidden: for each row of `trace.device`, whether it waits for memory (`memory_bound`).
    """
    shift = np.zeros(program.activities, np.int64)
    events = program.events
    rows = events.first[events.is_launch & (events.count == 1)]
    rows = rows[program.activity[rows] != NONE]
    device = trace.device.take(program.activity[rows])
    mixed = mixture(
        kind=device.kind,
        blocks=device.blocks,
        whole=whole_gap(trace.names)[device.name],
        hidden=None if hidden is None else hidden[program.activity[rows]],
    )
    shift[rows] = np.rint(costs_ns(costs, mixed) - costs.few_ns)
    return shift


def memory_bound(trace: Trace, traffic: KernelTraffic, bytes_per_s: float) -> Bool:
    """For each row of `trace.device`, whether it moves bytes about as fast as the device can.

    Args:
        trace: the trace.
        traffic: of its activities.
        bytes_per_s: the device's bandwidth.
    """
    ns = trace.device.end_ns - trace.device.start_ns
    return np.asarray(traffic.bytes >= MEMORY_BOUND_SHARE * bytes_per_s / 1e9 * np.maximum(ns, 1))


def longer(program: Program, by_ns: I64) -> Program:
    """The same with other durations; none falls below 1 ns."""
    return replace(program, duration_ns=np.maximum(program.duration_ns + by_ns, 1))


def scaled(program: Program, factor: float) -> Program:
    """The same with all host work multiplied; waits, latencies and activities stay."""
    events = program.events
    # Rounded on the running total, so that a thousand small parts lose nothing together.
    return replace(
        program,
        events=replace(
            events,
            work_ns=_scaled(events.work_ns, factor),
            python_ns=_scaled(events.python_ns, factor),
            own_ns=np.rint(events.own_ns * factor).astype(np.int64),
            submit_ns=np.rint(events.submit_ns * factor).astype(np.int64),
        ),
        tail_ns=round(program.tail_ns * factor),
        tail_python_ns=round(program.tail_python_ns * factor),
    )


def _scaled(work: I64, factor: float) -> I64:
    totals: I64 = np.rint(np.cumsum(work) * factor).astype(np.int64)
    return np.diff(totals, prepend=np.int64(0))


def without_waits(program: Program, chosen: Bool | None = None) -> Program:
    """The same with some waits, or all of them, taking no time.

    Args:
        program: the program.
        chosen: for each event, whether to remove it if it is a wait; None: all waits.
    """
    waits = np.asarray(program.events.op == WAIT)
    return program.with_events(~(waits if chosen is None else waits & chosen))


def without_host(program: Program) -> Program:
    """The device alone: no host work, no waits; queued activities one after the other."""
    return scaled(without_waits(program), 0.0)


def last_wait(program: Program) -> Bool:
    """The one wait that a whole-step graph leaves: the one behind most of the period's work.

    A graph cannot hold a wait. Those at the step's begin (tensors built on the host) have no place
    in a captured step; the one that reads the token after it may stay.
    """
    events = program.events
    waits = np.flatnonzero(events.op == WAIT)
    kept = np.zeros(len(events), bool)
    if not len(waits):
        return kept
    done = np.cumsum(program.block_ns())
    spent = np.diff(done[waits], prepend=done[waits[-1]] - done[-1])
    if program.steps == 1:
        kept[waits[int(spent.argmax())]] = True
        return kept
    for mine in rows_by_value(events.step[waits]).values():
        kept[waits[mine[int(spent[mine].argmax())]]] = True
    return kept


def as_graphs(program: Program, kept: Bool, costs: GraphCosts) -> Program:
    """The same with one graph launch for each piece of a step between the waits that are kept.

    Inside a piece the launches, their dispatch and the Python between them are gone. Outside stay
    the kept waits, and the Python between a wait, or a step's end, and the next piece.

    Args:
        program: the program, its host work already in the time that is wanted.
        kept: for each event, whether it is a wait that stays.
        costs: what graphs cost.
    """
    program, kept = _rotated(program, kept & (program.events.op == WAIT))
    events = program.events
    piece = _pieces(program, kept)
    work, python = events.work_ns.tolist(), events.python_ns.tolist()
    rows: list[tuple[int, int, int]] = []
    """(event, work before it, piece or -1)."""
    current, outside, launched = NONE, 0, 0
    for index in range(len(events)):
        if kept[index]:
            # The read of a token: its own dispatch stays, as does the launch call before it.
            rows.append((index, work[index] + launched, NONE))
            current, outside, launched = NONE, 0, 0
        elif piece[index] == NONE:
            outside += python[index] if current == NONE else 0
        elif piece[index] != current:
            current = int(piece[index])
            rows.append((index, outside + python[index] + launched, current))
            outside, launched = 0, costs.launch_ns
    return _graphed(program, rows, piece, costs=costs, tail_ns=launched + program.tail_python_ns)


def _rotated(program: Program, kept: Bool) -> tuple[Program, Bool]:
    """Begin the period behind its last kept wait: what follows it belongs to the next piece."""
    where = np.flatnonzero(kept)
    if not len(where) or where[-1] == len(kept) - 1:
        return program, kept
    order = np.r_[np.arange(where[-1] + 1, len(kept)), np.arange(where[-1] + 1)]
    events = program.events.take(order)
    work, python = events.work_ns.copy(), events.python_ns.copy()
    begins = len(kept) - int(where[-1]) - 1
    work[begins] += program.tail_ns
    python[begins] += program.tail_python_ns
    return (
        replace(
            program,
            events=replace(events, work_ns=work, python_ns=python),
            tail_ns=0,
            tail_python_ns=0,
        ),
        kept[order],
    )


def _pieces(program: Program, kept: Bool) -> I64:
    """Number of the piece that captures each launch; -1 for other events."""
    events = program.events
    launches = events.is_launch & (events.count > 0)
    after: I64 = np.cumsum(kept) - kept
    # Where every step has its wait, the waits part the steps; else their own begins do.
    by_step = int(kept.sum()) < program.steps
    step = events.step if by_step else np.zeros_like(events.step)
    key = after * (program.steps + 2) + step
    pieces = np.full(len(events), NONE, np.int64)
    rows = np.flatnonzero(launches)
    if not len(rows):
        return pieces
    number = np.cumsum(np.diff(key[rows], prepend=key[rows][0]) != 0)
    sizes = np.bincount(number, weights=events.count[rows])
    small = SMALL_PIECE_SHARE * program.activities / max(program.steps, 1)
    group: I64 = after[rows][np.r_[0, np.flatnonzero(np.diff(number)) + 1]]
    merged = np.arange(len(sizes))
    for index in range(1, len(sizes)):
        # Only across a step's begin: nothing is captured across a wait.
        if group[index] == group[index - 1] and min(sizes[index - 1], sizes[index]) < small:
            merged[index] = merged[index - 1]
    pieces[rows] = merged[number]
    return pieces


def _overlap_share(program: Program) -> float:
    """Of all activities' time, the share that streams run beside others: so do a graph's branches.

    Found by replay without a host and without gaps, in which streams wait for nothing but events.
    """
    if len(np.unique(program.events.stream[program.events.is_launch])) < 2:
        return 0.0
    alone = without_host(program)
    queued_ns = np.zeros_like(alone.events.queued_ns)
    bare = replace(alone, events=replace(alone.events, queued_ns=queued_ns))
    serial_ns = int(program.block_ns().sum())
    return max(0.0, 1 - replay(bare).period_ns / max(serial_ns, 1))


def _graphed(
    program: Program,
    rows: list[tuple[int, int, int]],
    piece: I64,
    *,
    costs: GraphCosts,
    tail_ns: int,
) -> Program:
    events = program.events
    durations: list[I64] = []
    activities: list[I64] = []
    first, count, between = (np.zeros(len(rows), np.int64) for _ in range(3))
    overlap = _overlap_share(program)
    # What is a graph already keeps the gaps of its nodes, if they are shorter, or its overlap.
    inside = np.minimum(events.between_ns, np.maximum(events.count - 1, 0) * costs.node_gap_ns)
    for at, (_, _, number) in enumerate(rows):
        if number == NONE:
            continue
        members = np.flatnonzero(piece == number)
        parts = [np.arange(events.first[i], events.first[i] + events.count[i]) for i in members]
        between[at] = inside[members].sum() + (len(members) - 1) * costs.node_gap_ns
        chosen = np.concatenate(parts)
        first[at], count[at] = sum(map(len, durations)), len(chosen)
        between[at] -= round(overlap * int(program.duration_ns[chosen].sum()))
        durations.append(program.duration_ns[chosen])
        activities.append(program.activity[chosen])
    index = np.array([row[0] for row in rows], np.int64)
    graph = np.array([row[2] != NONE for row in rows], bool)
    old = events.take(index)
    nothing = np.zeros(0, np.int64)
    return replace(
        program,
        events=Events(
            op=np.where(graph, LAUNCH, old.op).astype(np.int8),
            work_ns=np.array([row[1] for row in rows], np.int64),
            python_ns=np.zeros(len(rows), np.int64),
            call=np.where(graph, NONE, old.call),
            # A captured step is one graph; its branches join before the next launch.
            stream=np.where(graph, 0, NONE).astype(np.int32),
            slot=np.full(len(rows), NONE, np.int32),
            own_ns=np.where(graph, costs.launch_ns, 0),
            submit_ns=np.where(graph, costs.launch_ns, 0),
            lag_ns=np.where(graph, costs.lag_ns, old.lag_ns),
            least_ns=old.least_ns,
            queued_ns=np.where(graph, costs.queued_ns, 0),
            first=first,
            count=count,
            between_ns=between,
            step=old.step,
        ),
        tail_ns=tail_ns,
        tail_python_ns=0,
        duration_ns=np.concatenate([nothing, *durations]),
        activity=np.concatenate([nothing, *activities]),
    )
