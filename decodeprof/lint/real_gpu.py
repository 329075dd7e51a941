"""Did code fail here because it needs a GPU that is really there?"""

from __future__ import annotations

import re

_NEEDS_GPU = re.compile(
    r"not linked with support for cuda|not compiled with CUDA|No CUDA GPUs|NVIDIA driver|"
    r"active drivers?|libcuda|has no attribute '_cuda|CUDA_HOME|no kernel image|"
    r"No module named '(?:triton|flash_attn|xformers|vllm|bitsandbytes|causal_conv1d|mamba_ssm)",
    re.I,
)
"""What torch, Triton and extensions say where they really need a GPU."""


def needs_real_gpu(error: BaseException) -> bool:
    """Whether an error says that a GPU, or a package for one, is missing."""
    return _NEEDS_GPU.search(f"{type(error).__name__}: {error}") is not None
