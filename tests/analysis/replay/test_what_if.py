"""Counterfactuals: each loop is told twice, as it is and as it would be, which is the truth."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from decodeprof.analysis.replay.build import Source, build_program
from decodeprof.analysis.replay.changes import (
    as_graphs,
    graph_costs,
    last_wait,
    memory_bound,
    node_shifts,
    scaled,
    without_waits,
)
from decodeprof.analysis.replay.exposed import exposed_costs
from decodeprof.analysis.replay.fusion import ALONE, chains, fused, roles
from decodeprof.analysis.replay.program import Program
from decodeprof.analysis.replay.run import replay
from decodeprof.analysis.replay.scale import (
    Scales,
    device_scale,
    host_scale,
    scales,
    with_durations,
)
from decodeprof.analysis.replay.waits import WAIT
from decodeprof.analysis.replay.what_if import Outcome, Outcomes, Question, remove_waits, what_ifs
from decodeprof.analysis.traffic.columns import KernelTraffic
from decodeprof.model.graph_nodes import NodeCosts, whole_gap
from decodeprof.model.trace import NONE
from tests.analysis.replay.sources import ADD, COSTS, MATRIX, US, loop, steady_ns
from tests.build import NODE_GAP_NS, TraceBuilder

Step = Callable[[TraceBuilder, int], None]


def decode(*, kernels: int, kernel_ns: int, work_ns: int, sync: bool, python_ns: int) -> Step:
    """Launches, then perhaps `int(token)`, then Python."""

    def step(b: TraceBuilder, index: int) -> None:
        del index
        for _ in range(kernels):
            b.work(work_ns)
            b.launch(MATRIX, kernel_ns)
        b.copy(1 * US)
        if sync:
            b.sync(stream=7)
        b.work(python_ns)

    return step


def program_of(source: Source, rows: range = range(5, 6)) -> Program:
    return build_program(source, rows)


def question(source: Source, rows: range = range(5, 6), **more: object) -> Question:
    program = build_program(source, rows)
    asked = Question(
        program=program, roles=roles(source.trace, program), costs=COSTS, spread_share=0.01
    )
    return replace(asked, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("python_ns", [0, 40 * US, 400 * US])
@pytest.mark.parametrize(
    ("kernel_ns", "work_ns"), [(6 * US, 8 * US), (20 * US, 2 * US), (12 * US, 8 * US)]
)
def test_a_sync_removed_saves_what_the_loop_without_it_saves(
    kernel_ns: int, work_ns: int, python_ns: int
) -> None:
    with_it, without_it = (
        loop(
            decode(
                kernels=20, kernel_ns=kernel_ns, work_ns=work_ns, sync=sync, python_ns=python_ns
            ),
            steps=12,
        )
        for sync in (True, False)
    )
    truth = steady_ns(with_it) - steady_ns(without_it, 9)
    program = program_of(with_it)
    assert replay(program).period_ns == steady_ns(with_it)
    saved = replay(program).period_ns - replay(without_waits(program)).period_ns
    assert saved == pytest.approx(truth, abs=max(0.01 * steady_ns(with_it), 1 * US))
    site = np.where(with_it.delays.blocking, 0, NONE)
    assert exposed_costs(program, site) == {0: max(saved, 0)}


def test_of_two_waits_for_the_same_work_one_is_harmless() -> None:
    def step(b: TraceBuilder, index: int) -> None:
        del index
        for _ in range(10):
            b.launch(MATRIX, 30 * US)
        b.sync(stream=7)
        b.sync(stream=7, return_ns=500)
        b.work(60 * US)

    source = loop(step)
    site = np.full(len(source.trace.calls), NONE)
    rows = np.flatnonzero(source.delays.blocking)
    site[rows] = np.arange(len(rows)) % 2
    costs = exposed_costs(program_of(source), site)
    duration = source.trace.calls.end_ns - source.trace.calls.start_ns
    # The first call lasts 280 µs, and what it exposes then passes to the second.
    assert duration[rows[10]] > 250 * US
    assert max(costs.values()) < 10 * US
    both = remove_waits(question(source), program_of(source).events.op == WAIT)
    assert both.saving_ns.expected > 60 * US


@pytest.mark.parametrize("python_ns", [200 * US, 1_000 * US, 3_000 * US])
def test_a_graph_step_then_a_token_read_and_python(python_ns: int) -> None:
    nodes = [(f"{MATRIX}_{i}", 4 * US) for i in range(100)]

    def step(sync: bool) -> Step:
        def run(b: TraceBuilder, index: int) -> None:
            del index
            b.graph(nodes)
            b.copy(1 * US)
            if sync:
                b.sync(stream=7)
            b.work(python_ns)

        return run

    with_it, without_it = loop(step(True)), loop(step(False), steps=12)
    truth = steady_ns(with_it) - steady_ns(without_it, 9)
    assert truth > 0.05 * steady_ns(with_it)
    program = program_of(with_it)
    saved = replay(program).period_ns - replay(without_waits(program)).period_ns
    # A queued graph starts a device's usual 4.7 µs late, which this recording cannot show.
    assert saved == pytest.approx(truth, rel=0.02, abs=5 * US)


@pytest.mark.parametrize("sync", [True, False])
@pytest.mark.parametrize("python_ns", [10 * US, 300 * US, 3_000 * US])
def test_a_captured_step_still_pays_its_wait_and_the_python_outside(
    sync: bool, python_ns: int
) -> None:
    eager = loop(
        decode(kernels=100, kernel_ns=4 * US, work_ns=12 * US, sync=sync, python_ns=python_ns)
    )

    def captured(b: TraceBuilder, index: int) -> None:
        del index
        nodes = [(MATRIX, 4 * US)] * 100
        b.graph([*nodes, ("copy", 1 * US)])
        if sync:
            b.sync(stream=7)
        b.work(python_ns)

    truth = steady_ns(loop(captured, steps=12), 9)
    program = program_of(eager)
    changed = as_graphs(program, last_wait(program), COSTS)
    assert changed.device_work_ns == program.device_work_ns
    assert int(changed.events.is_launch.sum()) == 1
    # The Python between the last launches of a step is not told from that outside it.
    assert replay(changed).period_ns == pytest.approx(truth, rel=0.03, abs=25 * US)
    if not sync and python_ns < 100 * US:
        floor = program.device_work_ns + 100 * NODE_GAP_NS
        assert replay(changed).period_ns == floor


def test_piecewise_graphs_keep_the_waits_between_them() -> None:
    def step(b: TraceBuilder, index: int) -> None:
        del index
        for _ in range(2):
            for _ in range(30):
                b.work(10 * US)
                b.launch(MATRIX, 3 * US)
            b.sync(stream=7)

    source = loop(step)
    program = program_of(source)
    asked = question(source, cannot_capture=program.events.op == WAIT)
    found = what_ifs(asked)
    assert found.piecewise is not None
    assert found.cuda_graph is not None
    assert (found.piecewise.launches_per_step, found.cuda_graph.launches_per_step) == (2, 1)
    assert found.piecewise.step_ns.expected > found.cuda_graph.step_ns.expected
    assert what_ifs(question(source)).piecewise is None


def test_one_graph_a_step_where_the_check_comes_every_fourth() -> None:
    def step(b: TraceBuilder, index: int) -> None:
        for _ in range(20):
            b.work(10 * US)
            b.launch(MATRIX, 3 * US)
        if index % 4 == 3:
            b.copy(1 * US)
            b.sync(stream=7)

    program = program_of(loop(step, steps=14), range(4, 8))
    changed = as_graphs(program, last_wait(program), COSTS)
    assert int(changed.events.is_launch.sum()) == 4
    assert int((changed.events.op == WAIT).sum()) == 1
    assert changed.device_work_ns == program.device_work_ns


def chain_step(b: TraceBuilder, index: int) -> None:
    """Matrix, a norm told in four kernels, matrix, an activation in three, per layer."""
    del index
    norm = [ADD, "void reduce_kernel<512, 1, MeanOps>", ADD, ADD]
    for _ in range(5):
        for name in [MATRIX, *norm, MATRIX, ADD, ADD, ADD]:
            b.work(5 * US)
            b.launch(name, 2 * US if name == MATRIX else 1 * US)


def test_branches_of_a_captured_step_stay_side_by_side() -> None:
    def step(b: TraceBuilder, index: int) -> None:
        del index
        b.launch(MATRIX, 10 * US, stream=7)
        b.stream_wait(waiting=13, on=7)
        for _ in range(6):
            b.work(3 * US)
            b.launch(MATRIX, 40 * US, stream=13)
            b.launch(MATRIX, 40 * US, stream=7)
        b.stream_wait(waiting=7, on=13)
        b.launch(MATRIX, 10 * US, stream=7)
        b.sync(stream=7)

    found = what_ifs(question(loop(step)))
    assert found.cuda_graph is not None
    assert found.all is not None
    branch = 6 * 40 * US
    assert branch < found.cuda_graph.step_ns.expected < 1.3 * branch
    assert found.all.step_ns.expected <= found.cuda_graph.step_ns.expected


def test_each_chain_between_matrix_kernels_becomes_one_kernel() -> None:
    source = loop(chain_step)
    asked = question(source)
    program = asked.program
    smaller = fused(program, asked.roles)
    assert (program.activities, smaller.activities) == (45, 20)
    assert smaller.device_work_ns == 10 * 2 * US + 10 * 1 * US
    host = smaller.host_work_ns / program.host_work_ns
    assert host == pytest.approx(20 / 45, rel=0.05)
    found = what_ifs(asked)
    assert found.fusion is not None
    assert found.fusion.activities_per_step == 20
    assert found.fusion.step_ns.expected == pytest.approx(20 * 7 * US, rel=0.05)


def test_a_second_reduction_begins_a_kernel_of_its_own_and_a_lone_kernel_stays() -> None:
    def step(b: TraceBuilder, index: int) -> None:
        del index
        for name in [MATRIX, ADD, "reduce_kernel", ADD, "reduce_kernel", ADD, MATRIX, ADD, MATRIX]:
            b.launch(name, 1 * US)

    asked = question(loop(step))
    assert chains(asked.program, asked.roles).tolist() == [0, 1, 1, 1, 2, 2, 3, 4, 5]
    alone = np.full(asked.program.activities, ALONE, np.int8)
    assert fused(asked.program, alone).activities == asked.program.activities


def test_fusion_inside_a_graph_drops_nodes_and_their_launch_cost() -> None:
    def step(b: TraceBuilder, index: int) -> None:
        del index
        b.graph(
            [(MATRIX, 2 * US), (ADD, 1 * US), (ADD, 1 * US), (ADD, 1 * US)] * 20, call_ns=80 * US
        )

    asked = question(loop(step))
    smaller = fused(asked.program, asked.roles)
    assert smaller.activities == 40
    assert replay(smaller).period_ns < replay(asked.program).period_ns
    assert smaller.host_work_ns == pytest.approx(asked.program.host_work_ns - 40 * US, abs=3 * US)


def test_nothing_joins_behind_a_write_where_indices_say() -> None:
    name = "void at::native::_scatter_gather_elementwise_kernel<128, 8, at::native::"
    scatter = f"{name}_cuda_scatter_gather_internal_kernel<true, at::native::OpaqueType<2> >"
    gather = f"{name}_cuda_scatter_gather_internal_kernel<false, at::native::OpaqueType<2> >"

    def step(b: TraceBuilder, index: int) -> None:
        del index
        for kernel in [MATRIX, ADD, scatter, scatter, ADD, gather, ADD, MATRIX]:
            b.launch(kernel, 1 * US)

    asked = question(loop(step))
    assert chains(asked.program, asked.roles).tolist() == [0, 1, 1, 2, 3, 3, 3, 4]


def test_a_copy_that_lays_a_tensor_out_anew_stays() -> None:
    copy = "void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<{}> >"
    expanded = copy.format("at::native::direct_copy_kernel_cuda")
    cast = "void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda>"

    def step(b: TraceBuilder, index: int) -> None:
        del index
        for kernel in [MATRIX, ADD, cast, ADD, expanded, expanded, ADD, ADD, MATRIX]:
            b.launch(kernel, 1 * US)

    asked = question(loop(step))
    assert chains(asked.program, asked.roles).tolist() == [0, 1, 1, 1, 2, 3, 4, 4, 5]


def outcomes(found: Outcomes) -> list[Outcome]:
    return [value for value in vars(found).values() if isinstance(value, Outcome)]


@pytest.mark.parametrize("spread", [0.0, 0.02, 0.1])
def test_ranges_keep_to_the_floors_and_to_the_spread(spread: float) -> None:
    for step in (
        chain_step,
        decode(kernels=20, kernel_ns=20 * US, work_ns=2 * US, sync=True, python_ns=0),
    ):
        asked = question(loop(step), spread_share=spread)
        found = what_ifs(asked)
        assert outcomes(found)
        for outcome in outcomes(found):
            step_ns, saving = outcome.step_ns, outcome.saving_ns
            assert 0 <= step_ns.low <= step_ns.expected <= step_ns.high
            assert 0 <= saving.low <= saving.expected <= saving.high
            assert step_ns.expected + saving.expected == found.step_ns
            assert step_ns.high - step_ns.low >= spread * found.step_ns - 2
            assert outcome.assumes.endswith(".")
        assert found.no_host.step_ns.expected <= found.faster_host.step_ns.expected
        assert found.no_host.step_ns.expected >= found.floor_ns


def test_a_device_bound_step_promises_nothing_for_certain() -> None:
    device_bound = decode(kernels=20, kernel_ns=50 * US, work_ns=2 * US, sync=False, python_ns=0)
    found = what_ifs(question(loop(device_bound)))
    assert found.device_bound
    assert found.no_syncs is None
    for outcome in outcomes(found):
        assert outcome.saving_ns.low == 0


def test_the_host_scale_is_found_again_and_only_where_the_step_responds() -> None:
    host_bound = decode(kernels=20, kernel_ns=3 * US, work_ns=9 * US, sync=True, python_ns=0)
    program = program_of(loop(host_bound))
    for factor in (0.4, 0.75, 1.3):
        unprofiled = replay(scaled(program, factor)).step_ns
        assert host_scale(program, unprofiled) == pytest.approx(factor, rel=0.01)
    assert host_scale(program, 10) is None
    device_bound = decode(kernels=20, kernel_ns=50 * US, work_ns=2 * US, sync=False, python_ns=0)
    program = program_of(loop(device_bound))
    step = replay(program).step_ns
    for share in (0.97, 1.0, 1.03, 2.0):
        assert host_scale(program, round(share * step)) is None


def test_a_host_that_is_ahead_leaves_what_is_missing_to_the_device() -> None:
    # Dilated, the host decides the profiled step; the timed one is the device's, at lower clocks.
    recorded = decode(kernels=20, kernel_ns=8 * US, work_ns=9 * US, sync=False, python_ns=0)
    program = program_of(loop(recorded))
    timed = replay(with_durations(scaled(program, 0.5), 1.07)).step_ns
    host_ns = program.host_work_ns // program.steps // 2
    found = scales(program, timed, host_ns)
    assert found.host == pytest.approx(0.5, rel=0.001)
    assert found.device == pytest.approx(1.07, rel=0.005)
    assert replay(found.applied(program)).step_ns == pytest.approx(timed, rel=0.001)
    # Without its cadence, and where it is not ahead, all is laid on the host.
    for cadence in (None, round(0.95 * timed)):
        alone = scales(program, timed, cadence)
        assert alone.device is None
        assert alone.host == host_scale(program, timed)


def test_a_step_of_the_device_is_scaled_to_its_clocks_and_no_further() -> None:
    recorded = decode(kernels=20, kernel_ns=50 * US, work_ns=2 * US, sync=False, python_ns=0)
    program = program_of(loop(recorded))
    step = replay(program).step_ns
    found = scales(program, round(1.05 * step))
    assert found.host is None
    assert replay(found.applied(program)).step_ns == pytest.approx(1.05 * step, rel=0.001)
    for other in (0.5, 2.0):
        assert scales(program, round(other * step)) == Scales(None, None)
    host_bound = decode(kernels=20, kernel_ns=3 * US, work_ns=9 * US, sync=True, python_ns=0)
    assert device_scale(program_of(loop(host_bound)), 10) is None


def test_kernels_may_take_another_time_as_nodes() -> None:
    source = loop(chain_step)
    source = replace(
        source,
        trace=replace(
            source.trace,
            device=replace(
                source.trace.device, blocks=1 + 999 * (np.arange(len(source.trace.device)) % 2)
            ),
        ),
    )
    asked = question(source)
    costs = NodeCosts(few_ns=400, many_ns=100, set_ns=0, copy_ns=0, block_ns=0)
    shift = node_shifts(source.trace, asked.program, costs)
    whole = whole_gap(source.trace.names)[source.trace.device.name[asked.program.activity]]
    assert set(shift[whole].tolist()) == {0}
    assert set(shift[~whole].tolist()) == {0, -300}
    before, after = what_ifs(asked), what_ifs(replace(asked, in_graph_ns=shift))
    told = what_ifs(replace(asked, costs=replace(asked.costs, large_gap_ns=100))).cuda_graph
    assert told is not None
    assert " ns, 100 ns at large kernels (measured on this device)" in told.assumes
    assert before.cuda_graph is not None
    assert after.cuda_graph is not None
    changed = after.cuda_graph.step_ns.expected - before.cuda_graph.step_ns.expected
    assert changed == int(shift.sum())
    assert after.no_host == before.no_host


def test_memsets_and_copies_stop_the_device_as_nodes() -> None:
    source = loop(chain_step)
    kinds = np.arange(len(source.trace.device)) % 3
    device = replace(
        source.trace.device, kind=kinds.astype(np.int8), blocks=np.where(kinds == 0, 8, 0)
    )
    asked = question(replace(source, trace=replace(source.trace, device=device)))
    costs = NodeCosts(few_ns=400, many_ns=100, set_ns=4400, copy_ns=2400, block_ns=0)
    shift = node_shifts(replace(source.trace, device=device), asked.program, costs)
    kind = kinds[asked.program.activity]
    assert set(kind.tolist()) == {0, 1, 2}
    assert shift.tolist() == np.array([0, 2000, 4000])[kind].tolist()


def test_a_kernel_near_the_bandwidth_waits_for_memory() -> None:
    trace = loop(chain_step).trace
    ns = trace.device.end_ns - trace.device.start_ns
    share = np.array([0.0, 0.69, 0.71, 1.2])[np.arange(len(ns)) % 4]
    read, none = np.ceil(share * ns * 4_000).astype(np.int64), np.zeros(len(ns), np.int64)
    read[0] = NONE
    traffic = KernelTraffic(
        read_bytes=read,
        written_bytes=none,
        flops=none,
        counted_at=np.arange(len(ns)),
        op=none,
        use=none.astype(np.int32),
        source=none.astype(np.int8),
        uses=(),
        dtypes=(),
    )
    assert memory_bound(trace, traffic, 4e12).tolist() == (share > 0.7).tolist()


def test_a_device_that_changes_its_speed_widens_what_a_graph_would_take() -> None:
    asked = question(loop(chain_step))
    steady, unsteady = what_ifs(asked), what_ifs(replace(asked, gap_spread_ns=300))
    assert steady.cuda_graph is not None
    assert unsteady.cuda_graph is not None
    nodes = unsteady.cuda_graph.activities_per_step
    was, now = steady.cuda_graph.step_ns, unsteady.cuda_graph.step_ns
    assert now.expected == was.expected
    assert now.high - now.expected == pytest.approx(300 * nodes, abs=2)
    # The floor holds the gap as well, and is as unsure.
    assert now.low <= was.low - 250 * nodes
    assert was.low < steady.floor_ns
    assert unsteady.no_syncs == steady.no_syncs


def test_graph_costs_say_where_they_come_from() -> None:
    def graphs(b: TraceBuilder, index: int) -> None:
        del index
        b.graph([(MATRIX, 2 * US)] * 30, gap_ns=377)

    learnt = loop(graphs).delays
    assert graph_costs(learnt, measured_gap_ns=None, measured_launch_ns=None).source == "trace"
    assert graph_costs(learnt, measured_gap_ns=None, measured_launch_ns=None).node_gap_ns == 377
    measured = graph_costs(learnt, measured_gap_ns=345, measured_launch_ns=7 * US)
    assert (measured.node_gap_ns, measured.launch_ns, measured.source) == (345, 7 * US, "ceilings")
    plain = loop(chain_step).delays
    assert graph_costs(plain, measured_gap_ns=None, measured_launch_ns=None).source == "typical"
