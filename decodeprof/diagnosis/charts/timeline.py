"""What happened on the device and on the host thread that fed it, in one stretch of time?"""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from decodeprof.analysis.gaps import Gaps
from decodeprof.analysis.host import blocking_calls, launching_thread
from decodeprof.analysis.nesting import parents
from decodeprof.diagnosis.charts.window import Window
from decodeprof.diagnosis.evidence import Evidence
from decodeprof.model.calls import LAUNCHING
from decodeprof.model.charts import (
    DeviceTrack,
    GapTrack,
    HostKind,
    HostTrack,
    Named,
    StepSpan,
    SyncMark,
    Timeline,
)
from decodeprof.model.families import family
from decodeprof.model.trace import I64, NONE, DeviceTable, Trace

OP_LEVELS = 2
"""Levels of nested ops that are drawn: what was called, and what that called. Deeper ones are
redispatches of the same op."""
MOST_LANES = 24
"""Lanes of the device that are drawn, fullest first: no screen shows more beside each other."""


class _Names:
    """Names of the timeline, each held once."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._index: dict[tuple[int, bool], int] = {}
        self.rows: list[Named] = []

    def kernel(self, name: int) -> int:
        return self._of(name, kernel=True)

    def host(self, name: int) -> int:
        return self._of(name, kernel=False)

    def _of(self, name: int, *, kernel: bool) -> int:
        found = self._index.get((name, kernel))
        if found is None:
            text = self._trace.names[name]
            found = self._index[name, kernel] = len(self.rows)
            self.rows.append(Named(text=text, family=family(text) if kernel else None))
        return found


def timeline(evidence: Evidence, window: Window) -> Timeline:
    """Gather one stretch of a trace; times count from its start."""
    trace = evidence.trace
    names = _Names(trace)
    return Timeline(
        length_ns=window.end_ns - window.start_ns,
        caption=window.caption,
        steps=_spans(evidence, window),
        device=_device(evidence, window, names),
        host=_host(trace, window, names),
        gaps=_gaps(evidence.gaps, window),
        syncs=_syncs(evidence, window, names),
        idle_known="calls" in trace.captured,
        names=names.rows,
    )


def _spans(evidence: Evidence, window: Window) -> list[StepSpan]:
    steps = evidence.steps
    return [
        StepSpan(
            index=i,
            phase=steps.phases[i],
            steady=bool(steps.steady[i]),
            start_ns=int(steps.device_start_ns[i]) - window.start_ns,
            end_ns=min(int(steps.device_end_ns[i]), window.end_ns) - window.start_ns,
        )
        for i in window.steps
    ]


def _inside(starts: I64, ends: I64, window: Window) -> I64:
    """Rows that overlap the window; one of no length counts where it stands."""
    found = (starts < window.end_ns) & (ends >= window.start_ns)
    return np.flatnonzero(found).astype(np.int64)


def _clipped(starts: I64, ends: I64, window: Window) -> tuple[list[int], list[int]]:
    """Starts from the window's start, and lengths, of what lies in the window."""
    a = np.clip(starts, window.start_ns, window.end_ns)
    b = np.clip(ends, window.start_ns, window.end_ns)
    return (a - window.start_ns).tolist(), (b - a).tolist()


def _device(evidence: Evidence, window: Window, names: _Names) -> list[DeviceTrack]:
    table = evidence.trace.device
    rows = _inside(table.start_ns, table.end_ns, window)
    # What ended at the very start belongs to the step before.
    rows = rows[(table.device[rows] == window.device) & (table.end_ns[rows] > window.start_ns)]
    lanes: dict[tuple[int, int], list[int]] = defaultdict(list)
    for stream in np.unique(table.stream[rows]).tolist():
        mine = rows[table.stream[rows] == stream]
        for row, depth in zip(mine.tolist(), _depths(table, mine), strict=True):
            lanes[int(stream), depth].append(row)
    kept = sorted(lanes, key=lambda lane: (-len(lanes[lane]), lane))[:MOST_LANES]
    return [
        _device_track(evidence, window, names, lane=lane, rows=np.array(lanes[lane], np.int64))
        for lane in sorted(kept)
    ]


def _depths(table: DeviceTable, rows: I64) -> list[int]:
    """The lowest free lane for each row, in order of start."""
    starts, ends = table.start_ns[rows].tolist(), table.end_ns[rows].tolist()
    free: list[int] = []
    depths = []
    for start, end in zip(starts, ends, strict=True):
        lane = next((i for i, until in enumerate(free) if until <= start), len(free))
        if lane == len(free):
            free.append(end)
        else:
            free[lane] = end
        depths.append(lane)
    return depths


def _device_track(
    evidence: Evidence, window: Window, names: _Names, *, lane: tuple[int, int], rows: I64
) -> DeviceTrack:
    trace, table = evidence.trace, evidence.trace.device
    starts, lengths = _clipped(table.start_ns[rows], table.end_ns[rows], window)
    call = table.call[rows]
    known = call != NONE
    latency = np.full(len(rows), NONE, np.int64)
    late = table.start_ns[rows[known]] - trace.calls.start_ns[call[known]]
    latency[known] = np.maximum(late, 0)
    op = np.full(len(rows), NONE, np.int64)
    op[known] = evidence.nesting.outermost_op[call[known]]
    return DeviceTrack(
        device=window.device,
        stream=lane[0],
        depth=lane[1],
        start_ns=starts,
        length_ns=lengths,
        name=[names.kernel(n) for n in table.name[rows].tolist()],
        latency_ns=latency.tolist(),
        op=[NONE if o == NONE else names.host(int(trace.ops.name[o])) for o in op.tolist()],
    )


def _host(trace: Trace, window: Window, names: _Names) -> list[HostTrack]:
    """The launching thread: its ops by level, and its API calls."""
    thread = launching_thread(trace)
    if thread is None:
        return []
    label = trace.threads[thread]
    tracks = [
        HostTrack(
            thread=label,
            kind="op",
            depth=depth,
            start_ns=starts,
            length_ns=lengths,
            name=found,
            call_kind=["op"] * len(found),
        )
        for depth, (starts, lengths, found) in enumerate(_ops(trace, thread, window, names))
    ]
    rows = _inside(trace.calls.start_ns, trace.calls.end_ns, window)
    rows = rows[trace.calls.thread[rows] == thread]
    if len(rows):
        starts, lengths = _clipped(trace.calls.start_ns[rows], trace.calls.end_ns[rows], window)
        tracks.append(
            HostTrack(
                thread=label,
                kind="api",
                depth=0,
                start_ns=starts,
                length_ns=lengths,
                name=[names.host(n) for n in trace.calls.name[rows].tolist()],
                call_kind=_call_kinds(trace, rows),
            )
        )
    return tracks


def _call_kinds(trace: Trace, rows: I64) -> list[HostKind]:
    blocking = blocking_calls(trace)[rows].tolist()
    launching = np.isin(trace.calls.kind[rows], [int(k) for k in LAUNCHING]).tolist()
    return [
        "sync" if waits else "launch" if launches else "api"
        for waits, launches in zip(blocking, launching, strict=True)
    ]


def _ops(
    trace: Trace, thread: int, window: Window, names: _Names
) -> list[tuple[list[int], list[int], list[int]]]:
    parent = parents(trace.ops)
    rows = _inside(trace.ops.start_ns, trace.ops.end_ns, window)
    rows = rows[trace.ops.thread[rows] == thread]
    # A parent precedes its child, so that one pass over the rows knows every level.
    level: dict[int, int] = {}
    for row in rows.tolist():
        above = int(parent[row])
        level[row] = level[above] + 1 if above in level else 0
    found = []
    for depth in range(OP_LEVELS):
        mine = np.array([row for row in rows.tolist() if level[row] == depth], np.int64)
        if len(mine):
            starts, lengths = _clipped(trace.ops.start_ns[mine], trace.ops.end_ns[mine], window)
            found.append((starts, lengths, [names.host(n) for n in trace.ops.name[mine].tolist()]))
    return found


def _gaps(gaps: Gaps | None, window: Window) -> GapTrack:
    if gaps is None:
        return GapTrack(start_ns=[], length_ns=[], parts=[])
    # A window begins and ends where an activity does, so that no gap is cut.
    rows = np.flatnonzero((gaps.start_ns >= window.start_ns) & (gaps.end_ns <= window.end_ns))
    causes = gaps.causes_ns[rows]
    return GapTrack(
        start_ns=(gaps.start_ns[rows] - window.start_ns).tolist(),
        length_ns=(gaps.end_ns[rows] - gaps.start_ns[rows]).tolist(),
        parts=[
            [(cause, int(row[cause])) for cause in np.flatnonzero(row).tolist()] for row in causes
        ],
    )


def _syncs(evidence: Evidence, window: Window, names: _Names) -> list[SyncMark]:
    """Blocking calls of any thread in the window, with the site that each belongs to."""
    calls = evidence.trace.calls
    site = np.full(len(calls), NONE, np.int64)
    # `Diagnosis.syncs` lists the decode sites first, then the prefill's, in this order.
    for index, found in enumerate([*evidence.decode_sites, *evidence.prefill_sites]):
        site[found.calls] = index
    rows = _inside(calls.start_ns, calls.end_ns, window)
    rows = rows[blocking_calls(evidence.trace)[rows]]
    starts, lengths = _clipped(calls.start_ns[rows], calls.end_ns[rows], window)
    return [
        SyncMark(
            start_ns=start,
            length_ns=length,
            name=names.host(int(calls.name[row])),
            site=None if site[row] == NONE else int(site[row]),
        )
        for row, start, length in zip(rows.tolist(), starts, lengths, strict=True)
    ]
