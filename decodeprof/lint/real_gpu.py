"""Did code fail here because it needs a GPU, or compiled code, that is not there?"""

from __future__ import annotations

import re
import traceback

_PACKAGES = (
    "apex|bitsandbytes|causal_conv1d|cuda|cupy|exllamav2|flash_attn|flashinfer|mamba_ssm|"
    "numba|pycuda|sgl_kernel|tensorrt|tensorrt_llm|transformer_engine|triton|vllm|xformers"
)
_NEEDS_GPU = re.compile(
    r"not linked with support for cuda|not compiled with CUDA|No CUDA GPUs|NVIDIA driver|"
    r"active drivers?|libcuda|has no attribute '_(?:cuda|scatter|broadcast)|NCCL built in|"
    r"CUDA_HOME|no kernel image|"
    r"must be (?:a )?(?:CUDA|GPU) tensor|must be on (?:CUDA|a GPU)|"
    r"Could not run '[^']*' with arguments from the 'CPU' backend|"
    rf"No module named '(?:{_PACKAGES})\b",
    re.I,
)
"""What torch, Triton and extensions say where they really need a GPU."""
_NEEDS_EXTENSION = re.compile(
    r"'_OpNamespace' '(?!aten'|prims')[^']*' object has no attribute|"
    r"Could not load this library|cannot open shared object file|undefined symbol|"
    r"No module named '[\w.]*(?:_cuda|_C|_ext|_kernels?)'"
)
"""What torch and Python say where code that is compiled beforehand is not there."""


def needs(error: BaseException) -> str | None:
    """What an error says is missing: "a real GPU" or "a compiled extension"; None: neither."""
    # An exception of the program's own may fail to say what it is.
    text = "".join(traceback.format_exception_only(error))
    if _NEEDS_GPU.search(text) is not None:
        return "a real GPU"
    return "a compiled extension" if _NEEDS_EXTENSION.search(text) is not None else None


def needs_real_gpu(error: BaseException) -> bool:
    """Whether an error says that a GPU, or a package for one, is missing."""
    return needs(error) == "a real GPU"
