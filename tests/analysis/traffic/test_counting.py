"""Bytes and FLOPs of single ops, counted by hand."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from decodeprof.analysis.traffic.counting import _COUNTERS, count
from decodeprof.analysis.traffic.operands import ITEM_BYTES, Operand
from tests.analysis.traffic.program import BF16, BOOL, FLOAT, LONG, T, dense, detail

CAT = "void CatArrayBatchedCopy<at::native::OpaqueType<2u>, unsigned int, 4, 64, 64>(int)"
X = T((4, 64))
F = T((4, 64), FLOAT)


@pytest.mark.parametrize(
    ("name", "arguments", "read", "written", "flops"),
    [
        # (1 × 64) · (64 × 256), the weight transposed: 2 · 64 + 2 · 64 · 256; 2 · 256.
        ("mm", [T((1, 64)), T((64, 256), BF16, (1, 64))], 128 + 32768, 512, 2 * 64 * 256),
        ("addmm", [T((256,)), T((3, 64)), T((64, 256))], 512 + 384 + 32768, 1536, 98304),
        # A bias expanded over rows is read once.
        ("addmm", [T((3, 256), BF16, (0, 1)), T((3, 64)), T((64, 256))], 33664, 1536, 98304),
        ("linear", [T((2, 3, 64)), T((256, 64)), T((256,))], 768 + 32768 + 512, 3072, 196608),
        ("linear", [T((2, 3, 64)), T((256, 64)), None], 768 + 32768, 3072, 196608),
        ("bmm", [T((8, 2, 16)), T((8, 16, 32))], 512 + 8192, 1024, 2 * 8 * 2 * 32 * 16),
        ("baddbmm", [T((8, 2, 32)), T((8, 2, 16)), T((8, 16, 32))], 9728, 1024, 16384),
        ("matmul", [T((5, 2, 16)), T((16, 32))], 320 + 1024, 640, 2 * 5 * 2 * 32 * 16),
        ("matmul", [T((64,)), T((64, 32))], 128 + 4096, 64, 4096),
        ("mv", [T((32, 64)), T((64,))], 4096 + 128, 64, 4096),
        (
            "_scaled_mm",
            [T((16, 64), "c10::Float8_e4m3fn"), T((64, 32), "c10::Float8_e4m3fn"), T((), FLOAT),
             T((), FLOAT), None, None, 15, True],
            1024 + 2048, 1024, 65536,
        ),
        ("_int_mm", [T((32, 64), "signed char"), T((64, 32), "signed char")], 4096, 4096, 131072),
        ("add", [X, X, 1], 1024, 512, 0),
        ("add", [X, T((64,)), 1], 512 + 128, 512, 0),
        ("add", [X, T((), "double"), 1], 512, 512, 0),
        ("add", [T((4, 64), LONG), T((), "double"), 1], 2048, 1024, 0),
        ("mul", [F, T((4, 1), FLOAT)], 1024 + 16, 1024, 0),
        ("mul", [X, F], 512 + 1024, 1024, 0),
        ("mul", [X, F, X], 512 + 1024, 512, 0),
        ("mul", [T((4, 64), BF16, (0, 1)), X], 128 + 512, 512, 0),
        ("add_", [X, X, 1], 1024, 512, 0),
        ("mul_", [X, T((), "double")], 512, 512, 0),
        ("div", [T((4, 64), LONG), T((), LONG)], 2048, 1024, 0),
        ("eq", [T((4, 64), LONG), 3], 2048, 256, 0),
        ("pow", [F, 2], 1024, 1024, 0),
        ("pow", [2.0, F], 1024, 1024, 0),
        ("silu", [X], 512, 512, 0),
        ("cos", [T((8,), LONG)], 64, 32, 0),
        ("logical_not", [X], 512, 256, 0),
        ("cumsum", [F, -1, None], 1024, 1024, 0),
        ("addcmul", [X, X, X, 1], 1536, 512, 0),
        ("clamp", [X, 0, None], 512, 512, 0),
        ("where", [T((4, 64), BOOL), X, X], 256 + 1024, 512, 0),
        ("where", [T((4, 64), BOOL), T((), FLOAT), T((), BF16)], 256, 1024, 0),
        ("masked_fill_", [X, T((4, 64), BOOL), 0], 512 + 256, 512, 0),
        ("masked_fill", [X, T((1, 64), BOOL), 0], 512 + 64, 512, 0),
        ("sum", [F, "[-1]", False, None], 1024, 16, 0),
        ("sum", [F, "[0, 1]", False, None], 1024, 4, 0),
        ("sum", [F, None], 1024, 4, 0),
        ("sum", [F, 6], 1024, 4, 0),
        ("sum", [T((4, 64), BOOL), None], 256, 8, 0),
        ("mean", [F, "[-1]", True, None], 1024, 16, 0),
        ("argmax", [X, -1, True], 512, 32, 0),
        ("argmax", [X, None, False], 512, 8, 0),
        ("max", [X], 512, 2, 0),
        ("max", [X, -1, False], 512, 4 * 10, 0),
        ("max", [X, X], 1024, 512, 0),
        ("all", [T((4, 64), BOOL)], 256, 1, 0),
        ("linalg_vector_norm", [F, 2, "[1]", False, None], 1024, 16, 0),
        ("var", [F, "[1]", None, False], 1024, 16, 0),
        ("std", [F, True], 1024, 4, 0),
        ("_softmax", [X, -1, False], 512, 512, 0),
        ("_softmax", [X, -1, True], 512, 1024, 0),
        ("native_layer_norm", [X, "[64]", T((64,)), T((64,)), 1e-5], 512 + 256, 512 + 32, 0),
        ("_fused_rms_norm", [X, "[64]", T((64,)), 1e-6], 512 + 128, 512 + 16, 0),
        ("topk", [X, 5, -1, True, True], 512, 4 * 5 * 10, 0),
        ("sort", [X, -1, True], 512, 4 * 64 * 10, 0),
        ("copy_", [F, X, False], 512, 1024, 0),
        ("copy_", [T((8, 64)), T((8, 64), BF16, (0, 1)), False], 128, 1024, 0),
        ("_to_copy", [X, 6, None, None, None, False, None], 512, 1024, 0),
        ("fill_", [X, 0], 0, 512, 0),
        ("zero_", [X], 0, 512, 0),
        ("exponential_", [F, 1.0, None], 0, 1024, 0),
        ("arange", [16, T((0,), LONG)], 0, 128, 0),
        ("arange", [0, 128, 2, T((0,), FLOAT)], 0, 256, 0),
        ("embedding", [T((1000, 64)), T((1, 3), LONG), -1, False, False], 384 + 24, 384, 0),
        ("index_select", [T((1000, 64)), 0, T((3,), LONG)], 384 + 24, 384, 0),
        ("index_select", [T((4, 64)), 1, T((3,), LONG)], 24 + 24, 24, 0),
        ("gather", [X, -1, T((4, 2), LONG)], 16 + 64, 16, 0),
        ("scatter_", [X, -1, T((4, 2), LONG), T((4, 2))], 64 + 16, 16, 0),
        ("scatter_", [X, -1, T((4, 2), LONG), 1], 64, 16, 0),
        ("scatter_add_", [X, -1, T((4, 2), LONG), T((4, 2))], 64 + 16 + 16, 16, 0),
        (
            "index_copy_",
            [T((1, 8, 256, 16)), 2, T((1,), LONG), T((1, 8, 1, 16))],
            8 + 256, 256, 0,
        ),
        ("index_add_", [X, 0, T((2,), LONG), T((2, 64)), 1], 16 + 256 + 256, 256, 0),
        ("index_fill_", [X, 1, T((2,), LONG), 0], 16, 16, 0),
        ("index", [X, [T((3,), LONG)]], 384 + 24, 384, 0),
        ("index_put_", [X, [T((2,), LONG), T((2,), LONG)], T((2,)), False], 4 + 32, 4, 0),
        ("cat", [[T((1, 8, 4, 16)), T((1, 8, 1, 16))], -2], 1280, 1280, 0),
    ],
)  # fmt: skip
def test_known_answers(name, arguments, read, written, flops):
    work = count(f"aten::{name}", detail(*arguments), CAT)
    assert work is not None
    assert (work.read_bytes, work.written_bytes, work.flops) == (read, written, flops)


# Batch 1, 4 query heads on 2 key heads, width 16, capacity 64: q 128, k and v 4,096 each.
Q, KV = T((1, 4, 1, 16)), T((1, 2, 64, 16))
FLAT = 4 * 64 * 2 * (16 + 16)


@pytest.mark.parametrize(
    ("name", "arguments", "read", "flops"),
    [
        ("scaled_dot_product_attention", [Q, KV, KV, None, 0.0, False, None, True], 8320, FLAT),
        # A mask of 64 floats, expanded over the four heads, is read once.
        (
            "_scaled_dot_product_efficient_attention",
            [Q, KV, KV, T((1, 4, 1, 64), FLOAT, (64, 0, 64, 1)), False, 0.0, False, None],
            8320 + 256, FLAT,
        ),
        ("_scaled_dot_product_flash_attention", [Q, KV, KV, 0.0, False, False, None], 8320, FLAT),
        (
            "_cudnn_attention_forward",
            [Q, KV, KV, T((1, 1, 1, 64)), None, None, 1, 64, False, 0.0, False, False, None],
            8320 + 128, FLAT,
        ),
        (
            "_flash_attention_forward",
            [T((1, 1, 4, 16)), T((1, 64, 2, 16)), T((1, 64, 2, 16)), None, None, 1, 64, 0.0, False,
             False, None, None, None, None, None],
            8320, FLAT,
        ),
        (
            "_efficient_attention_forward",
            [T((1, 1, 4, 16)), T((1, 64, 2, 16)), T((1, 64, 2, 16)), None, None, None, None, None,
             0.0, 0, False, None, None, None],
            8320, FLAT,
        ),
    ],
)  # fmt: skip
def test_attention_in_its_variants(name, arguments, read, flops):
    work = count(f"aten::{name}", detail(*arguments), "flash")
    assert (work.read_bytes, work.written_bytes, work.flops) == (read, 128, flops)
    assert work.dtype == BF16


def test_causal_attention_counts_the_triangle():
    q = T((2, 4, 10, 16))
    plain = count("aten::scaled_dot_product_attention", detail(q, q, q, None, 0.0, False), "k")
    causal = count("aten::scaled_dot_product_attention", detail(q, q, q, None, 0.0, True), "k")
    assert plain.flops == 2 * 8 * 100 * 32
    assert causal.flops == 2 * 8 * 55 * 32
    assert causal.read_bytes == plain.read_bytes


def test_keys_expanded_over_heads_are_read_once():
    expanded = T((1, 4, 64, 16), BF16, (2048, 0, 16, 1))
    work = count("aten::scaled_dot_product_attention", detail(Q, expanded, expanded), "k")
    assert work.read_bytes == 128 + 2 * 64 * 16 * 2


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("aten::cudnn_convolution", [X, X]),
        ("my_library::fused", [X]),
        ("aten::add", [T((4, 64), "MysteryType"), X]),
        ("aten::add", [X, T((3, 5))]),
        ("aten::mm", [T((1, 64)), T((65, 8))]),
        ("aten::index", [X, None]),
        ("aten::where", [T((4, 64), BOOL)]),
        ("aten::topk", [X]),
        ("aten::arange", [16]),
        ("aten::sum", []),
        ("aten::index_select", [X, 7, T((3,), LONG)]),
        ("aten::scaled_dot_product_attention", [X, X, X]),
        # Packed sequences, a window, keys counted on the device.
        (
            "aten::_flash_attention_forward",
            [T((7, 4, 16)), T((7, 2, 16)), T((7, 2, 16)), T((3,), "int"), T((3,), "int"), 4, 4, 0.0,
             False, False, None, None, None, None, None],
        ),
        (
            "aten::_flash_attention_forward",
            [T((1, 1, 4, 16)), T((1, 64, 2, 16)), T((1, 64, 2, 16)), None, None, 1, 64, 0.0, False,
             False, None, 32, 0, None, None],
        ),
        (
            "aten::_flash_attention_forward",
            [T((1, 1, 4, 16)), T((1, 64, 2, 16)), T((1, 64, 2, 16)), None, None, 1, 64, 0.0, False,
             False, None, None, None, T((1,), "int"), None],
        ),
        ("triton_tem_fused_mm_3", [X, X, X, 4, 64]),
        ("triton_poi_fused_add_0", [X, X]),
    ],
)  # fmt: skip
def test_what_the_arguments_do_not_tell_stays_unknown(name, arguments):
    assert count(name, detail(*arguments), "kernel") is None


def test_a_concatenation_of_unknown_elements_is_unknown():
    arguments = detail([X, X], 0)
    assert count("aten::cat", arguments, "my_cat_kernel") is None
    assert (
        count("aten::cat", arguments, "void CatArrayBatchedCopy<float, int>()").read_bytes == 2048
    )


def test_a_compiled_kernel_touches_no_more_of_an_argument_than_it_visits():
    # An embedding of 1,000 rows, of which one row of 64 is used; the result is written.
    arguments = detail(T((1, 1), LONG), T((1000, 64)), T((64,)), T((1, 1, 64)), 1, 64)
    work = count("triton_per_fused_embedding_0", arguments, "triton_per_fused_embedding_0")
    assert work.read_bytes == 8 + 128 + 128
    assert work.written_bytes == 128


SHAPES = st.lists(st.integers(0, 5), max_size=4).map(tuple)


@st.composite
def tensors(draw):
    shape = draw(SHAPES)
    strides = list(dense(shape))
    for i in range(len(strides)):
        if draw(st.booleans()):
            strides[i] = draw(st.sampled_from([0, strides[i], strides[i] * 2]))
    return T(shape, draw(st.sampled_from([BF16, FLOAT, LONG, BOOL, "?"])), tuple(strides))


ARGUMENT = st.one_of(
    tensors(), st.lists(tensors(), min_size=1, max_size=3), st.none(),
    st.integers(-3, 9), st.sampled_from(["[-1]", "[0, 1]", "True", "inf", "nonsense"]),
)  # fmt: skip


@settings(max_examples=300, deadline=None, derandomize=True)
@given(name=st.sampled_from(sorted(_COUNTERS)), arguments=st.lists(ARGUMENT, max_size=9))
def test_any_arguments_give_a_count_that_is_not_negative_or_none(name, arguments):
    work = count(name, detail(*arguments), CAT)
    assert work is None or min(work[:3]) >= 0


@settings(derandomize=True)
@given(tensors().filter(lambda t: t.dtype != "?"))
def test_an_operand_is_never_larger_than_its_storage(tensor):
    operand = Operand(tensor.shape, tensor.strides, tensor.dtype)
    places = {0}
    for size, stride in zip(tensor.shape, tensor.strides, strict=True):
        places = {at + i * stride for at in places for i in range(size)}
    assert operand.bytes >= len(places) * ITEM_BYTES[tensor.dtype]
    assert operand.bytes <= operand.full_bytes
    if places:
        assert operand.bytes <= (max(places) + 1) * ITEM_BYTES[tensor.dtype]
