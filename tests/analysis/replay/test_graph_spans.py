"""Graphs as long as they were without a profiler."""

from __future__ import annotations

import pytest

from decodeprof.analysis.replay.build import Source, build_program
from decodeprof.analysis.replay.graph_spans import graph_times, with_graph_times
from decodeprof.analysis.replay.run import replay
from tests.analysis.replay.sources import ADD, MATRIX, US, loop
from tests.build import TraceBuilder

NODES = [(MATRIX, 20 * US), (ADD, 4 * US)] * 10
STEPS = 8
PROFILED_CALL_NS, TRUE_CALL_NS = 900 * US, 12 * US
PYTHON_NS = 30 * US


def step(b: TraceBuilder, *, gap_ns: int, call_ns: int) -> None:
    b.graph(NODES, gap_ns=gap_ns, call_ns=call_ns)
    b.sync()
    b.work(PYTHON_NS)


def source(*, gap_ns: int, call_ns: int) -> Source:
    return loop(lambda b, _: step(b, gap_ns=gap_ns, call_ns=call_ns), steps=STEPS)


def span_ns(gap_ns: int) -> int:
    return sum(ns for _, ns in NODES) + (len(NODES) - 1) * gap_ns


@pytest.mark.parametrize("gap_ns", [100, 420, 700])
def test_a_profiled_graph_takes_its_unprofiled_time(gap_ns: int) -> None:
    """The same loop built twice: as a profiler shows it, and as it is."""
    seen, true = (
        source(gap_ns=gap_ns, call_ns=PROFILED_CALL_NS),
        source(gap_ns=420, call_ns=TRUE_CALL_NS),
    )
    times = graph_times(
        seen.trace,
        seen.launches,
        device_ns=[span_ns(420) + 5 * US] * STEPS,
        host_ns=[TRUE_CALL_NS] * STEPS,
        queued_ns=5 * US,
    )
    assert [each.span_ns for each in times.values()] == [span_ns(420)]
    changed = with_graph_times(build_program(seen, range(4, 5)), seen.trace, times)
    expected = replay(build_program(true, range(4, 5))).step_ns
    assert replay(changed).step_ns == pytest.approx(expected, abs=2 * US)


def test_a_call_with_other_replays_tells_nothing() -> None:
    seen = source(gap_ns=420, call_ns=TRUE_CALL_NS)
    fewer = [span_ns(420)] * (STEPS - 1)
    found = graph_times(seen.trace, seen.launches, device_ns=fewer, host_ns=fewer, queued_ns=0)
    assert found == {}
    program = build_program(seen, range(4, 5))
    assert with_graph_times(program, seen.trace, found) is program


def test_nodes_may_overlap_more_than_the_profiler_showed() -> None:
    seen = source(gap_ns=420, call_ns=TRUE_CALL_NS)
    shorter = sum(ns for _, ns in NODES) - 30 * US
    times = graph_times(
        seen.trace,
        seen.launches,
        device_ns=[shorter] * STEPS,
        host_ns=[TRUE_CALL_NS] * STEPS,
        queued_ns=0,
    )
    program = build_program(seen, range(4, 5))
    changed = with_graph_times(program, seen.trace, times)
    saved = replay(program).step_ns - replay(changed).step_ns
    assert saved == pytest.approx(span_ns(420) - shorter, abs=US)
