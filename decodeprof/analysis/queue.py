"""How much was launched and not yet started, and how long did launches wait?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from decodeprof.analysis.launches import KERNEL, LAUNCH_KINDS, Launches
from decodeprof.analysis.steps.found import Steps
from decodeprof.model.trace import I64, ActivityKind, Trace


@dataclass(frozen=True)
class QueueDepth:
    """Launches outstanding over a stretch of time: call begun, first activity not yet started."""

    mean: float
    max: int


def latencies(trace: Trace, launches: Launches) -> I64:
    """Launch call's start to activity start in ns, one for each launch; negative: clocks differ."""
    return trace.device.start_ns[launches.activity] - launches.start_ns


def tklqt_ns(trace: Trace, launches: Launches, steps: Steps, rows: I64) -> int | None:
    """Total kernel launch and queuing time: latencies summed over a step's kernels; a mean.

    Args:
        trace: holds the steps.
        launches: of the device.
        steps: of the trace.
        rows: which of them.

    Returns:
        None where some kernel has no launch call of its own, as a graph's, or clocks differ.
    """
    kernels = np.isin(steps.activity_step, rows) & (trace.device.kind == ActivityKind.KERNEL)
    mine = kernels[launches.activity] & (launches.kind == LAUNCH_KINDS.index(KERNEL))
    found = latencies(trace, launches)[mine]
    if not len(found) or len(found) < kernels.sum() or found.min() < 0:
        return None
    return round(int(found.sum()) / len(rows))


def queue_depth(trace: Trace, launches: Launches, *, start_ns: int, end_ns: int) -> QueueDepth:
    """The queue depth in [start, end): its mean over time and its maximum."""
    begins = launches.start_ns
    starts = np.maximum(trace.device.start_ns[launches.activity], begins)
    a = np.clip(begins, start_ns, end_ns)
    b = np.clip(starts, start_ns, end_ns)
    inside = b > a
    if end_ns <= start_ns or not inside.any():
        return QueueDepth(mean=0.0, max=0)
    times = np.r_[a[inside], b[inside]]
    change = np.r_[np.ones(inside.sum(), np.int64), -np.ones(inside.sum(), np.int64)]
    # At equal times a start leaves the queue before a new launch enters it.
    order = np.lexsort((change, times))
    depth = np.cumsum(change[order])
    return QueueDepth(
        mean=float((b[inside] - a[inside]).sum()) / (end_ns - start_ns), max=int(depth.max())
    )
