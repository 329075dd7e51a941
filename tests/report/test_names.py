from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decodeprof.report.blocks import Span
from decodeprof.report.names import (
    LONGEST,
    cleaned,
    fitted,
    place,
    short_kernel_name,
    told_apart,
)

NAMES = {
    "void at::native::vectorized_elementwise_kernel<8, at::native::CUDAFunctor_add<c10::BFloat16>,"
    " std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<c10::BFloat16>)": (
        "vectorized_elementwise_kernel: add"
    ),
    "void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<"
    "at::native::BinaryFunctor<float, float, float, at::native::binary_internal::MulFunctor<float>"
    " > >(at::TensorIteratorBase&)::{lambda(int)#1}>(int)": "elementwise_kernel: Mul",
    "void at::native::vectorized_elementwise_kernel<4, at::native::(anonymous namespace)::"
    "pow_tensor_scalar_kernel_impl<float, float>(at::TensorIteratorBase&, float)::"
    "{lambda(float)#1}, std::array<char*, 2ul> >(int)": (
        "vectorized_elementwise_kernel: pow_tensor_scalar"
    ),
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float,"
    " float, float, float>, unsigned int, float, 4, 4> >(int)": "reduce_kernel: Mean",
    "void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_64x64_32x6_nn_align4>(int)": (
        "cutlass_80_tensorop_s1688gemm_64x64_32x6_nn_align4"
    ),
    "nvjet_sm90_tst_64x8_64x16_4x1_v_bz_TNT": "nvjet_sm90_tst_64x8_64x16_4x1_v_bz_TNT",
    "std::enable_if<(((8)>(0)))&&vllm::_typeConvert<c10::BFloat16>::exists, void>::type"
    " vllm::fused_add_rms_norm_kernel<c10::BFloat16, 8>(int)": "fused_add_rms_norm_kernel",
    "_ZN5aiter24add_rmsnorm_quant_kernelIDF16bDF16bLi256EEEvPT0_": "add_rmsnorm_quant_kernel",
    "_ZN7ck_tile6kentryILi1ENS_12Rmsnorm2dFwdINS_5OtherEEEEvT_": "Rmsnorm2dFwd",
    "at::cuda::(anonymous namespace)::spin_kernel(long)": "spin_kernel",
    "Memset (Device)": "Memset (Device)",
    "Memcpy HtoD (Pageable -> Device)": "Memcpy HtoD (Pageable -> Device)",
    "triton_poi_fused_add_0": "triton_poi_fused_add_0",
}


@pytest.mark.parametrize(("name", "short"), NAMES.items())
def test_short_kernel_name_keeps_the_telling_part(name: str, short: str) -> None:
    assert short_kernel_name(name) == short


@given(st.text(max_size=200))
def test_short_kernel_name_takes_any_text(name: str) -> None:
    assert short_kernel_name(name) or not name


@given(st.text(max_size=600), st.integers(4, 80))
def test_fitted_is_never_wider_and_keeps_what_fits(name: str, width: int) -> None:
    short = fitted(name, width)
    assert len(short) <= width
    assert short == name if len(name) <= width else "…" in short


@given(st.text(max_size=LONGEST + 50))
def test_a_span_holds_no_control_or_formatting_character(text: str) -> None:
    span = Span(text)
    assert not any(unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") for c in span.text)
    assert len(span.text) <= LONGEST
    assert cleaned(span.text) == span.text


def test_cleaned_leaves_ordinary_text_alone() -> None:
    text = "größe = 3 × 4 µs → “ok” 日本語 [red]"
    assert cleaned(text) == text


def test_place_says_what_is_known() -> None:
    assert place("a.py", 3) == "a.py:3"
    assert place("a.py", None) == "a.py"
    assert place(None, None) == "place unknown"


def test_names_that_differ_in_their_middles_show_where() -> None:
    common = "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_"
    tail = "_WGMXCC1_WGMXCCGn1_WS64_WG64_4_1"
    names = [f"{common}MT64x16x128_MI16x16x1_{k}_SN{tail}" for k in ("K1", "K2", "P9")]
    shown = told_apart(names, 46)
    assert len(set(shown)) == 3
    for short, kind in zip(shown, ("K1", "K2", "P9"), strict=True):
        assert short.startswith("Cijk_Alik_B")
        assert kind in short
        assert len(short) <= 46
    # What is told apart already stays as it was, and so do two rows of one name.
    assert told_apart(["add", "mul", "mul"], 46) == ["add", "mul", "mul"]
    assert told_apart([names[0], "add", names[0]], 46)[0] == fitted(names[0], 46)


@given(st.lists(st.text("ab", min_size=1, max_size=40), max_size=6), st.integers(20, 30))
def test_names_told_apart_are_never_wider(names: list[str], width: int) -> None:
    assert all(len(short) <= width for short in told_apart(names, width))
