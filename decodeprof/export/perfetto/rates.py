"""What do the counters of a timeline show: points in time, and the value from each on."""

from __future__ import annotations

import numpy as np

from decodeprof.analysis.launches import Launches
from decodeprof.analysis.traffic.columns import KernelTraffic
from decodeprof.model.trace import I64, Trace

_NS_PER_S = 1e9


def depth_points(trace: Trace, launches: Launches, calls: I64) -> tuple[I64, I64]:
    """Launches whose call has begun and whose first activity has not started.

    Args:
        trace: the trace.
        launches: the launch calls of one device.
        calls: rows of `Trace.calls` to count.

    Returns:
        Times in ns, each once and in order, and the depth from each on.
    """
    kept = np.isin(launches.call, calls)
    begins = launches.start_ns[kept]
    # Where the clocks differ, an activity seems to start before its call: it waited for nothing.
    starts = np.maximum(trace.device.start_ns[launches.activity[kept]], begins)
    ones = np.ones(len(begins), np.int64)
    return _sums(np.r_[begins, starts], np.r_[ones, -ones])


def bandwidth_points(trace: Trace, traffic: KernelTraffic, rows: I64) -> tuple[I64, I64]:
    """Bytes a second of what runs on the devices, where its bytes are known.

    Bytes that are known for an op as a whole stand at its main kernel, as `KernelTraffic` says.

    Args:
        trace: the trace.
        traffic: what its activities moved.
        rows: rows of `Trace.device` to count.

    Returns:
        Times in ns, each once and in order, and the rate from each on; 0 where nothing runs, or
        nothing of which the bytes are known.
    """
    starts, ends, size = trace.device.start_ns[rows], trace.device.end_ns[rows], traffic.bytes[rows]
    kept = (size > 0) & (ends > starts)
    starts, ends, size = starts[kept], ends[kept], size[kept]
    rate = np.rint(size * (_NS_PER_S / (ends - starts))).astype(np.int64)
    return _sums(np.r_[starts, ends], np.r_[rate, -rate])


def _sums(times: I64, changes: I64) -> tuple[I64, I64]:
    order = np.argsort(times, kind="stable")
    times = times[order]
    values = np.cumsum(changes[order])
    last = np.r_[times[1:] != times[:-1], True] if len(times) else np.empty(0, bool)
    return times[last], values[last]
