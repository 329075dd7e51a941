"""How does a recording become a program?

The host's clock of work stands still while the launching thread is blocked: in a blocking call, or
in a launch call that found the queue full. Events are placed on that clock by their calls' starts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from decodeprof.analysis.host import host_time
from decodeprof.analysis.intervals import Intervals, union
from decodeprof.analysis.launches import GRAPH, LAUNCH_KINDS, LatencyFloors, Launches
from decodeprof.analysis.replay.delays import (
    Delays,
    first_of_graph,
    graph_key,
    last_launches,
    learn_delays,
)
from decodeprof.analysis.replay.program import LAUNCH, Events, Program
from decodeprof.analysis.replay.run import play_once
from decodeprof.analysis.replay.waits import RECORD, WAIT, OrderCalls, order_calls
from decodeprof.analysis.steps.found import Steps
from decodeprof.model.trace import I8, I64, NONE, Trace

# What CUDA's launch queue held on several NVIDIA GPUs; a recording measures its own.
TYPICAL_QUEUE_DEPTH = 1_024
# A launch is taken for blocked only where replay finds the queue this full at its call …
FULL_SHARE = 0.9
# … or, for graphs, whose nodes fill a queue unseen, with an earlier graph not yet begun; and where
# the call took this many times what its like usually takes.
BLOCKED_TIMES = 2
UNBLOCKED_PERCENTILE = 10


@dataclass(frozen=True)
class Source:
    """A recording with all that was learnt from it: what programs are built from."""

    trace: Trace
    steps: Steps
    device: int
    thread: int
    launches: Launches
    floors: LatencyFloors
    delays: Delays
    order: OrderCalls
    queue_depth: int
    blocked_ns: I64
    """Per row of `trace.calls`: how long a launch stood blocked by a full queue."""


def prepare(
    trace: Trace,
    steps: Steps,
    *,
    device: int,
    thread: int,
    launches: Launches,
    floors: LatencyFloors,
    queue_depth: int | None = None,
) -> Source:
    """Learn what replay needs from a recording.

    Args:
        trace: the trace.
        steps: its steps.
        device: the device whose steps are replayed.
        thread: the launching thread.
        launches: the launches on that device.
        floors: their latency floors.
        queue_depth: launches that may be outstanding, where it was measured.
    """
    delays = learn_delays(trace, device=device, thread=thread, launches=launches, floors=floors)
    source = Source(
        trace=trace,
        steps=steps,
        device=device,
        thread=thread,
        launches=launches,
        floors=floors,
        delays=delays,
        order=order_calls(trace, launches, thread=thread, blocking=delays.blocking),
        queue_depth=queue_depth or TYPICAL_QUEUE_DEPTH,
        blocked_ns=np.zeros(len(trace.calls), np.int64),
    )
    return replace(source, blocked_ns=_blocked(source))


def build_program(source: Source, rows: range | None = None) -> Program:
    """Build the program of a range of consecutive steps, or of the whole recording.

    Args:
        source: the prepared recording.
        rows: indices of consecutive steps; None: everything, which then is no period.
    """
    trace, steps = source.trace, source.steps
    calls, launches, order = trace.calls, source.launches, source.order
    begin, end, call, op, of_launch, of_order = _sequence(source, rows)
    work, python = _work(source, np.r_[begin, calls.start_ns[call], end])
    streams, index = np.unique(trace.device.stream[launches.activity], return_inverse=True)
    first, count, activity = _activities(source, call, of_launch)
    first_step = rows[0] if rows is not None else 0
    step = steps.call_step[call] - first_step
    inside = (step >= 0) & (step < (len(rows) if rows is not None else max(steps.count, 1)))
    lag, least = _wait_lags(source, of_order)
    launched = of_launch != NONE
    lag[launched], own, submit = _launch_lags(source, of_launch[launched])
    events = Events(
        op=op,
        work_ns=work[:-1],
        python_ns=python[:-1],
        call=call.astype(np.int64),
        stream=_stream_index(source, of_launch, of_order, streams=streams, index=index),
        slot=_slots(order, of_order),
        own_ns=_spread(own, launched),
        submit_ns=_spread(submit, launched),
        lag_ns=lag,
        least_ns=least,
        queued_ns=_spread(_queued(source, of_launch[launched]), launched),
        first=first,
        count=count,
        between_ns=_between(source, first, count, activity),
        step=np.where(inside, step, NONE).astype(np.int32),
    )
    return Program(
        events=events,
        tail_ns=int(work[-1]),
        tail_python_ns=int(python[-1]),
        duration_ns=trace.device.end_ns[activity] - trace.device.start_ns[activity],
        activity=activity,
        steps=len(rows) if rows is not None else steps.count,
        streams=len(streams),
        slots=int((op == RECORD).sum()),
        queue_depth=source.queue_depth,
    )


def _sequence(source: Source, rows: range | None) -> tuple[int, int, I64, I8, I64, I64]:
    """Begin and end of the stretch, and its launches and ordering calls in the order of time.

    Returns:
        begin, end, and for each event its call, its op, and its row in `Source.launches` or in
        `Source.order` (-1 in the other).
    """
    calls, steps = source.trace.calls, source.steps
    launches, order = source.launches, source.order
    call = np.r_[launches.call, order.call]
    op = np.r_[np.full(launches.count, LAUNCH, np.int8), order.op]
    of_launch = np.r_[np.arange(launches.count), np.full(len(order.call), NONE)]
    of_order = np.r_[np.full(launches.count, NONE), np.arange(len(order.call))]
    # A copy that waits for itself is launched before it waits.
    sequence = np.lexsort((op, call, calls.start_ns[call]))
    if rows is None:
        begin = int(calls.start_ns[call].min()) if len(call) else 0
        end = int(calls.end_ns[call].max()) if len(call) else 0
    else:
        begin, end = int(steps.host_start_ns[rows[0]]), int(steps.host_end_ns[rows[-1]])
        if rows[-1] + 1 < steps.count:
            # What the loop does between two marked steps recurs with them.
            end = int(steps.host_start_ns[rows[-1] + 1])
        at = calls.start_ns[call[sequence]]
        sequence = sequence[(at >= begin) & (at < end)]
    return begin, end, call[sequence], op[sequence], of_launch[sequence], of_order[sequence]


def _spread(values: I64, chosen: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> I64:
    column = np.zeros(len(chosen), np.int64)
    column[chosen] = values
    return column


def _blocked_time(source: Source) -> Intervals:
    """When the launching thread stood still: blocking calls and blocked launches."""
    calls, order = source.trace.calls, source.order
    waits = order.call[order.op == WAIT]
    full = np.flatnonzero(source.blocked_ns)
    return union(
        np.r_[calls.start_ns[waits], calls.end_ns[full] - source.blocked_ns[full]],
        np.r_[calls.end_ns[waits], calls.end_ns[full]],
    )


def _work(source: Source, times: I64) -> tuple[I64, I64]:
    """Host work between consecutive times, and the Python part of it."""
    starts, ends = times[:-1], np.maximum(times[1:], times[:-1])
    work = (ends - starts) - _blocked_time(source).within(starts, ends)
    python = host_time(source.trace, source.thread).split(starts, ends)["python"]
    return work, np.minimum(python, work)


def _activities(source: Source, call: I64, of_launch: I64) -> tuple[I64, I64, I64]:
    """First activity and number of activities of each event, and all activities in order."""
    table = source.trace.device
    mine = np.flatnonzero((table.device == source.device) & (table.call != NONE))
    position = np.full(len(source.trace.calls), NONE, np.int64)
    launched = np.flatnonzero(of_launch != NONE)
    position[call[launched]] = np.arange(len(launched))
    mine = mine[position[table.call[mine]] != NONE]
    where = position[table.call[mine]]
    # Rows keep the recorded order within a launch: a graph's nodes run in it.
    activity = mine[np.lexsort((mine, where))].astype(np.int64)
    sizes = np.bincount(where, minlength=len(launched)).astype(np.int64)
    count = np.zeros(len(call), np.int64)
    count[launched] = sizes
    first = np.cumsum(count) - count
    return first, count, activity


def _between(source: Source, first: I64, count: I64, activity: I64) -> I64:
    """The gaps between the nodes of each launch: what its own graph usually has."""
    table, delays = source.trace.device, source.delays
    total = np.r_[0, np.cumsum(table.end_ns[activity] - table.start_ns[activity])]
    spent = total[first + count] - total[first]
    found = np.maximum(count - 1, 0) * delays.node_gap_ns
    for at in np.flatnonzero(count > 1).tolist():
        graph = delays.graphs.get(graph_key(table, activity[first[at] : first[at] + count[at]]))
        if graph is not None:
            overlaps = graph.between_ns < 0
            found[at] = graph.span_ns - spent[at] if overlaps else graph.between_ns
    return found


def _wait_lags(source: Source, of_order: I64) -> tuple[I64, I64]:
    lag, least = np.zeros(len(of_order), np.int64), np.zeros(len(of_order), np.int64)
    last = last_launches(source.trace, source.launches, source.order)
    names = source.trace.device.name
    for i, row in enumerate(of_order.tolist()):
        if row == NONE or source.order.op[row] != WAIT:
            continue
        api = int(source.trace.calls.name[source.order.call[row]])
        what = NONE if last[row] == NONE else int(names[source.launches.activity[last[row]]])
        lag[i], least[i] = source.delays.of_wait(api, what)
    return lag, least


def _launch_lags(source: Source, of_launch: I64) -> tuple[I64, I64, I64]:
    """What a launch takes after its call, the call's own work, and that part until it leaves."""
    kind = source.launches.kind[of_launch]
    tail = np.array([source.delays.tail_ns[k] for k in LAUNCH_KINDS], np.int64)[kind]
    first = first_of_graph(source.trace, source.launches)[of_launch]
    tail = np.where(first, source.delays.upload_tail_ns, tail)
    calls = source.launches.call[of_launch]
    own = source.trace.calls.end_ns[calls] - source.trace.calls.start_ns[calls]
    own = own - source.blocked_ns[calls]
    submit = np.maximum(own + np.minimum(tail, 0), 0)
    lag = np.maximum(tail, 0)
    # A copy that waits for itself returns after it ran: its call's end says nothing of its launch.
    waits = np.isin(calls, source.order.call[source.order.own_launch])
    own[waits] = submit[waits] = 0
    lag[waits] = source.floors.of(kind[waits])
    return lag, own, submit


def _queued(source: Source, of_launch: I64) -> I64:
    table = np.array([source.delays.queued_ns[kind] for kind in LAUNCH_KINDS], np.int64)
    return table[source.launches.kind[of_launch]]


def _stream_index(
    source: Source, of_launch: I64, of_order: I64, *, streams: I64, index: I64
) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    found = np.full(len(of_launch), NONE, np.int32)
    launched = of_launch != NONE
    found[launched] = index[of_launch[launched]]
    acted = source.order.stream[of_order[~launched]]
    at = np.minimum(np.searchsorted(streams, acted), max(len(streams) - 1, 0))
    known = (streams[at] == acted) if len(streams) else np.zeros(len(acted), bool)
    # A stream to which nothing was launched has nothing to wait for; -1 would mean all streams.
    found[~launched] = np.where(known, at, NONE)
    return found


def _slots(order: OrderCalls, of_order: I64) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    """Number the events recorded in the stretch, and find those that its waits mean.

    A wait for an event of the stretch before means the same event of the last repetition, counted
    from that stretch's end.
    """
    slot = np.full(len(of_order), NONE, np.int32)
    rows = of_order[of_order != NONE]
    records = order.call[rows[order.op[rows] == RECORD]]
    if not len(records):
        return slot
    every = order.call[order.op == RECORD]
    before = int(np.searchsorted(every, records[0]))
    number = {int(call): i for i, call in enumerate(records.tolist())}
    place = {int(call): i for i, call in enumerate(every.tolist())}
    for i, row in enumerate(of_order.tolist()):
        if row == NONE:
            continue
        if order.op[row] == RECORD:
            slot[i] = number[int(order.call[row])]
        elif order.recorded_by[row] != NONE:
            meant = int(order.recorded_by[row])
            if meant in number:
                slot[i] = number[meant]
                continue
            earlier = before - place.get(meant, before)
            slot[i] = (len(records) - earlier) % len(records)
            if order.call[row] > records[slot[i]]:
                slot[i] += len(records)
    return slot


def _blocked(source: Source) -> I64:
    """How long each launch call stood blocked: found by replay, not by recorded device starts.

    The whole recording is replayed with every call as long as it was; where the replayed queue is
    full at an unusually long launch call, what exceeds the usual duration was a wait.
    """
    blocked = np.zeros(len(source.trace.calls), np.int64)
    if not source.launches.count:
        return blocked
    program = replace(build_program(source), queue_depth=2**62)
    run = play_once(program)
    launched = program.events.is_launch
    call = program.events.call[launched]
    start = np.sort(run.start_ns[launched])
    depth = np.arange(len(call)) - np.searchsorted(start, run.launch_ns[launched], side="right")
    graph = source.launches.kind == LAUNCH_KINDS.index(GRAPH)
    is_graph = np.isin(call, source.launches.call[graph])
    full = np.where(is_graph, depth >= 1, depth >= FULL_SHARE * source.queue_depth)
    duration = source.trace.calls.end_ns[call] - source.trace.calls.start_ns[call]
    size = program.events.count[launched]
    name = source.trace.calls.name[call]
    for key in {(int(n), int(s)) for n, s in zip(name[full], size[full], strict=True)}:
        mine = (name == key[0]) & (size == key[1])
        usual = int(np.percentile(duration[mine], UNBLOCKED_PERCENTILE, method="lower"))
        if (mine & ~full).any():
            usual = min(usual, int(np.percentile(duration[mine & ~full], 50, method="lower")))
        long = mine & full & (duration > BLOCKED_TIMES * usual)
        blocked[call[long]] = duration[long] - usual
    return blocked
