"""Steps that nobody named: whole-step graphs, repeated launch sequences, and what is neither."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from decodeprof.analysis.steps.cuts import Period
from decodeprof.analysis.steps.found import Steps
from decodeprof.analysis.steps.tokens import bare, launch_sequence
from decodeprof.model.calls import CallKind
from tests.build import TraceBuilder
from tests.reading import steps_of, trace_of
from tests.scenarios import decode_loop, forward, graph_loop, layer, take_token
from tests.write_kineto import LAYOUTS, Dialect

US = 1_000
ROOT = Path(__file__).parents[3]


def found(b: TraceBuilder) -> Steps:
    return steps_of(trace_of(b.build()))


def counts(steps: Steps) -> list[int]:
    rows = steps.activity_step.tolist()
    return [rows.count(step) for step in range(steps.count)]


def test_a_naive_loop_is_split_as_the_program_did() -> None:
    b = decode_loop(steps=5)
    steps = found(b)
    assert steps.method == "sequence"
    assert steps.phases == tuple(phase for phase, _ in b.steps)
    assert steps.query_lengths == (16, 1, 1, 1, 1, 1)
    # Embedding, 6 layers of 4, head, argmax, copy.
    assert counts(steps) == [28] * 6
    # A step begins with its embedding, after 20 µs of Python that follow the last token.
    scenario = b.build()
    embeddings = [op.start_ns for op in scenario.ops if op.name == "aten::embedding"]
    assert steps.host_start_ns.tolist() == embeddings
    assert steps.steady.tolist() == [False, False, True, True, True, False]


def test_waits_behind_the_loop_are_no_steps() -> None:
    b = decode_loop(steps=2)
    b.work(10 * US)
    for _ in range(2):
        b.sync("cudaDeviceSynchronize")
    trace = trace_of(b.build())
    syncs = steps_of(trace).call_step[trace.calls.kind == CallKind.SYNC]
    assert syncs.tolist() == [0, 1, 2, -1, -1]


def test_a_wait_that_each_step_makes_is_the_last_steps_too() -> None:
    b = TraceBuilder()
    for index in range(3):
        forward(b, query=1 if index else 16, layers=6, kernel_ns=2 * US)
        take_token(b)
        b.work(10 * US)
        b.sync("cudaDeviceSynchronize")
    trace = trace_of(b.build())
    steps = steps_of(trace)
    assert steps.count == 3
    syncs = steps.call_step[trace.calls.kind == CallKind.SYNC]
    assert np.bincount(syncs).tolist() == [2, 2, 2]


def test_windows_tile_the_device_timeline() -> None:
    b = decode_loop(steps=3)
    trace = trace_of(b.build())
    steps = steps_of(trace)
    assert steps.device_end_ns[:-1].tolist() == steps.device_start_ns[1:].tolist()
    assert (int(steps.device_start_ns[0]), int(steps.device_end_ns[-1])) == trace.span_ns()
    for step in range(4):
        mine = steps.activity_step == step
        assert int(trace.device.start_ns[mine].min()) == steps.device_start_ns[step]
    assert steps.window_ns.tolist()[1:3] == [154_000, 154_000]


def test_a_prefill_with_kernels_of_its_own_and_no_shapes_is_still_told() -> None:
    b = TraceBuilder()
    for index in range(5):
        with b.op("aten::embedding"):
            b.launch("embedding_kernel", 2 * US)
        for n in range(8):
            b.launch(f"prefill_only_{'abcdefgh'[n]}" if index == 0 else "decode_k", 2 * US)
        take_token(b)
    assert found(b).phases == ("prefill", *["decode"] * 4)


def test_a_recording_without_a_prefill_has_none() -> None:
    b = TraceBuilder()
    for _ in range(5):
        forward(b, query=1, layers=3, kernel_ns=2 * US)
        take_token(b)
    steps = found(b)
    assert steps.phases == ("decode",) * 5


@pytest.mark.parametrize("evidence", ["embedding", "argmax", "multinomial", "topk", "sync"])
def test_each_sort_of_evidence_is_enough(evidence: str) -> None:
    b = TraceBuilder()
    for _ in range(4):
        layer(b)
        if evidence == "sync":
            b.sync()
            b.launch("next", 1 * US)
        else:
            with b.op(f"aten::{evidence}"):
                b.launch("next", 1 * US)
    steps = found(b)
    assert (steps.method, steps.count) == ("sequence", 4)


def test_equal_layers_of_a_prefill_are_a_period_and_no_steps() -> None:
    b = TraceBuilder()
    with b.op("aten::embedding", shapes=((9, 9), (1, 512))):
        b.launch("embed", 1 * US)
    for _ in range(84):
        layer(b)
    take_token(b)
    steps = found(b)
    assert (steps.method, steps.count) == ("none", 0)
    assert steps.period == Period(activities=4, count=84)


def test_evidence_outside_the_repetition_does_not_make_layers_steps() -> None:
    b = TraceBuilder()
    for _ in range(4):
        with b.op("aten::argmax"):
            b.launch("warm", 1 * US)
        b.sync()
    for _ in range(28):
        layer(b)
    assert found(b).method == "none"


def test_evidence_in_one_repetition_does_not_make_the_others_steps() -> None:
    b = TraceBuilder()
    for index in range(5):
        b.launch("first", 1 * US)
        layer(b)
        if index == 2:
            for _ in range(6):
                b.sync()
    steps = found(b)
    assert (steps.method, steps.period) == ("none", Period(activities=5, count=5))


def test_a_bare_loop_of_kernels_is_a_period() -> None:
    b = TraceBuilder()
    for _ in range(64):
        for name in ("nvjet_a", "silu_kernel", "CUDAFunctor_add"):
            b.launch(name, 2 * US)
    steps = found(b)
    assert steps.period == Period(activities=3, count=64)
    assert "a period of 3 activities × 64 repeats" in steps.text
    assert set(steps.activity_step.tolist()) == {-1}


def test_what_does_not_repeat_has_neither() -> None:
    b = TraceBuilder()
    for n in range(40):
        b.launch("k" + "abcdefgh"[n % 8] * (n // 8 + 1), 1 * US)
    steps = found(b)
    assert (steps.method, steps.period) == ("none", None)


@pytest.mark.parametrize("mark", ["autograd::engine::evaluate_function: MmBackward0",
                                  "Optimizer.step#SGD.step"])  # fmt: skip
@pytest.mark.parametrize("program", [decode_loop, graph_loop])
def test_training_has_no_decode_steps(program: Callable[[], TraceBuilder], mark: str) -> None:
    b = program()
    with b.annotation(mark), b.op(mark):
        b.launch("backward", 1 * US)
    steps = found(b)
    assert steps.method == "none"
    assert "autograd" in steps.text


def test_two_repeats_prove_nothing() -> None:
    two, three = (decode_loop(steps=n - 1, prompt=1) for n in (2, 3))
    assert found(two).method == "none"
    assert found(three).method == "sequence"


def test_a_step_unlike_the_others_refuses_the_split() -> None:
    b = TraceBuilder()
    for index in range(5):
        forward(b, query=1, layers=12 if index == 3 else 6, kernel_ns=2 * US)
        take_token(b)
    assert found(b).method == "none"


@pytest.mark.parametrize(("extra", "accepted"), [(2, True), (5, False)])
def test_a_step_may_be_a_twentieth_longer(extra: int, accepted: bool) -> None:
    b = TraceBuilder()
    for index in range(5):
        with b.op("aten::embedding"):
            b.launch("embed", 1 * US)
        for _ in range(45 + extra * (index == 2)):
            b.launch("k", 1 * US)
        take_token(b)
    assert (found(b).method == "sequence") is accepted


def test_steps_that_differ_by_a_little_are_accepted() -> None:
    """A cache that grows by a copy now and then, a stop check every other step."""
    b = TraceBuilder()
    for index in range(6):
        forward(b, query=1, layers=12, kernel_ns=2 * US)
        if index % 2:
            b.launch("stop_check", 1 * US)
        take_token(b)
    steps = found(b)
    assert (steps.method, steps.count) == ("sequence", 6)


def test_a_library_that_changes_its_matrix_kernels_is_the_same_step() -> None:
    b = TraceBuilder()
    for index in range(5):
        with b.op("aten::embedding"):
            b.launch("embed", 1 * US)
        for _ in range(6):
            b.launch(f"sm90_xmma_gemm_bf16_{'abcde'[index]}_tn", 1 * US)
            b.launch(f"void elementwise_kernel<{index}, 4>", 1 * US)
            b.launch(f"flash_fwd_splitkv_{'vwxyz'[index]}", 1 * US)
        take_token(b)
    assert found(b).count == 5


def test_names_lose_templates_and_digits() -> None:
    assert bare("void a::b<int, c<4u>, (d)2>(float*)") == bare("void a::b<long, c<8u>>(float*)")
    assert bare("Cijk_MT128x64") == bare("Cijk_MT64x16")
    assert bare("a<b") == "a<b"


def test_a_graph_launch_is_one_token_with_its_size() -> None:
    b = TraceBuilder()
    for nodes in (3, 3, 4):
        b.graph([("n", 1 * US)] * nodes)
    b.launch("n", 1 * US)
    tokens = launch_sequence(trace_of(b.build())).token.tolist()
    assert tokens[0] == tokens[1]
    assert len({tokens[0], tokens[2], tokens[3]}) == 3


def test_launches_of_one_whole_step_graph_are_steps() -> None:
    b = graph_loop(replays=5)
    steps = found(b)
    assert (steps.method, steps.phases) == ("graph", ("decode",) * 5)
    assert counts(steps) == [60] * 5
    assert steps.steady.tolist() == [False, True, True, True, False]
    # The device's cadence, not the host's, which runs ahead.
    assert set(steps.window_ns.tolist()[:4]) == {60 * 2 * US + 59 * 416}
    assert set((steps.host_end_ns - steps.host_start_ns).tolist()[:4]) == {20 * US}


def test_an_eager_prefill_before_the_graphs() -> None:
    b = TraceBuilder()
    forward(b, query=16, layers=13, kernel_ns=2 * US)
    for _ in range(3):
        b.graph([("n", 1 * US)] * 60)
    steps = found(b)
    assert steps.phases == ("prefill", "decode", "decode", "decode")
    assert steps.query_lengths[0] == 16


def test_a_few_launches_before_the_graphs_are_no_prefill() -> None:
    b = TraceBuilder()
    layer(b)
    for _ in range(3):
        b.graph([("n", 1 * US)] * 60)
    steps = found(b)
    assert steps.phases == ("decode",) * 3
    assert "4 device activities launched outside all steps" in steps.left_out


def test_graphs_of_pieces_are_no_steps() -> None:
    b = TraceBuilder()
    for _ in range(40):
        b.graph([("n", 1 * US)] * 49)
    assert found(b).method == "none"


@pytest.mark.parametrize("sizes", [(60, 120), (60, 120, 240, 480)])
def test_graphs_that_all_differ_are_no_steps(sizes: tuple[int, ...]) -> None:
    b = TraceBuilder()
    for nodes in sizes:
        b.graph([("n", 1 * US)] * nodes)
    assert found(b).method == "none"


def test_one_whole_graph_is_one_step_and_not_steady() -> None:
    steps = found(graph_loop(replays=1))
    assert (steps.method, steps.single, steps.phases) == ("graph", True, ("decode",))
    assert not steps.steady.any()


def test_a_replay_that_was_recorded_in_part_is_not_measured() -> None:
    b = TraceBuilder()
    for nodes in (100, 100, 97, 100, 100):
        b.graph([("n", 1 * US)] * nodes)
    steps = found(b)
    assert steps.measured.tolist() == [True, True, False, True, True]
    assert steps.steady.tolist() == [False, True, False, True, False]
    assert steps.reasons[2] == "its graph replay was recorded with fewer nodes than others"


def reasons(b: TraceBuilder) -> list[str | None]:
    return list(found(b).reasons)


def test_first_and_last_are_not_steady() -> None:
    first, *middle, last = reasons(graph_loop(replays=5))
    assert first == "the first decode step"
    assert middle == [None] * 3
    assert last is not None
    assert last.startswith("the last step")


@pytest.mark.parametrize(("extra", "steady"), [(12, True), (13, False)])
def test_one_off_work_is_a_fifth_more_than_the_median(extra: int, steady: bool) -> None:
    b = TraceBuilder()
    for index in range(5):
        b.graph([("n", 1 * US)] * 60)
        if index == 2:
            for _ in range(extra):
                b.launch("grow_cache", 1 * US)
    reason = reasons(b)[2]
    assert (reason is None) is steady
    assert steady or "one-off work: its number" in str(reason)


def test_a_step_that_allocates_is_not_steady() -> None:
    b = TraceBuilder()
    for index in range(5):
        b.graph([("n", 1 * US)] * 60)
        b.call("cudaMalloc" if index == 2 else "cudaStreamIsCapturing")
    assert [r is None for r in reasons(b)] == [False, True, False, True, False]
    assert reasons(b)[2] == "one-off work: it allocated device memory"


@pytest.mark.parametrize(("pause_ns", "steady"), [(1_000, True), (3_000, False)])
def test_a_step_in_which_the_device_idled_through_a_pause_is_not_steady(
    pause_ns: int, steady: bool
) -> None:
    b = TraceBuilder()
    for _ in range(5):
        b.graph([("n", 1 * US)] * 60)
        b.work(150 * US)  # windows of about 155 µs: 1 % is 1,550 ns
    idle = found(b).device_start_ns.tolist()[3] + b.build().shift_ns - 10 * US
    b.pauses.append((idle, idle + pause_ns))
    assert (reasons(b)[2] is None) is steady


def test_a_pause_that_the_device_worked_through_does_not_matter() -> None:
    b = graph_loop(replays=5)
    start = found(b).device_start_ns.tolist()[2] + b.build().shift_ns
    b.pauses += [(start + 100 + at, start + 100 + at + 6_000) for at in range(0, 100_000, 20_000)]
    assert reasons(b)[2] is None


def test_a_step_begun_as_the_recording_ended_bounds_nothing() -> None:
    b = TraceBuilder()
    for index in range(6):
        with b.annotation("decodeprof.step phase=decode"):
            if index < 5:
                b.graph([("n", 1 * US)] * 60)
            b.work(5 * US)
    steps = found(b)
    assert steps.reasons[4] is not None
    assert steps.reasons[4].startswith("the last step")
    assert steps.reasons[5] == "the recording ended before anything of it ran on the device"


def test_unlinked_kernels_belong_to_no_step_and_are_said() -> None:
    b = decode_loop()
    b.unlinked("before", start_ns=b.activities[0].start_ns - 900, ns=800)
    steps = found(b)
    assert any("1 device activity without a recorded launch" in text for text in steps.left_out)
    assert steps.activity_step.tolist().count(-1) == 1


def test_a_step_that_ran_nothing_on_this_device() -> None:
    b = TraceBuilder()
    for index in range(4):
        with b.annotation("decodeprof.loop"):
            b.work(1 * US)
        if index != 2:
            b.launch("a", 2 * US)
        b.work(20 * US)
    steps = found(b)
    assert steps.measured.tolist() == [True, True, False, True]
    assert steps.window_ns.tolist()[2] == -1
    assert steps.reasons[2] == "nothing of it ran on the device"
    # The window before it reaches to the one after it.
    assert steps.device_end_ns[1] == steps.device_start_ns[3]


def test_a_side_stream_that_overtakes_leaves_every_window_its_length() -> None:
    b = TraceBuilder()
    for index in range(5):
        with b.annotation("decodeprof.loop"):
            if index == 2:
                b.copy(1 * US, stream=20)  # at once, while the work of step 0 runs
            b.launch("long", 100 * US, stream=7)
    steps = found(b)
    assert steps.window_ns.tolist() == [100 * US] * 5
    assert steps.device_end_ns[:-1].tolist() == steps.device_start_ns[1:].tolist()


def summary(steps: Steps) -> list[object]:
    return [
        steps.method, steps.phases, steps.query_lengths, steps.host_start_ns.tolist(),
        steps.device_start_ns.tolist(), steps.device_end_ns.tolist(), steps.steady.tolist(),
        steps.reasons, steps.left_out,
    ]  # fmt: skip


@pytest.mark.parametrize("program", [decode_loop, graph_loop])
def test_form_order_and_names_are_no_matter(program: Callable[[], TraceBuilder]) -> None:
    scenario = program().build()
    expected = summary(steps_of(trace_of(scenario)))
    for layout in LAYOUTS:
        assert summary(steps_of(trace_of(scenario, layout, Dialect(seed=4)))) == expected
    other = Dialect(times="absolute", pid=99, text_tids=True, flows=False)
    assert summary(steps_of(trace_of(scenario, dialect=other))) == expected


def test_hash_seeds_change_nothing() -> None:
    code = (
        "from tests.scenarios import decode_loop\n"
        "from tests.reading import causes_of, steps_of, trace_of\n"
        "from tests.analysis.steps.test_unmarked import summary\n"
        "trace = trace_of(decode_loop().build())\n"
        "print(summary(steps_of(trace)), causes_of(trace), trace.names)\n"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("0", "1", "4242")
    }
    assert len(outputs) == 1
    assert "sequence" in outputs.pop()
