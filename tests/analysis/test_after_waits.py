from __future__ import annotations

import numpy as np

from decodeprof.analysis.after_waits import WorkAfter, work_after
from decodeprof.model.calls import CallKind
from decodeprof.model.trace import Trace
from tests.build import TraceBuilder
from tests.reading import trace_of

US = 1_000


def waits(trace: Trace) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.flatnonzero(trace.calls.kind == CallKind.SYNC).astype(np.int64)


def test_the_time_to_the_next_launch_is_split_exactly() -> None:
    b = TraceBuilder()
    b.launch("kernel", 20 * US)
    for _ in range(2):
        b.sync(stream=7)
        with b.frame("engine.py(3): decode_text"):
            b.work(100 * US)
        with b.frame("torch/_tensor.py(9): __format__"):
            b.work(7 * US)
        b.call("cudaStreamIsCapturing", 2 * US)
        with b.op("aten::add", before_ns=5 * US, after_ns=1 * US):
            b.launch("kernel", 20 * US)
    trace = trace_of(b.build())
    assert work_after(trace, waits(trace)) == WorkAfter(
        python_ns=2 * 107 * US,
        dispatch_ns=2 * 5 * US,
        launch_ns=2 * 2 * US,
        # The op that launches ends after the launch: it is not in between.
        ops=(),
        frames=("engine.py(3): decode_text",),
    )


def test_a_wait_that_no_launch_follows_has_nothing_behind_it() -> None:
    b = TraceBuilder()
    b.launch("kernel", 20 * US)
    b.sync(stream=7)
    b.work(100 * US)
    trace = trace_of(b.build())
    assert work_after(trace, waits(trace)).total_ns == 0
    assert work_after(trace, np.empty(0, np.int64)).total_ns == 0


def test_launches_of_other_threads_do_not_end_it() -> None:
    b = TraceBuilder()
    b.launch("kernel", 20 * US)
    b.sync(stream=7)
    b.work(100 * US)
    b.launch("kernel", 20 * US)
    b.on("77")
    b.work(40 * US)
    b.launch("other", 1 * US, stream=9)
    trace = trace_of(b.build())
    assert work_after(trace, waits(trace)).total_ns == 100 * US
