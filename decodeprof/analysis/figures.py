"""What does one step of a phase look like: counts, times, idle causes, latencies, queue?

Counts per step are totals over whole periods ÷ steps: a stop check every 16 steps is 1/16 a step.
Times are of one real step, the lower-median one, since medians of parts do not sum.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from decodeprof.analysis.gaps import Gaps
from decodeprof.analysis.host import HostTime, host_time, launching_thread
from decodeprof.analysis.launches import Launches
from decodeprof.analysis.queue import QueueDepth, latencies, queue_depth
from decodeprof.analysis.steps.found import Steps
from decodeprof.model.calls import CallKind
from decodeprof.model.families import family
from decodeprof.model.trace import I64, NONE, ActivityKind, Trace

# A period of the counts must be seen twice before it is believed.
PERIODS_SEEN = 2


@dataclass(frozen=True)
class StepCounts:
    """What each step held; all columns aligned with the steps."""

    kernels: I64
    activities: I64
    launches: I64
    graph_launches: I64
    syncs: I64


@dataclass(frozen=True)
class PhaseFigures:
    """Figures of the steps of one phase; times in ns."""

    rows: I64
    """The steps that the figures cover."""
    shown: int
    """Index of the step whose times are shown: the lower-median one."""
    step_ns: I64
    """Device windows of `rows`."""
    per_step: dict[str, float]
    """kernels, launches, graph_launches, syncs: means over whole periods."""
    busy_ns: int
    idle_ns: dict[str, int]
    latency_ns: I64
    """Launch latencies of the covered steps."""
    depth: QueueDepth
    host_work_ns: int | None
    gaps: int
    period: int
    """Steps after which the counts repeat; 1: every step alike."""


def count_steps(trace: Trace, steps: Steps) -> StepCounts:
    """Count activities and calls for every step."""
    table, calls, n = trace.device, trace.calls, steps.count
    in_step = steps.activity_step != NONE

    def activities(mask: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> I64:
        return np.bincount(steps.activity_step[in_step & mask], minlength=n).astype(np.int64)

    def api_calls(kind: CallKind) -> I64:
        chosen = (steps.call_step != NONE) & (calls.kind == kind)
        return np.bincount(steps.call_step[chosen], minlength=n).astype(np.int64)

    return StepCounts(
        kernels=activities(table.kind == ActivityKind.KERNEL),
        activities=activities(np.ones(len(table), bool)),
        launches=api_calls(CallKind.LAUNCH),
        graph_launches=api_calls(CallKind.GRAPH_LAUNCH),
        syncs=api_calls(CallKind.SYNC) + api_calls(CallKind.BLOCKING_COPY),
    )


def period_of(*counts: I64) -> int:
    """The fewest steps after which all counts repeat, seen twice; the whole length if none does."""
    n = len(counts[0])
    for period in range(1, n // PERIODS_SEEN + 1):
        if all((c[period:] == c[:-period]).all() for c in counts):
            return period
    return max(n, 1)


def mean_over_periods(counts: I64, period: int) -> float:
    """Mean per step over as many whole periods as there are."""
    whole = len(counts) - len(counts) % period
    return float(counts[:whole].mean()) if whole else 0.0


def phase_figures(
    trace: Trace,
    steps: Steps,
    *,
    rows: I64,
    gaps: Gaps,
    launches: Launches,
    counts: StepCounts,
) -> PhaseFigures | None:
    """Figures over the given steps; None when none of them has a device window."""
    rows = rows[steps.device_start_ns[rows] >= 0] if len(rows) else rows
    if not len(rows):
        return None
    window = steps.window_ns[rows]
    shown = int(rows[np.argsort(window, kind="stable")[(len(rows) - 1) // 2]])
    start, end = int(steps.device_start_ns[shown]), int(steps.device_end_ns[shown])
    period = period_of(counts.syncs[rows], counts.graph_launches[rows])
    names = ("kernels", "launches", "graph_launches", "syncs")
    in_rows = np.isin(steps.call_step[launches.call], rows)
    return PhaseFigures(
        rows=rows,
        shown=shown,
        step_ns=window,
        per_step={n: mean_over_periods(getattr(counts, n)[rows], period) for n in names},
        busy_ns=int(gaps.busy.within(np.array([start]), np.array([end]))[0]),
        idle_ns=gaps.causes_within(start, end),
        latency_ns=latencies(trace, launches)[in_rows],
        depth=queue_depth(trace, launches, start_ns=start, end_ns=end),
        host_work_ns=_host_work(trace, steps, shown, launches),
        gaps=int(((gaps.start_ns >= start) & (gaps.end_ns <= end)).sum()),
        period=period,
    )


def _host_work(trace: Trace, steps: Steps, shown: int, launches: Launches) -> int | None:
    """Host time of the launching thread in a step, less waits and launches into a full queue."""
    thread = launching_thread(trace)
    if thread is None:
        return None
    time: HostTime = host_time(trace, thread)
    a = np.array([steps.host_start_ns[shown]], np.int64)
    b = np.array([steps.host_end_ns[shown]], np.int64)
    blocked = int(time.blocked.within(a, b)[0])
    return int((b - a)[0]) - blocked - _stuck_launches(trace, steps, shown, launches)


# A launch call lasts 3 to 10 µs; one that lasts this many times the median was stuck behind a full
# queue (a cudaGraphLaunch of 5.8 ms has been seen), unless its kernel had to be loaded first.
STUCK_FACTOR = 20


def _stuck_launches(trace: Trace, steps: Steps, shown: int, launches: Launches) -> int:
    length = trace.calls.end_ns[launches.call] - trace.calls.start_ns[launches.call]
    if not len(length):
        return 0
    usual = int(np.median(length))
    mine = steps.call_step[launches.call] == shown
    stuck = mine & (length > STUCK_FACTOR * max(usual, 1)) & ~launches.found_idle
    return int((length[stuck] - usual).sum())


@dataclass(frozen=True)
class KernelGroup:
    """Kernels of one name over the covered steps."""

    name: str
    family: str
    count: int
    time_ns: int
    """Sum of durations."""


def kernel_groups(trace: Trace, steps: Steps, rows: I64) -> list[KernelGroup]:
    """Device activities of the given steps by name, the most time first."""
    chosen = np.flatnonzero(np.isin(steps.activity_step, rows))
    table = trace.device
    counts: Counter[int] = Counter(table.name[chosen].tolist())
    time = np.bincount(
        table.name[chosen],
        weights=(table.end_ns[chosen] - table.start_ns[chosen]),
        minlength=len(trace.names),
    )
    groups = [
        KernelGroup(
            name=trace.names[name],
            family=family(trace.names[name]),
            count=n,
            time_ns=round(time[name]),
        )
        for name, n in counts.items()
    ]
    return sorted(groups, key=lambda g: (-g.time_ns, g.name))
