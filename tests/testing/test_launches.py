"""Launches of the region or of a marked step; what cannot be counted is said, and is not 0."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from decodeprof import mark
from decodeprof.testing.launches import CouldNotCount, Launches, counted
from tests.build import TraceBuilder
from tests.reading import trace_of

US = 1_000


def add(b: TraceBuilder) -> None:
    with b.op("aten::add_"):
        b.launch("void add_kernel(float*)", 2 * US)


def region(*, woken: bool = True) -> TraceBuilder:
    """Up to the region: what was launched before it is not counted."""
    b = TraceBuilder()
    add(b)
    with b.annotation(mark.THROWAWAY):
        if woken:
            add(b)
            b.sync()
    return b


@contextmanager
def step(b: TraceBuilder, phase: str = "decode") -> Iterator[None]:
    with b.annotation(mark.label(mark.STEP, phase=phase)):
        yield


def marked_steps() -> TraceBuilder:
    """One launch outside of any step, a prefill of 1, and decode steps of 1 and 2 + a graph."""
    b = region()
    with b.annotation(mark.CALL):
        with step(b, "prefill"):
            add(b)
        with step(b):
            add(b)
        add(b)
        with step(b):
            with b.op("aten::mm"):
                b.launch("gemm", 2 * US)
            b.launch("outside", 2 * US, api="cuLaunchKernel")
            b.graph([("node", US)] * 5)
            b.copy(US)
            b.set(US)
        b.sync()
    add(b)
    return b


def test_the_region_and_nothing_around_it() -> None:
    trace = trace_of(marked_steps().build())
    [(what, launches)] = counted(trace, step=None)
    assert what == ""
    assert launches == Launches(
        kernels=5,
        graphs=1,
        ops=(("aten::add_", 3), ("aten::mm", 1), ("outside of any op", 1)),
    )
    assert launches.total == 6


def test_each_decode_step() -> None:
    trace = trace_of(marked_steps().build())
    steps = counted(trace, step="each")
    assert [(what, each.total) for what, each in steps] == [
        (" in decode step 0", 1),
        (" in decode step 1", 3),
    ]
    assert counted(trace, step=1) == steps[1:]


def test_a_step_that_is_not_there_is_not_zero() -> None:
    trace = trace_of(marked_steps().build())
    with pytest.raises(CouldNotCount, match="2 decode steps are marked") as caught:
        counted(trace, step=2)
    assert "with decodeprof.step()" in str(caught.value)


def test_no_marks_are_not_zero() -> None:
    b = region()
    with b.annotation(mark.CALL):
        add(b)
    trace = trace_of(b.build())
    with pytest.raises(CouldNotCount, match="0 decode steps are marked"):
        counted(trace, step="each")
    assert counted(trace, step=None)[0][1].total == 1


def test_a_profiler_that_sees_nothing_is_not_zero() -> None:
    b = region(woken=False)
    with b.annotation(mark.CALL):
        b.work(10 * US)
    with pytest.raises(CouldNotCount, match="CUPTI"):
        counted(trace_of(b.build()), step=None)


def test_launches_of_other_threads_count() -> None:
    b = region()
    with b.annotation(mark.CALL):
        main = b.thread
        begin = b.now
        b.work(100 * US)
        b.on("200:200")
        b.work(begin + 20 * US)
        add(b)
        b.on(main)
    [(_, launches)] = counted(trace_of(b.build()), step=None)
    assert launches.kernels == 1
