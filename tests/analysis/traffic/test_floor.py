"""What a step must move, counted by hand on one layer of a decoder."""

import pytest

from decodeprof.analysis.traffic import kernel_traffic, step_floor
from decodeprof.model.trace import ActivityKind
from decodeprof.recording import ModelInfo
from tests.analysis.traffic.program import BF16, LONG, Program, T

WIDTH, HEADS, KV_HEADS, HEAD, VOCABULARY, CAPACITY = 64, 4, 2, 16, 1000, 256
# Bytes: an attention and a feed-forward weight of 64 × 64, and the head of 1,000 × 64.
PROJECTION, HEAD_WEIGHT = WIDTH * WIDTH * 2, VOCABULARY * WIDTH * 2
ENTRY = KV_HEADS * 2 * HEAD * 2
"""Keys and values of one token."""
WEIGHTS = 2 * PROJECTION + HEAD_WEIGHT


def _linear(program, tokens, inputs, outputs, kernel="nvjet"):
    program.run(
        "aten::mm", T((tokens, inputs)), T((inputs, outputs), BF16, (1, inputs)), kernel=kernel
    )


def _attention(program, tokens, keys, heads=KV_HEADS):
    kv = T((1, heads, keys, HEAD))
    with program.op("aten::scaled_dot_product_attention", T((1, HEADS, tokens, HEAD)), kv, kv):
        length_first = T((1, keys, heads, HEAD))
        program.run(
            "aten::_flash_attention_forward", T((1, tokens, HEADS, HEAD)), length_first,
            length_first, None, None, tokens, keys, 0.0, False, False, kernel="flash",
        )  # fmt: skip


def _step(program, tokens, keys, *, static, lookup=True, heads=KV_HEADS, scattered=False):
    if lookup:
        table, indices = T((VOCABULARY, WIDTH)), T((1, tokens), LONG)
        with program.op("aten::embedding", table, indices, -1, False, False):
            program.run("aten::index_select", table, 0, T((tokens,), LONG), kernel="index_select")
    _linear(program, tokens, WIDTH, WIDTH)
    new = T((1, KV_HEADS, tokens, HEAD))
    for _ in "kv":
        if static:
            cache = T((1, KV_HEADS, CAPACITY, HEAD))
            if scattered:
                places = T((1, KV_HEADS, tokens, HEAD), LONG)
                program.run("aten::scatter_", cache, 2, places, new, kernel="scatter")
            else:
                program.run("aten::index_copy_", cache, 2, T((tokens,), LONG), new, kernel="write")
        else:
            old = T((1, KV_HEADS, keys - tokens, HEAD))
            program.run("aten::cat", [old, new], -2, kernel="CatArrayBatchedCopy<OpaqueType<2u>>")
    _attention(program, tokens, CAPACITY if static else keys, heads)
    _linear(program, tokens, WIDTH, WIDTH)
    _linear(program, tokens, WIDTH, VOCABULARY)


def _decode(*, static, heads=KV_HEADS, prefill=10, steps=3, scattered=False):
    program = Program()
    if prefill:
        program.step("prefill", prefill)
        _step(program, prefill, prefill, static=static, heads=heads, scattered=scattered)
    for i in range(1, steps + 1):
        program.step("decode", 1)
        _step(program, 1, prefill + i, static=static, heads=heads, scattered=scattered)
    return program


def _floor(program, step, model=None):
    trace, steps = program.trace(), program.found()
    return step_floor(trace, steps, kernel_traffic(trace, steps), step=step, model=model)


@pytest.mark.parametrize("static", [True, False])
def test_a_decode_step_counts_weights_the_valid_prefix_and_what_it_leaves(static):
    floor = _floor(_decode(static=static), 2)
    assert floor.weight_bytes == WEIGHTS
    assert floor.weights_from == "shapes"
    assert floor.embedding_bytes == WIDTH * 2 + 8
    assert floor.kv_bytes == 12 * ENTRY
    assert floor.output_bytes == ENTRY + 8
    assert floor.bytes == WEIGHTS + WIDTH * 2 + 8 + 12 * ENTRY + ENTRY + 8
    assert floor.notes == ()


def test_the_flops_are_of_what_the_kernels_do_the_unused_capacity_included():
    products = 2 * (2 * WIDTH * WIDTH + WIDTH * VOCABULARY)
    growing, static = _floor(_decode(static=False), 2), _floor(_decode(static=True), 2)
    assert growing.flops == products + 4 * HEADS * HEAD * 12
    assert static.flops == products + 4 * HEADS * HEAD * CAPACITY
    assert static.flops_by_dtype == {BF16: static.flops}
    assert static.dtype == BF16


def test_heads_repeated_for_attention_are_read_once():
    floor = _floor(_decode(static=True, heads=HEADS), 1)
    assert floor.kv_bytes == 11 * ENTRY
    assert floor.output_bytes == ENTRY + 8


def test_a_scatter_writes_a_cache_as_an_indexed_copy_does():
    copied, scattered = (
        _floor(_decode(static=True, heads=HEADS, scattered=each), 2) for each in (False, True)
    )
    assert scattered.kv_bytes == copied.kv_bytes == 12 * ENTRY


def test_the_prefill_reads_every_row_that_it_looks_up():
    floor = _floor(_decode(static=False), 0)
    assert floor.embedding_bytes == 10 * (WIDTH * 2 + 8)
    assert floor.kv_bytes == 10 * ENTRY
    assert floor.output_bytes == 10 * ENTRY + 8


def test_without_the_prefill_a_static_cache_is_left_out_and_a_growing_one_is_not():
    static = _floor(_decode(static=True, prefill=0), 1)
    assert static.kv_bytes is None
    assert static.bytes == WEIGHTS + WIDTH * 2 + 8 + ENTRY + 8
    assert "capacity" in static.notes[0]
    program = Program()
    program.step("decode", 1)
    _step(program, 1, 40, static=False)
    assert _floor(program, 0).kv_bytes == 40 * ENTRY


def test_a_recording_bounds_the_weights():
    program = _decode(static=True)
    # Less than the shapes count: a weight is used twice, and read once.
    small = ModelInfo(parameter_bytes=HEAD_WEIGHT + PROJECTION)
    floor = _floor(program, 1, small)
    assert (floor.weight_bytes, floor.weights_from) == (HEAD_WEIGHT + PROJECTION, "recording")
    # More than the shapes count: experts that this step does not use.
    large = ModelInfo(parameter_bytes=10 * HEAD_WEIGHT)
    assert _floor(program, 1, large).weight_bytes == WEIGHTS
    # Rows of an embedding that is no head are read one by one.
    untied = ModelInfo(parameter_bytes=WEIGHTS + HEAD_WEIGHT - 2, embedding_bytes=HEAD_WEIGHT)
    assert _floor(program, 1, untied).weight_bytes == WEIGHTS - 2
    # Quantised weights are buffers.
    buffers = ModelInfo(parameter_bytes=16, buffer_bytes=2 * WEIGHTS)
    assert _floor(program, 1, buffers).weight_bytes == WEIGHTS


def _replays(*, warm_up):
    program = Program()
    program.step("prefill", 10)
    _step(program, 10, 10, static=True)
    nodes = ["index_select", "nvjet", "write", "write", "flash", "nvjet", "nvjet"]
    if warm_up:
        with program.capture():
            _step(program, 1, 0, static=True)
    for _ in range(3):
        program.step("decode", None)
        program.replay([(f"graph {name}", 3_000, ActivityKind.KERNEL, -1) for name in nodes])
    return program


def test_graph_replays_have_the_floor_of_their_capture():
    floor, eager = _floor(_replays(warm_up=True), 2), _floor(_decode(static=True), 2)
    assert floor == eager


def test_a_graph_of_one_layer_launched_twice_reads_two_caches():
    program = Program()
    program.step("prefill", 10)
    with program.capture():
        _step(program, 1, 0, static=True, lookup=False)
    program.run("aten::relu", T((1, WIDTH)))
    program.step("decode", 1)
    nodes = ["nvjet", "write", "write", "flash", "nvjet", "nvjet"]
    for _ in range(2):
        program.replay([(f"graph {name}", 3_000, ActivityKind.KERNEL, -1) for name in nodes])
    floor = _floor(program, 1)
    assert floor.weight_bytes == 2 * WEIGHTS
    assert floor.kv_bytes == 2 * 11 * ENTRY


def test_graph_replays_that_match_nothing_have_the_recordings_weights_alone():
    program = _replays(warm_up=False)
    floor = _floor(program, 2)
    assert (floor.bytes, floor.flops, floor.kv_bytes) == (None, None, None)
    assert "matrix kernels have no shapes" in floor.notes[0]
    assert "1 attention kernel has no shapes" in floor.notes[1]
    known = _floor(program, 2, ModelInfo(parameter_bytes=WEIGHTS))
    assert known.bytes == WEIGHTS
    assert known.weights_from == "recording"


def test_matrix_kernels_without_shapes_leave_the_weights_unknown():
    program = Program()
    program.step("decode", 1)
    _linear(program, 1, WIDTH, VOCABULARY)
    program.launch("custom_gemm_kernel")
    floor = _floor(program, 0)
    assert (floor.bytes, floor.weight_bytes, floor.flops) == (None, None, None)


def test_attention_written_as_products_leaves_its_cache_out():
    program = Program()
    program.step("prefill", 1)
    _linear(program, 1, WIDTH, WIDTH)
    program.run("aten::bmm", T((4, 1, 16)), T((4, 16, 12)), kernel="gemv")
    floor = _floor(program, 0)
    assert floor.weight_bytes == PROJECTION
    assert floor.kv_bytes is None
    assert "plain matrix products" in floor.notes[0]


def test_attention_that_torch_writes_as_products_is_still_attention():
    program = Program()
    program.step("prefill", 5)
    _linear(program, 5, WIDTH, WIDTH)
    kv = T((1, KV_HEADS, 5, HEAD))
    query = T((1, HEADS, 5, HEAD))
    with (
        program.op("aten::scaled_dot_product_attention", query, kv, kv),
        program.op("aten::_scaled_dot_product_attention_math", query, kv, kv),
    ):
        program.run("aten::bmm", T((4, 5, 16)), T((4, 16, 5)), kernel="gemm")
        program.run("aten::bmm", T((4, 5, 5)), T((4, 5, 16)), kernel="gemm")
    floor = _floor(program, 0)
    assert floor.weight_bytes == PROJECTION
    assert floor.kv_bytes == 5 * ENTRY
    assert floor.flops == 2 * 5 * WIDTH * WIDTH + 2 * (2 * 4 * 5 * 5 * 16)
