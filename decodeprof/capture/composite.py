"""Which operators are made of others, and how does a dispatch mode see those?

With autograd, torch takes an operator without kernels of its own apart before a dispatch mode sees
it: of ``Tensor.to`` the mode sees ``aten::_to_copy``. In `torch.inference_mode` autograd's dispatch
keys are left out, and with them the step that takes apart: the mode sees ``aten::to`` and
``aten::item`` whole, and nothing of what happens inside. Taken apart by the mode itself, the same
code gives the same operators either way.
"""

from __future__ import annotations

import functools
from typing import Any

import torch

# Where one of these has a kernel, that runs, and not the parts.
_OWN_KERNELS = ("CPU", "CUDA", "NestedTensorCPU", "NestedTensorCUDA")


@functools.cache
def made_of_others(func: Any) -> bool:
    """Whether a dispatch mode should take an operator apart.

    Args:
        func: what the mode was called with; a higher-order operator never is.
    """
    if not isinstance(func, torch._ops.OpOverload):
        return False
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    name = func.name()
    return has(name, "CompositeImplicitAutograd") and not any(has(name, k) for k in _OWN_KERNELS)


def take_apart(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run an operator that is made of others; a mode that is to see those must be on.

    Args:
        func: an operator for which `made_of_others` is true.
        args: its positional arguments.
        kwargs: its keyword arguments.
    """
    # Not `func.decompose`: that prefers what tracing uses, which may copy where nothing is copied.
    return func._op_dk(torch._C.DispatchKey.CompositeImplicitAutograd, *args, **kwargs)
