"""Normalise heads, rotate them and write the cache, in one kernel: one program a row and head."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait


@triton.jit
def _place(
    qkv,
    q_norm,
    k_norm,
    cosine,
    sine,
    positions,
    q_out,
    keys,
    values,
    eps,
    row_stride,
    head_stride,
    HEADS: tl.constexpr,
    KV_HEADS: tl.constexpr,
    DIM: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    if OVERLAP:
        gdc_launch_dependents()
        gdc_wait()
    row = tl.program_id(0)
    head = tl.program_id(1)
    half = tl.arange(0, DIM // 2)
    position = tl.load(positions + row)
    source = qkv + (row * (HEADS + 2 * KV_HEADS) + head) * DIM
    low = tl.load(source + half)
    high = tl.load(source + DIM // 2 + half)
    if head < HEADS + KV_HEADS:
        norm = k_norm
        if head < HEADS:
            norm = q_norm
        wide_low, wide_high = low.to(tl.float32), high.to(tl.float32)
        square = tl.sum(wide_low * wide_low, axis=0) + tl.sum(wide_high * wide_high, axis=0)
        scale = tl.rsqrt(square / DIM + eps)
        wide_low = wide_low * scale * tl.load(norm + half)
        wide_high = wide_high * scale * tl.load(norm + DIM // 2 + half)
        # Both halves of a head turn by the same angles: the table's first half is enough.
        c = tl.load(cosine + position * DIM + half).to(tl.float32)
        s = tl.load(sine + position * DIM + half).to(tl.float32)
        low = (wide_low * c - wide_high * s).to(low.dtype)
        high = (wide_high * c + wide_low * s).to(high.dtype)
    target = q_out + (row * HEADS + head) * DIM
    if head >= HEADS:
        target = keys + row * row_stride + (head - HEADS) * head_stride + position * DIM
    if head >= HEADS + KV_HEADS:
        target = (
            values + row * row_stride + (head - HEADS - KV_HEADS) * head_stride + position * DIM
        )
    tl.store(target + half, low)
    tl.store(target + DIM // 2 + half, high)


def place(
    qkv: Tensor,
    norms: tuple[Tensor, Tensor],
    table: tuple[Tensor, Tensor],
    positions: Tensor,
    cache: tuple[Tensor, Tensor],
    eps: float,
    *,
    overlap: bool = False,
) -> Tensor:
    """`fused.place`: norms of q and k, cosine and sine tables, keys and values of one layer."""
    keys, values = cache
    rows, kv_heads, _, head_dim = keys.shape
    heads = qkv.shape[1] // head_dim - 2 * kv_heads
    q = torch.empty((rows, heads, head_dim), device=qkv.device, dtype=qkv.dtype)
    _place[(rows, heads + 2 * kv_heads)](
        qkv,
        *norms,
        *table,
        positions,
        q,
        keys,
        values,
        eps,
        keys.stride(0),
        keys.stride(1),
        HEADS=heads,
        KV_HEADS=kv_heads,
        DIM=head_dim,
        OVERLAP=overlap,
        num_warps=1,
        launch_pdl=overlap,
    )
    return q
