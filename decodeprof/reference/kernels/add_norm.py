"""Add and RMS-normalise a row in one kernel."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def _add_norm(
    residual,
    delta,
    weight,
    added,
    normed,
    eps,
    SIZE: tl.constexpr,
    BLOCK: tl.constexpr,
    HAS_DELTA: tl.constexpr,
):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < SIZE
    x = tl.load(residual + row * SIZE + at, mask=inside, other=0.0)
    if HAS_DELTA:
        wide = tl.load(delta + row * SIZE + at, mask=inside, other=0.0).to(tl.float32)
        wide += x.to(tl.float32)
        x = wide.to(x.dtype)
        tl.store(added + row * SIZE + at, x, mask=inside)
    wide = x.to(tl.float32)
    scale = tl.rsqrt(tl.sum(wide * wide, axis=0) / SIZE + eps)
    w = tl.load(weight + at, mask=inside, other=0.0).to(tl.float32)
    # Rounded in between, where PyTorch rounds.
    wide = (wide * scale).to(x.dtype).to(tl.float32) * w
    tl.store(normed + row * SIZE + at, wide.to(x.dtype), mask=inside)


def add_norm(
    residual: Tensor, delta: Tensor | None, weight: Tensor, eps: float
) -> tuple[Tensor, Tensor]:
    """`fused.add_norm` on ``[rows, size]``, one program a row."""
    rows, size = residual.shape
    added = residual if delta is None else torch.empty_like(residual)
    normed = torch.empty_like(residual)
    block = triton.next_power_of_2(size)
    _add_norm[(rows,)](
        residual,
        residual if delta is None else delta,
        weight,
        added,
        normed,
        eps,
        SIZE=size,
        BLOCK=block,
        HAS_DELTA=delta is not None,
        # 8 elements a thread: a row is too short to hide latency by anything but more threads.
        num_warps=max(1, min(16, block // 256)),
    )
    return added, normed
