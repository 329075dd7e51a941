"""Why did the device stand idle, in each gap, to the nanosecond?

A gap is a maximal interval in which one device runs nothing, ended by some activity. Let F be the
latency floor of that activity's launch kind; its launch arrives at A = launch call's start + F.

- A at or before the gap's start: the activity was queued. The whole gap is `dependency` if a
  stream wait stands between it and its stream's previous launch, else `device`. A later node of a
  graph launch is `device` too: the gap between nodes.
- Otherwise the host was late. The gap up to A is split by what the launching thread was doing F
  *earlier*: `sync`, `launch`, `dispatch` or `python`. The shift by F matters: without it, time is
  booked to what the thread did while the launch was on its way. What remains after A is `launch`,
  up to 20 µs or the call's return, and `unknown` beyond that.
- No launch known: `unknown`.

The parts sum to the gap exactly, so busy and all causes sum to any window.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from decodeprof.analysis.host import blocking_calls, host_time
from decodeprof.analysis.intervals import Intervals, union
from decodeprof.analysis.launches import LatencyFloors, Launches
from decodeprof.model.calls import CallKind
from decodeprof.model.diagnosis import IDLE_CAUSES
from decodeprof.model.trace import I64, NONE, STREAM_WAIT_KIND, Trace

# After its latency floor a launch on an idle device may still be on its way: jitter and a second
# look at the queue take a few µs. 20 µs is above every such delay that real traces showed; what
# takes longer has another cause, which is not known.
LATE_START_NS = 20_000
_CAUSE = {name: index for index, name in enumerate(IDLE_CAUSES)}


@dataclass(frozen=True)
class Gaps:
    """The gaps of one device, in time order; all columns row-aligned, times in ns."""

    start_ns: I64
    end_ns: I64
    ended_by: I64
    """Row in `Trace.device` of the activity that ended it."""
    causes_ns: I64
    """Shape (gaps, causes), in the order of `IDLE_CAUSES`; each row sums to the gap."""
    opened_by: I64
    """Row in `Trace.calls` of the blocking call that let the queue drain before it; -1: none."""
    busy: Intervals
    """The device's busy time."""

    def __len__(self) -> int:
        return len(self.start_ns)

    def causes_within(self, start_ns: int, end_ns: int) -> dict[str, int]:
        """Idle ns by cause of the gaps that lie in [start, end).

        A window must begin and end where an activity starts or ends, as step windows do: then no
        gap is cut, and busy and the causes sum to it.
        """
        first = int(np.searchsorted(self.start_ns, start_ns, side="left"))
        last = int(np.searchsorted(self.end_ns, end_ns, side="right"))
        totals = self.causes_ns[first:last].sum(axis=0)
        return {name: int(totals[index]) for name, index in _CAUSE.items()}


def find_gaps(trace: Trace, device: int, *, launches: Launches, floors: LatencyFloors) -> Gaps:
    """Find every gap of a device and its causes; see the module's text for the rules."""
    table = trace.device
    mine = np.flatnonzero(table.device == device).astype(np.int64)
    busy = union(table.start_ns[mine], table.end_ns[mine])
    starts, ends = busy.holes()
    ended_by = _ended_by(trace, mine, ends)
    call = table.call[ended_by]
    causes = np.zeros((len(starts), len(IDLE_CAUSES)), np.int64)
    length = ends - starts

    kind_of_call = np.zeros(len(trace.calls), np.int64)
    kind_of_call[launches.call] = launches.kind
    first_of_call = np.full(len(trace.calls), NONE)
    first_of_call[launches.call] = launches.activity
    known = call != NONE
    arrival = (
        np.where(known, trace.calls.start_ns[call] + floors.of(kind_of_call[call]), 0)
        if len(trace.calls)
        else np.zeros(len(starts), np.int64)
    )
    # The call's first activity lies in this gap: it is what ended it, or has no length.
    is_first = (
        known & (table.start_ns[first_of_call[call]] >= starts) if len(trace.calls) else known
    )
    queued = known & (~is_first | (arrival <= starts))
    waits = _waited_for_another_stream(trace, ended_by, device=device)
    causes[:, _CAUSE["unknown"]] = np.where(known, 0, length)
    causes[:, _CAUSE["dependency"]] = np.where(queued & is_first & waits, length, 0)
    causes[:, _CAUSE["device"]] = np.where(queued & ~(is_first & waits), length, 0)

    late = np.flatnonzero(known & ~queued)
    has_ops = "ops" in trace.captured
    if len(late):
        shift = floors.of(kind_of_call[call[late]])
        until = np.minimum(arrival[late], ends[late])
        for thread in np.unique(trace.calls.thread[call[late]]):
            chosen = trace.calls.thread[call[late]] == thread
            rows, moved = late[chosen], shift[chosen]
            split = host_time(trace, int(thread)).split(starts[rows] - moved, until[chosen] - moved)
            for name, part in split.items():
                # Without recorded ops, "in no op" is not known to be Python.
                known_name = name if has_ops or name != "python" else "unknown"
                causes[rows, _CAUSE[known_name]] += part
        # What is left after the arrival.
        rest = ends[late] - until
        limit = np.maximum(until + LATE_START_NS, trace.calls.end_ns[call[late]])
        explained = np.clip(np.minimum(ends[late], limit) - until, 0, rest)
        causes[late, _CAUSE["launch"]] += explained
        causes[late, _CAUSE["unknown"]] += rest - explained
    return Gaps(
        start_ns=starts,
        end_ns=ends,
        ended_by=ended_by,
        causes_ns=causes,
        opened_by=_opened_by(trace, starts, late, ended_by),
        busy=busy,
    )


def _ended_by(trace: Trace, mine: I64, ends: I64) -> I64:
    """The activity that starts where each gap ends: of several, the one launched first."""
    table = trace.device
    starts = table.start_ns[mine]
    real = mine[table.end_ns[mine] > starts]
    call = table.call[real]
    launched = np.full(len(real), np.iinfo(np.int64).max)
    if len(trace.calls):
        launched = np.where(call == NONE, launched, trace.calls.start_ns[call])
    order = np.lexsort((launched, table.start_ns[real]))
    real = real[order]
    return real[np.searchsorted(table.start_ns[real], ends, side="left")]


def _waited_for_another_stream(
    trace: Trace, ended_by: I64, *, device: int
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Whether a stream wait stands between an activity's launch and its stream's previous one.

    From the profiler's sync records, which name the waiting stream; without them, from any
    cudaStreamWaitEvent call of the launching thread.
    """
    table, calls = trace.device, trace.calls
    waits = np.zeros(len(ended_by), dtype=bool)
    # Streams are numbered on each device anew.
    linked = np.flatnonzero((table.call != NONE) & (table.device == device))
    if not len(linked) or not len(calls):
        return waits
    launched = calls.start_ns[table.call]
    records = trace.syncs.kind == STREAM_WAIT_KIND
    named = bool(records.any())
    records &= trace.syncs.device == device
    times = (
        trace.syncs.start_ns[records]
        if named
        else calls.start_ns[calls.kind == CallKind.STREAM_WAIT]
    )
    if not len(times):
        return waits
    groups = (
        trace.syncs.stream[records] if named else calls.thread[calls.kind == CallKind.STREAM_WAIT]
    )
    for stream in np.unique(table.stream[ended_by]):
        on_stream = linked[table.stream[linked] == stream]
        launch_times = np.unique(launched[on_stream])
        chosen = np.flatnonzero((table.stream[ended_by] == stream) & (table.call[ended_by] != NONE))
        mine = launched[ended_by[chosen]]
        at = np.searchsorted(launch_times, mine, side="left") - 1
        previous = np.where(at >= 0, launch_times[at], np.iinfo(np.int64).min)
        relevant = np.sort(times[groups == stream]) if named else np.sort(times)
        between = np.searchsorted(relevant, mine, side="right") - np.searchsorted(
            relevant, previous
        )
        waits[chosen] = between > 0
    return waits


def _opened_by(trace: Trace, starts: I64, late: I64, ended_by: I64) -> I64:
    """For each late gap, the blocking call of its launching thread in which the device drained."""
    opened = np.full(len(starts), NONE, np.int64)
    calls = trace.calls
    blocking = np.flatnonzero(blocking_calls(trace)).astype(np.int64)
    launched_on = calls.thread[trace.device.call[ended_by[late]]]
    # A wait of another thread does not keep this one from filling the queue.
    for thread in np.unique(launched_on):
        rows = blocking[calls.thread[blocking] == thread]
        gaps = late[launched_on == thread]
        at = np.searchsorted(calls.start_ns[rows], starts[gaps], side="right") - 1
        gaps, call = gaps[at >= 0], rows[at[at >= 0]]
        inside = calls.end_ns[call] >= starts[gaps]
        opened[gaps[inside]] = call[inside]
    return opened
