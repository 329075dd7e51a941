"""What a thread was doing, and which calls made it wait."""

import numpy as np
import pytest

from decodeprof.analysis.host import blocking_calls, host_time, launching_thread
from decodeprof.model.trace import Trace
from tests.build import TraceBuilder
from tests.reading import trace_of

US = 1_000


def split(trace: Trace, thread: str, start: int, end: int) -> dict[str, int]:
    """The thread's time in one window."""
    index = next(i for i, name in enumerate(trace.threads) if name.endswith(f"/{thread}"))
    parts = host_time(trace, index).split(np.array([start]), np.array([end]))
    return {name: int(part[0]) for name, part in parts.items()}


def test_the_innermost_answer_wins() -> None:
    b = TraceBuilder()
    with b.op("aten::item", before_ns=1 * US, after_ns=2 * US):  # 0 to 26
        b.launch("a", 4 * US, call_ns=3 * US)  # call 1 to 4; kernel 6 to 10
        with b.op("aten::_local_scalar_dense", before_ns=1 * US, after_ns=1 * US):
            b.call("cudaStreamIsCapturing", 1 * US)  # 5 to 6
            b.sync(return_ns=8 * US)  # 6 to 18
    b.work(10 * US)
    with b.op("aten::add", before_ns=1 * US, after_ns=0):
        b.launch("b", 1 * US)
    trace = trace_of(b.build())
    # 1 + 1 + 1 + 2 in ops, 3 + 1 in API calls, 12 in the wait.
    assert split(trace, "429", 0, 21 * US) == {
        "sync": 12 * US, "launch": 4 * US, "dispatch": 5 * US, "python": 0,
    }  # fmt: skip
    assert split(trace, "429", 17 * US, 33 * US) == {
        "sync": 1 * US, "launch": 1 * US, "dispatch": 4 * US, "python": 10 * US,
    }  # fmt: skip


def test_threads_are_told_apart() -> None:
    b = TraceBuilder()
    with b.op("aten::mm", before_ns=9 * US, after_ns=0):
        b.launch("a", 1 * US)
    b.on("second")
    b.work(5 * US)
    b.call("cudaEventQuery", 2 * US)
    trace = trace_of(b.build())
    assert split(trace, "429", 0, 11 * US)["dispatch"] == 9 * US
    assert split(trace, "second", 0, 11 * US) == {
        "sync": 0, "launch": 2 * US, "dispatch": 0, "python": 9 * US,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "api", "waits", "blocking"),
    [
        ("Memcpy DtoH (Device -> Pageable)", "cudaMemcpyAsync", True, True),
        ("Memcpy DtoH (Device -> Pageable)", "cudaMemcpyAsync", False, False),
        # Pinned: that it was over by then is luck.
        ("Memcpy DtoH (Device -> Pinned)", "cudaMemcpyAsync", True, False),
        ("Memcpy DtoH (Device -> Pinned)", "cudaMemcpy", False, True),
    ],
)
def test_copies_that_wait(name: str, api: str, waits: bool, blocking: bool) -> None:
    b = TraceBuilder()
    b.launch("a", 20 * US)
    b.copy(2 * US, name=name, api=api, waits=waits)
    trace = trace_of(b.build())
    assert blocking_calls(trace).tolist() == [False, blocking]


def test_calls_that_wait_by_name() -> None:
    b = TraceBuilder()
    names = {
        "cudaDeviceSynchronize": True, "cudaFree": True, "cudaEventQuery": False,
        "cudaLaunchKernel": False, "cudaFreeAsync": False, "hipEventSynchronize": True,
    }  # fmt: skip
    for name in names:
        b.call(name)
    assert blocking_calls(trace_of(b.build())).tolist() == list(names.values())


def test_the_launching_thread_is_the_one_with_most_launches() -> None:
    b = TraceBuilder()
    b.graph([("n", 100)] * 50)  # one launch, many activities
    b.on("second")
    for _ in range(2):
        b.launch("a", 100)
    trace = trace_of(b.build())
    thread = launching_thread(trace)
    assert thread is not None
    assert trace.threads[thread] == "429/second"
    quiet = TraceBuilder()
    quiet.call("cudaMalloc")
    assert launching_thread(trace_of(quiet.build())) is None
