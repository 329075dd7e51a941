"""What was a host thread doing at any time: blocked, in the CUDA API, in an op, or in Python?

The innermost answer wins: a blocking call inside an op is `sync`, a launch inside an op is
`launch`, the rest of the op is `dispatch`, and what no op covers is `python`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from decodeprof.analysis.intervals import Intervals, union
from decodeprof.model.calls import CallKind
from decodeprof.model.trace import I64, NONE, ActivityKind, Bool, Trace

BLOCKING_KINDS = (CallKind.SYNC, CallKind.BLOCKING_COPY, CallKind.FREE)


@dataclass(frozen=True)
class HostTime:
    """Time of one thread by what it was doing; each is a superset of the one before it."""

    blocked: Intervals
    in_api: Intervals
    in_ops: Intervals

    def split(self, starts: I64, ends: I64) -> dict[str, I64]:
        """The ns of each [start, end) in sync, launch, dispatch and python, which sum to it."""
        sync = self.blocked.within(starts, ends)
        api = self.in_api.within(starts, ends)
        ops = self.in_ops.within(starts, ends)
        return {
            "sync": sync,
            "launch": api - sync,
            "dispatch": ops - api,
            "python": (ends - starts) - ops,
        }


def blocking_calls(trace: Trace) -> Bool:
    """Which rows of `trace.calls` made the host wait for the device.

    By name where the name says so. A copy from or to pageable memory may wait as well: it did when
    the call returned no earlier than its own activity ended.
    """
    calls, device = trace.calls, trace.device
    blocking = np.isin(calls.kind, [int(kind) for kind in BLOCKING_KINDS])
    copies = np.flatnonzero((device.kind == ActivityKind.COPY) & (device.call != NONE))
    pageable = np.array(["pageable" in name.lower() for name in trace.names], dtype=bool)
    waited = copies[
        pageable[device.name[copies]]
        & (calls.end_ns[device.call[copies]] >= device.end_ns[copies])
        & (calls.kind[device.call[copies]] == CallKind.COPY)
    ]
    blocking[device.call[waited]] = True
    return blocking


def host_time(trace: Trace, thread: int) -> HostTime:
    """Classify the time of one thread (an index into `Trace.threads`)."""
    blocking = blocking_calls(trace)
    calls = trace.calls
    mine = calls.thread == thread
    ops = trace.ops.thread == thread
    starts, ends = calls.start_ns, calls.end_ns
    return HostTime(
        blocked=union(starts[mine & blocking], ends[mine & blocking]),
        in_api=union(starts[mine], ends[mine]),
        in_ops=union(
            np.r_[starts[mine], trace.ops.start_ns[ops]],
            np.r_[ends[mine], trace.ops.end_ns[ops]],
        ),
    )


def launching_thread(trace: Trace) -> int | None:
    """The thread that launched the most device activities; None when no launch is known."""
    rows = trace.device.call[trace.device.call != NONE]
    if not len(rows):
        return None
    counts = np.bincount(trace.calls.thread[np.unique(rows)], minlength=len(trace.threads))
    return int(counts.argmax())
