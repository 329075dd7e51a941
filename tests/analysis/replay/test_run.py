"""When everything starts: known answers by hand, and the laws that replay keeps."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decodeprof.analysis.replay.build import build_program
from decodeprof.analysis.replay.changes import scaled, without_host
from decodeprof.analysis.replay.errors import reproduce
from decodeprof.analysis.replay.run import play_once, replay
from tests.analysis.replay.sources import (
    ADD,
    MATRIX,
    QUEUE_GAP_NS,
    US,
    launches,
    loop,
    source_of,
    steady_ns,
)
from tests.build import TraceBuilder
from tests.reading import trace_of
from tests.scenarios import decode_loop, graph_loop

parts = st.lists(
    st.tuples(st.integers(0, 30 * US), st.integers(1, 30 * US), st.integers(0, 1)),
    min_size=1,
    max_size=12,
)


def test_starts_by_hand() -> None:
    run = play_once(launches([1 * US, 2 * US, 20 * US], [10 * US, 4 * US, 1 * US]))
    # Launched at 1, 3 and 23 µs; arrive 5 µs later; the second waits for the first to end.
    assert run.start_ns.tolist() == [6 * US, 16 * US, 28 * US]
    assert run.end_ns.tolist() == [16 * US, 20 * US, 29 * US]
    assert run.host_end_ns == 23 * US


def test_the_result_is_a_period_and_not_a_makespan() -> None:
    host = replay(launches([10 * US, 10 * US], [3 * US, 3 * US]))
    assert (host.period_ns, host.converged) == (20 * US, True)
    device = replay(launches([1 * US, 1 * US], [9 * US, 30 * US]))
    assert device.period_ns == 39 * US
    assert device.windows_ns.tolist() == [39 * US]


def test_a_full_queue_stops_the_host_and_not_the_device() -> None:
    work, duration = [1 * US] * 20, [10 * US] * 20
    free, full = (launches(work, duration, queue_depth=depth) for depth in (1024, 4))
    run = play_once(full)
    # The fifth launch waits for the first kernel's start, the ninth for the fifth's.
    assert run.launch_ns[4] == run.start_ns[0]
    assert run.launch_ns[8] == run.start_ns[4]
    assert play_once(free).start_ns.tolist() == run.start_ns.tolist()
    assert replay(full).queue_depth_max == 4
    assert full.host_work_ns == 20 * US


def test_blocked_launches_are_found_and_are_no_host_work() -> None:
    depth = 16
    b = TraceBuilder()
    for index in range(200):
        # The queue holds 16 that have not started: the call returns when a place is free.
        blocked = b.activities[index - depth].start_ns - b.now if index >= depth else 0
        b.launch("gemm", 20 * US, call_ns=2 * US + max(blocked, 0))
    source = source_of(trace_of(b.build()), queue_depth=depth)
    assert (source.blocked_ns > 0).sum() > 150
    program = build_program(source)
    assert program.host_work_ns < 200 * 5 * US
    found = reproduce(source)
    assert found is not None
    assert found.error_share < 0.01


@given(parts)
def test_waiting_less_never_takes_longer_and_busy_is_a_floor(
    rows: list[tuple[int, int, int]],
) -> None:
    work, duration, stream = (list(column) for column in zip(*rows, strict=True))
    program = launches(work, duration, stream=stream)
    periods = [replay(scaled(program, factor)).period_ns for factor in (0.0, 0.3, 1.0, 2.5)]
    for faster, slower in itertools.pairwise(periods):
        assert faster <= slower * 1.001 + 1
    on_stream = np.bincount(stream, weights=duration)
    assert periods[0] >= on_stream.max()
    assert replay(without_host(program)).period_ns <= periods[1] * 1.001 + 1


@given(parts)
def test_windows_sum_to_the_period(rows: list[tuple[int, int, int]]) -> None:
    work, duration, stream = (list(column) for column in zip(*rows, strict=True))
    program = launches(work, duration, stream=stream)
    result = replay(program)
    if result.converged and len(set(stream)) == 1:
        assert int(result.windows_ns.sum()) == result.period_ns


def test_no_change_reproduces_a_loop_with_a_sync_to_the_nanosecond() -> None:
    def step(b: TraceBuilder, index: int) -> None:
        del index
        for kernel_ns in (3 * US, 40 * US, 9 * US):
            b.work(7 * US)
            b.launch("gemm", kernel_ns)
        b.copy(1 * US)
        b.sync(stream=7)

    source = loop(step)
    found = reproduce(source)
    assert found is not None
    assert found.error_share == 0
    assert found.step_shares.tolist() == [0.0] * 8
    assert replay(build_program(source, range(3, 4))).period_ns == steady_ns(source, 3)


def test_no_change_reproduces_graph_launches_that_run_ahead() -> None:
    found = reproduce(source_of(trace_of(graph_loop(replays=8).build())))
    assert found is not None
    # The first launch finds an idle device, later ones a busy one: one tail serves both.
    assert found.error_share < 0.005


def test_each_graph_has_its_own_gaps() -> None:
    def step(b: TraceBuilder, index: int) -> None:
        del index
        b.graph([(MATRIX, 5 * US)] * 60, gap_ns=300)
        b.graph([(ADD, 5 * US)] * 40, gap_ns=900)

    source = loop(step)
    found = reproduce(source)
    assert found is not None
    assert found.error_share < 0.001
    assert replay(build_program(source, range(4, 5))).period_ns == steady_ns(source)


def test_nodes_that_overlap_take_what_their_graph_usually_takes() -> None:
    durations = np.random.default_rng(3).integers(4 * US, 9 * US, (8, 60)).tolist()

    def step(b: TraceBuilder, index: int) -> None:
        b.graph([(MATRIX, ns) for ns in durations[index]], gap_ns=-3 * US)

    source = loop(step)
    program = build_program(source, range(4, 5))
    assert program.events.between_ns[0] < 0
    windows = source.steps.window_ns[source.steps.rows("decode")]
    assert replay(program).period_ns == pytest.approx(float(np.median(windows)), rel=0.02)
    # Beside a graph whose nodes overlap, no gap is known that another graph would have.
    assert source.delays.node_gap_source == "typical"
    found = reproduce(source)
    assert found is not None
    assert found.error_share < 0.05


@pytest.mark.parametrize("recorded", [False, True])
def test_two_streams_that_wait_for_each_other(recorded: bool) -> None:
    def step(b: TraceBuilder, index: int) -> None:
        here, there = (7, 13) if index % 2 else (13, 7)
        b.stream_wait(waiting=here, on=there, recorded=recorded)
        for _ in range(6):
            b.launch("gemm", 15 * US, stream=here)

    source = loop(step, steps=8)
    found = reproduce(source)
    assert found is not None
    assert found.error_share < 1e-3
    period = replay(build_program(source, range(3, 5))).period_ns
    assert period == 2 * 6 * (15 * US + QUEUE_GAP_NS)
    # Without the event waits the two streams would overlap.
    program = build_program(source, range(3, 5))
    apart = program.with_events(program.events.op == 0)
    assert replay(apart).period_ns < 0.7 * period


def test_no_recorded_device_start_enters() -> None:
    source = source_of(trace_of(decode_loop(steps=6).build()))
    device = source.trace.device
    moved = np.random.default_rng(3).integers(0, 10**9, len(device))
    lengths = device.end_ns - device.start_ns
    scrambled = replace(
        source,
        trace=replace(source.trace, device=replace(device, start_ns=moved, end_ns=moved + lengths)),
    )
    for rows in (None, range(2, 5)):
        one, two = build_program(source, rows), build_program(scrambled, rows)
        for name, column in vars(one.events).items():
            assert np.array_equal(column, getattr(two.events, name)), name
        assert np.array_equal(one.duration_ns, two.duration_ns)
        assert replay(one).windows_ns.tolist() == replay(two).windows_ns.tolist()


def test_a_check_every_four_steps_is_one_period() -> None:
    def step(b: TraceBuilder, index: int) -> None:
        for _ in range(10):
            b.work(4 * US)
            b.launch("gemm", 12 * US)
        if index % 4 == 3:
            b.copy(1 * US)
            b.sync(stream=7)
            b.work(50 * US)

    source = loop(step, steps=14)
    rows = range(4, 8)
    recorded = int(source.steps.window_ns[4:8].sum())
    result = replay(build_program(source, rows))
    assert result.period_ns == pytest.approx(recorded, rel=2e-3)
    assert len(result.windows_ns) == 4
    assert int(result.windows_ns.sum()) == result.period_ns


def test_a_wait_for_the_step_before_lets_the_host_run_ahead() -> None:
    """An event of step i - 1, waited for in step i, with no sync records to say so."""

    def piped(b: TraceBuilder, index: int) -> None:
        for _ in range(4):
            b.launch("gemm", 25 * US)
        mine = b.activities[-1].end_ns
        b.call("cudaEventRecord", 500)
        if index:
            done = max(b.now, ends[-1]) + 4 * US
            b.call("cudaEventSynchronize", done - b.now, blocks=True)
        ends.append(mine)
        b.work(30 * US)

    ends: list[int] = []
    source = loop(piped, steps=10)
    found = reproduce(source)
    assert found is not None
    assert found.error_share < 0.01
    result = replay(build_program(source, range(5, 6)))
    assert result.period_ns == 4 * (25 * US + QUEUE_GAP_NS)
