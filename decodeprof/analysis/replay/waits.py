"""Which work does each blocking call, stream wait and event record concern?

The profiler's sync records say it where they were captured. Without them: a stream sync waits for
the stream that its thread launched to last, an event is recorded on that stream, and an event wait
means the event recorded last. That is how single-stream loops and fork-and-join code are written.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from decodeprof.analysis.grouping import rows_by_value
from decodeprof.analysis.launches import Launches
from decodeprof.model.calls import CallKind
from decodeprof.model.trace import I8, I64, NONE, SYNC_KINDS, Bool, Trace

ALL_STREAMS = -1
_STREAM_SYNC = SYNC_KINDS.index("Stream Sync")
_EVENT_KINDS = (SYNC_KINDS.index("Event Sync"), SYNC_KINDS.index("Stream Wait Event"))
WAIT, STREAM_WAIT, RECORD = 1, 2, 3


@dataclass(frozen=True)
class OrderCalls:
    """Calls that order host and device, in the order of their starts. Row-aligned."""

    call: I64
    """Row in `Trace.calls`."""
    op: I8
    """WAIT, STREAM_WAIT or RECORD."""
    stream: I64
    """WAIT: the stream waited for, `ALL_STREAMS` for the device; else the stream acted on."""
    recorded_by: I64
    """Row in `Trace.calls` of the call that recorded the event waited for; -1: no event."""
    own_launch: Bool
    """A copy that blocks until it is done itself."""


def order_calls(trace: Trace, launches: Launches, *, thread: int, blocking: Bool) -> OrderCalls:
    """Find what each ordering call of a thread waits for or records.

    Args:
        trace: the trace.
        launches: its launches on one device.
        thread: the launching thread.
        blocking: which rows of `trace.calls` made the host wait.
    """
    calls = trace.calls
    op = np.zeros(len(calls), np.int8)
    op[calls.kind == CallKind.EVENT_RECORD] = RECORD
    op[calls.kind == CallKind.STREAM_WAIT] = STREAM_WAIT
    op[blocking] = WAIT
    op[_inside_another(calls.start_ns, calls.end_ns, (op == WAIT) & (calls.thread == thread))] = 0
    rows = np.flatnonzero((op > 0) & (calls.thread == thread)).astype(np.int64)
    stream = _stream_before(trace, launches, rows, following=op[rows] == STREAM_WAIT)
    recorded_by = np.full(len(rows), NONE, np.int64)
    names = np.array([_waits_for_all(n) for n in trace.names], dtype=bool)
    stream[names[calls.name[rows]] | (calls.kind[rows] == CallKind.FREE)] = ALL_STREAMS
    on_event = np.array(["EventSynchronize" in n for n in trace.names], dtype=bool)
    is_event = (op[rows] == STREAM_WAIT) | on_event[calls.name[rows]]
    records = rows[op[rows] == RECORD]
    if len(records):
        at = np.searchsorted(records, rows[is_event]) - 1
        recorded_by[is_event] = np.where(at >= 0, records[np.maximum(at, 0)], NONE)
    _returned_too_early(trace, launches, rows, stream=stream, recorded_by=recorded_by)
    _from_sync_records(trace, rows, stream=stream, recorded_by=recorded_by)
    launching = np.zeros(len(calls), bool)
    launching[launches.call] = True
    return OrderCalls(
        call=rows,
        op=op[rows],
        stream=stream,
        recorded_by=recorded_by,
        own_launch=(op[rows] == WAIT) & launching[rows],
    )


def _waits_for_all(name: str) -> bool:
    return "DeviceSynchronize" in name or "CtxSynchronize" in name or "ThreadSynchronize" in name


def _inside_another(starts: I64, ends: I64, chosen: Bool) -> I64:
    """Blocking calls that began inside an earlier one: its time holds theirs."""
    rows = np.flatnonzero(chosen)
    if not len(rows):
        return rows
    reach = np.maximum.accumulate(ends[rows])
    return rows[1:][starts[rows[1:]] < reach[:-1]]


def _stream_before(trace: Trace, launches: Launches, rows: I64, *, following: Bool) -> I64:
    """The stream launched to last before each call; for `following`, next after it."""
    streams = trace.device.stream[launches.activity]
    if not len(streams):
        return np.full(len(rows), ALL_STREAMS, np.int64)
    # A copy that waits for itself is its own last launch: hence the right side.
    at = np.searchsorted(launches.start_ns, trace.calls.start_ns[rows], side="right") - 1
    at = np.where(following, np.minimum(at + 1, len(streams) - 1), at)
    return np.where(at >= 0, streams[np.maximum(at, 0)], ALL_STREAMS).astype(np.int64)


def _returned_too_early(
    trace: Trace, launches: Launches, rows: I64, *, stream: I64, recorded_by: I64
) -> None:
    """Choose an earlier event where a wait returned before the assumed one can have happened.

    A loop that reads step i - 1 while step i runs waits for the event before the last one.
    """
    calls = trace.calls
    place = {int(row): at for at, row in enumerate(rows.tolist())}
    records = [int(row) for row in rows.tolist() if calls.kind[row] == CallKind.EVENT_RECORD]
    order = {row: i for i, row in enumerate(records)}
    of_stream = rows_by_value(trace.device.stream[launches.activity])
    nothing = np.empty(0, np.int64)
    ends = trace.device.end_ns[launches.activity]
    for at in np.flatnonzero((recorded_by != NONE) & (calls.kind[rows] == CallKind.SYNC)).tolist():
        returned = int(calls.end_ns[rows[at]])
        index = order[int(recorded_by[at])]
        while index >= 0:
            row = records[index]
            until = int(np.searchsorted(launches.start_ns, calls.start_ns[row], side="right"))
            mine = of_stream.get(int(stream[place[row]]), nothing)
            last = int(np.searchsorted(mine, until)) - 1
            if last < 0 or int(ends[mine[last]]) <= returned:
                break
            index -= 1
        recorded_by[at] = records[index] if index >= 0 else NONE


def _from_sync_records(trace: Trace, rows: I64, *, stream: I64, recorded_by: I64) -> None:
    """Overwrite what was assumed by what the profiler recorded."""
    syncs, calls = trace.syncs, trace.calls
    if not len(syncs):
        return
    by_correlation = {int(c): i for i, c in enumerate(calls.correlation[rows].tolist()) if c > 0}
    record_rows = {
        int(c): int(row)
        for row, c in zip(
            np.flatnonzero(calls.kind == CallKind.EVENT_RECORD).tolist(),
            calls.correlation[calls.kind == CallKind.EVENT_RECORD].tolist(),
            strict=True,
        )
    }
    for kind, correlation, on, recorded in zip(
        syncs.kind.tolist(),
        syncs.correlation.tolist(),
        syncs.stream.tolist(),
        syncs.recorded_by.tolist(),
        strict=True,
    ):
        at = by_correlation.get(correlation)
        if at is None:
            continue
        if kind == _STREAM_SYNC:
            stream[at] = on if on >= 0 else ALL_STREAMS
        elif kind in _EVENT_KINDS:
            if recorded in record_rows:
                recorded_by[at] = record_rows[recorded]
            if kind == _EVENT_KINDS[1] and on >= 0:
                stream[at] = on
