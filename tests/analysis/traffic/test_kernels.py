"""Which kernel an op's bytes stand at, which op a kernel belongs to, and what is matched."""

from dataclasses import replace

import numpy as np
import pytest

from decodeprof.analysis.traffic import Source, kernel_traffic, name_rates, peak_share, step_rates
from decodeprof.model.trace import ActivityKind
from tests.analysis.traffic.program import FLOAT, LONG, Program, T

X = T((4, 64))
MM = (T((1, 64)), T((64, 256), "c10::BFloat16", (1, 64)))
MM_BYTES = (128 + 32768, 512)
KERNEL, COPY, SET = ActivityKind.KERNEL, ActivityKind.COPY, ActivityKind.SET


def _row(traffic, row):
    return (int(traffic.read_bytes[row]), int(traffic.written_bytes[row]), int(traffic.flops[row]))


def test_the_innermost_op_with_shapes_is_counted():
    program = Program()
    with (
        program.op("aten::linear", T((1, 1, 64)), T((256, 64)), None),
        program.op("aten::matmul", T((1, 1, 64)), T((64, 256))),
        program.op("aten::mm", *MM),
    ):
        program.launch("nvjet")
    program.run("aten::add", X, X, 1)
    traffic = kernel_traffic(program.trace())
    assert _row(traffic, 0) == (*MM_BYTES, 2 * 64 * 256)
    assert _row(traffic, 1) == (1024, 512, 0)
    assert traffic.op.tolist() == [2, 3]
    assert traffic.bytes.tolist() == [sum(MM_BYTES), 1536]
    assert [traffic.uses[i].name for i in traffic.use] == ["aten::mm", "aten::add"]


def test_an_op_without_arguments_is_looked_through_to_the_one_around_it():
    program = Program()
    with program.op("aten::silu", X), program.op("a range of the library's own"):
        program.launch("silu_kernel")
    assert _row(kernel_traffic(program.trace()), 0) == (512, 512, 0)


def test_a_kernel_outside_all_ops_or_of_an_unknown_op_is_unknown():
    program = Program()
    program.launch("custom")
    program.run("my_library::op", X)
    program.run("aten::relu", X)
    traffic = kernel_traffic(program.trace())
    assert traffic.read_bytes.tolist() == [-1, -1, 512]
    assert traffic.bytes.tolist() == [-1, -1, 1024]
    assert traffic.flops.tolist() == [-1, -1, 0]
    assert traffic.known.tolist() == [False, False, True]


def test_a_split_product_stands_at_its_main_kernel():
    program = Program()
    with program.op("aten::mm", *MM):
        program.launch("Memset (Device)", 1_000, kind=SET, size=64)
        program.launch("nvjet_splitK", 3_000)
        # Longer than the product itself, and still not the one that reads the weights.
        program.launch("void cublasLt::splitKreduce_kernel<32>", 5_000)
    trace = program.trace()
    traffic = kernel_traffic(trace)
    assert _row(traffic, 0) == (0, 64, 0)
    assert _row(traffic, 1) == (*MM_BYTES, 2 * 64 * 256)
    assert _row(traffic, 2) == (0, 0, 0)
    assert traffic.counted_at.tolist() == [0, 1, 1]
    rates = {rate.name: rate for rate in name_rates(trace, traffic, np.arange(3))}
    assert rates["nvjet_splitK"].achieved_bytes_per_s == sum(MM_BYTES) * 1e9 / 3_000
    assert rates["nvjet_splitK"].achieved_flops_per_s == 2 * 64 * 256 * 1e9 / 3_000
    # Its bytes are in the product's: none of its own are known.
    assert rates["void cublasLt::splitKreduce_kernel<32>"].bytes is None


def test_the_longest_of_several_passes_holds_the_bytes():
    program = Program()
    with program.op("aten::sort", X, -1, True):
        program.launch("radix_histogram", 1_000)
        program.launch("radix_onesweep", 4_000)
        program.launch("radix_onesweep", 4_000)
    traffic = kernel_traffic(program.trace())
    assert traffic.bytes.tolist() == [0, 512 + 2560, 0]
    assert traffic.counted_at.tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("name", "read", "written"),
    [
        ("Memcpy DtoD (Device -> Device)", 100, 100),
        ("Memcpy DtoH (Device -> Pinned)", 100, 0),
        ("Memcpy DtoH (Device -> Pageable)", 100, 0),
        ("Memcpy HtoD (Pageable -> Device)", 0, 100),
        ("Memcpy HtoD (Pinned -> Device)", 0, 100),
    ],
)
def test_copies_count_device_memory_alone(name, read, written):
    program = Program()
    with program.op("aten::copy_", T((25,), FLOAT), T((25,), FLOAT), True):
        program.launch(name, 1_000, kind=COPY, size=100)
    traffic = kernel_traffic(program.trace())
    assert _row(traffic, 0) == (read, written, 0)
    assert traffic.source[0] == Source.PROFILER


def test_an_op_that_the_profiler_contradicts_is_unknown():
    program = Program()
    program.run("aten::relu", X)
    program.run("aten::silu", X)
    trace = program.trace()
    external = trace.device.external.copy()
    external[0] = trace.ops.external[1]
    traffic = kernel_traffic(replace(trace, device=replace(trace.device, external=external)))
    assert traffic.known.tolist() == [False, True]


def test_without_a_recorded_launch_the_profilers_link_is_used():
    program = Program()
    program.run("aten::relu", X)
    trace = program.trace()
    device = replace(trace.device, call=np.array([-1], np.int64))
    assert _row(kernel_traffic(replace(trace, device=device)), 0) == (512, 512, 0)
    nothing = replace(device, external=np.array([-1], np.int64))
    assert not kernel_traffic(replace(trace, device=nothing)).known[0]


def test_an_empty_trace_has_no_rows():
    trace = Program().trace()
    assert len(kernel_traffic(trace).bytes) == 0


LAYER = ["norm", "nvjet", "splitKreduce", "flash", "add"]
SHAPES_BYTES = [1168, sum(MM_BYTES), 0, 8448, 1536]
QKV = (T((1, 4, 1, 16)), T((1, 2, 64, 16)), T((1, 2, 64, 16)))


def _layer(program: Program, *, keys: int = 64, prefix: str = "") -> None:
    program.run("aten::_fused_rms_norm", X, "[64]", T((64,)), kernel=f"{prefix}norm")
    with program.op("aten::mm", *MM):
        program.launch(f"{prefix}nvjet")
        program.launch(f"{prefix}splitKreduce", 1_000)
    kv = T((1, 2, keys, 16))
    with program.op("aten::scaled_dot_product_attention", QKV[0], kv, kv):
        program.run("aten::_flash_attention_forward", T((1, 1, 4, 16)), T((1, keys, 2, 16)),
                    T((1, keys, 2, 16)), kernel=f"{prefix}flash")  # fmt: skip
    program.run("aten::add", X, X, 1, kernel=f"{prefix}add")


def _replay(program: Program, times: int = 1, prefix: str = "") -> None:
    program.replay([(f"{prefix}{name}", 3_000, KERNEL, -1) for name in LAYER] * times)


def _graph_rows(program: Program):
    trace = program.trace()
    traffic = kernel_traffic(trace)
    names = [trace.names[i] for i in trace.calls.name]
    graphed = [names[call] == "cudaGraphLaunch" for call in trace.device.call]
    return traffic, np.flatnonzero(graphed)


def test_a_replay_is_counted_by_the_warm_up_that_ran_the_same_kernels():
    program = Program()
    _layer(program)
    _replay(program)
    traffic, rows = _graph_rows(program)
    assert traffic.bytes[rows].tolist() == SHAPES_BYTES
    assert traffic.bytes[:5].tolist() == SHAPES_BYTES
    assert (traffic.source[rows] == Source.MATCHED).all()
    assert traffic.counted_at[rows].tolist() == [5, 6, 6, 8, 9]
    assert (traffic.op[rows] == -1).all()


def test_a_replay_is_counted_by_its_capture():
    program = Program()
    with program.capture():
        _layer(program)
    # Another stream's kernels in between, and a warm-up of other kernels, do not disturb.
    _layer(program, prefix="other ")
    _replay(program)
    traffic, rows = _graph_rows(program)
    assert traffic.bytes[rows].tolist() == SHAPES_BYTES
    assert traffic.counted_at[rows].tolist() == [5, 6, 6, 8, 9]


def test_the_kernels_of_a_capture_may_stand_in_another_trace():
    first, second = Program(), Program()
    with first.capture():
        _layer(first)
    _replay(second)
    assert not kernel_traffic(second.trace()).known.any()
    traffic = kernel_traffic(second.trace(), references=[first.trace()])
    assert traffic.bytes.tolist() == SHAPES_BYTES


def test_a_capture_of_another_length_or_of_other_kinds_does_not_match():
    program = Program()
    with program.capture():
        _layer(program)
        program.run("aten::relu", X)
    with program.capture():
        with program.op("aten::fill_", X, 0):
            program.launch("Memset (Device)", kind=SET, size=512)
        for _ in range(4):
            program.run("aten::relu", X)
    _replay(program)
    traffic, rows = _graph_rows(program)
    assert not traffic.known[rows].any()


@pytest.mark.parametrize("captured", [True, False])
def test_a_graph_may_run_a_copy_as_a_kernel(captured):
    program = Program()

    def step():
        _layer(program)
        with program.op("aten::copy_", T((16,)), T((16,))):
            program.launch("Memcpy DtoD (Device -> Device)", kind=COPY, size=32)
        program.run("aten::add", X, X, 1, kernel="add")

    if captured:
        with program.capture():
            step()
    else:
        step()
    program.replay([(name, 3_000, KERNEL, -1) for name in [*LAYER, "memcpy32_post", "add"]])
    traffic, rows = _graph_rows(program)
    assert traffic.bytes[rows].tolist() == [*SHAPES_BYTES, 64, SHAPES_BYTES[-1]]


def test_a_replay_with_one_other_kernel_is_unknown():
    program = Program()
    _layer(program)
    nodes = [(name, 3_000, KERNEL, -1) for name in [*LAYER[:-1], "mul"]]
    program.replay(nodes)
    traffic, rows = _graph_rows(program)
    assert not traffic.known[rows].any()


def test_where_matches_disagree_only_what_they_agree_on_is_known():
    program = Program()
    _layer(program, keys=64)
    _layer(program, keys=65)
    _replay(program)
    traffic, rows = _graph_rows(program)
    assert traffic.known[rows].tolist() == [True, True, True, False, True]
    assert traffic.bytes[rows[:3]].tolist() == SHAPES_BYTES[:3]


def test_replays_do_not_match_each_other():
    program = Program()
    _replay(program)
    _replay(program)
    traffic, _ = _graph_rows(program)
    assert not traffic.known.any()


def test_steps_of_a_trace_without_shapes_match_a_trace_with_them():
    shaped, bare = Program(), Program(with_shapes=False)
    for program in (shaped, bare):
        program.step("prefill", 4)
        program.run("aten::relu", X, kernel="relu")
        program.step("decode", 1)
        _layer(program)
    steps = bare.found()
    assert not kernel_traffic(bare.trace(), steps).known.any()
    traffic = kernel_traffic(bare.trace(), steps, references=[shaped.trace()])
    # One kernel alone would match by chance: the prefill stays unknown.
    assert traffic.bytes.tolist() == [-1, *SHAPES_BYTES]


def test_rates_of_a_step_are_over_busy_and_over_wall_time():
    program = Program()
    program.step("decode", 1)
    program.run("aten::relu", X, ns=1_000)
    program.launch("custom", 3_000)
    program.step("decode", 1)
    program.now += 10_000
    program.run("aten::relu", X, ns=1_000)
    trace, steps = program.trace(), program.found()
    rates = step_rates(trace, steps, kernel_traffic(trace), step=0)
    wall = int(trace.device.start_ns[2] - trace.device.start_ns[0])
    assert (rates.bytes, rates.busy_ns, rates.wall_ns) == (1024, 4_000, wall)
    assert rates.known_time_share == 0.25
    assert rates.bytes_per_s_busy == 1024 * 1e9 / 4_000
    assert rates.bytes_per_s_wall == 1024 * 1e9 / wall


def test_a_share_of_the_peak_needs_all_three():
    assert peak_share(1_000_000, time_ns=1_000, peak_per_s=4e12) == 0.25
    assert peak_share(None, time_ns=1_000, peak_per_s=4e12) is None
    assert peak_share(1_000, time_ns=0, peak_per_s=4e12) is None
    assert peak_share(1_000, time_ns=1_000, peak_per_s=None) is None


def test_lookups_read_rows_not_the_table():
    program = Program()
    indices = T((1, 2), LONG)
    program.run("aten::embedding", T((1000, 64)), indices, -1, False, False)
    assert _row(kernel_traffic(program.trace()), 0) == (256 + 16, 256, 0)
