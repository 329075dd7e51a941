"""SwiGLU's activation in one kernel."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 1024
"""Elements a program: 8 a thread at 4 warps."""


@triton.jit
def _gate(gate_up, out, SIZE: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = at < SIZE
    gates = tl.load(gate_up + row * 2 * SIZE + at, mask=inside, other=0.0).to(tl.float32)
    ups = tl.load(gate_up + row * 2 * SIZE + SIZE + at, mask=inside, other=0.0)
    silu = (gates * tl.sigmoid(gates)).to(ups.dtype).to(tl.float32)
    tl.store(out + row * SIZE + at, (silu * ups.to(tl.float32)).to(ups.dtype), mask=inside)


def gate(gate_up: Tensor) -> Tensor:
    """`fused.gate` on ``[rows, 2 size]``."""
    rows, size = gate_up.shape[0], gate_up.shape[1] // 2
    out = torch.empty((rows, size), device=gate_up.device, dtype=gate_up.dtype)
    _gate[(rows, triton.cdiv(size, BLOCK))](gate_up, out, SIZE=size, BLOCK=BLOCK, num_warps=4)
    return out
