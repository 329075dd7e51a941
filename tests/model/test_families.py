"""Names of kernels met in real traces, and their families."""

import pytest

from decodeprof.model.families import FAMILIES, family


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("nvjet_sm90_tst_64x8_64x16_4x1_v_bz_NNT", "matrix"),
        ("gemv2T_kernel_val", "matrix"),
        ("void splitKreduce_kernel<32>", "matrix"),
        ("Cijk_Ailk_Bljk_HHS_BH_MT128", "matrix"),
        ("triton_tem_fused_mm_3", "matrix"),
        ("triton_poi_fused_add_0", "fused by a compiler"),
        ("triton_red_fused_rsqrt", "fused by a compiler"),
        ("triton_poi_fused__scaled_dot_product_cudnn_attention_add_le_1", "fused by a compiler"),
        ("triton_tem_fused_flex_attention_4", "attention"),
        # An attention kernel that is named after the matrix library it holds.
        ("fmha_cutlassF_f32_aligned_64x64_rf_sm80", "attention"),
        ("void pytorch_flash::flash_fwd_splitkv_kernel<...>", "attention"),
        ("paged_attention_ll4mi_QKV_kernel", "attention"),
        # Reductions and elementwise kernels are templates over what they compute.
        ("void reduce_kernel<512, 1, at::native::ReduceOp<float, ArgMaxOps<float>>>", "sampling"),
        ("void reduce_kernel<512, 1, at::native::ReduceOp<float, MeanOps<float>>>", "reduction"),
        (
            "void vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>",
            "elementwise",
        ),
        ("void at::native::index_elementwise_kernel", "gather and scatter"),
        ("void at::native::indexSelectSmallIndex<c10::BFloat16>", "gather and scatter"),
        ("void CatArrayBatchedCopy_alignedK_contig<...>", "concatenate"),
        ("void at::native::vectorized_layer_norm_kernel<float>", "norm"),
        ("void vllm::rms_norm_kernel", "norm"),
        ("void softmax_warp_forward<..>", "softmax"),
        ("cunn_SoftMaxForward", "softmax"),
        ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", "collective"),
        ("Memcpy DtoH (Device -> Pinned)", "copy"),
        ("__amd_rocclr_copyBuffer", "copy"),
        ("Memset (Device)", "set"),
        ("__amd_rocclr_fillBufferAligned", "set"),
        ("my_kernel", "other"),
        ("", "other"),
        # What a name says after hundreds of characters of template arguments is no answer.
        ("my_kernel<" + "x, " * 200 + "gemm>", "other"),
    ],
)
def test_family_by_name(name: str, expected: str) -> None:
    assert family(name) == expected
    assert expected in FAMILIES
