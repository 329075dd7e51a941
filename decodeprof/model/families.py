"""What sort of kernel is this? A family by its name, for grouping; and a name that fits a table."""

from __future__ import annotations

import re
from functools import lru_cache

FAMILIES = (
    "attention",
    "collective",
    "matrix",
    "norm",
    "softmax",
    "sampling",
    "gather and scatter",
    "concatenate",
    "reduction",
    "elementwise",
    "copy",
    "set",
    "fused by a compiler",
    "whole graph",
    "other",
)
# The first that matches wins: attention kernels are named after the matrix kernels they hold, and
# reductions are templates over elementwise functors.
_PATTERNS: tuple[tuple[str, str], ...] = (
    ("copy", r"^memcpy |^copybuffer|__amd_rocclr_copy"),
    ("set", r"^memset |__amd_rocclr_fill|^fillbuffer"),
    ("whole graph", r"^cuda graph\b"),
    # NCCL's and RCCL's (whose kernels are named nccl too), MSCCL's, and the engines' own.
    (
        "collective",
        r"nccl|rccl|msccl|nvshmem|all_?reduce|all_?gather|reduce_?scatter|all_?to_?all"
        r"|cross_device|quick_?reduce|deep_?ep::",
    ),
    # Named after all that it does, attention that it prepares for among them. Templates of whole
    # products and attention, triton_tem_, are what they are named after.
    ("fused by a compiler", r"^triton_(poi|per|red|mix|for)_"),
    ("attention", r"fmha|flash|attention|attn|\bmha\b|paged_|sdpa|_mla_|mla_"),
    (
        "matrix",
        r"gemm|gemv|nvjet|cutlass|cublas|\bcijk_|splitk|xmma|matmul|_mm_|\bdot_kernel"
        r"|wmma|hgmma|triton_tem_|_linear\b",
    ),
    ("norm", r"layer_?norm|rms_?norm|group_?norm|batch_?norm|bn_fw|bn_bw"),
    ("softmax", r"softmax"),
    ("fused by a compiler", r"^triton_"),
    ("sampling", r"argmax|argmin|multinomial|topk|top_k|sort|radix|sampl|cumsum|scan"),
    ("gather and scatter", r"gather|scatter|index|embedding|take_along"),
    ("concatenate", r"catarray|concat"),
    ("reduction", r"reduce"),
    (
        "elementwise",
        r"elementwise|pointwise|\bunrolled|vectorized|fill|copy_kernel|act_and_mul"
        r"|silu|gelu|rotary|rope",
    ),
)
_COMPILED = tuple((name, re.compile(pattern, re.IGNORECASE)) for name, pattern in _PATTERNS)


@lru_cache(maxsize=65536)
def family(name: str) -> str:
    """The family of a kernel, one of `FAMILIES`."""
    # Only what a name says first decides: hundreds of characters of template arguments follow.
    for found, pattern in _COMPILED:
        if pattern.search(name[:400]):
            return found
    return "other"
