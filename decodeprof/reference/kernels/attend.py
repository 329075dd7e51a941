"""Attention of one query a row over the valid prefix, split along the prefix.

Eight key heads at batch 1 would keep 8 of 132 processors busy, so the prefix of each is divided
among several programs, and a second kernel joins their partial softmaxes. The length is read on
the device: the same graph serves every position, and no slot beyond it is read.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

PROGRAMS = 128
"""Programs to aim at: about one for each processor of the GPU."""
BLOCK = 32
"""Slots handled at a time: 8 kB of keys at 128 dimensions in bfloat16."""
LEAST_QUERIES = 16
"""Rows that a matrix instruction needs; the group of heads is padded to it."""


@triton.jit
def _attend_part(
    q,
    keys,
    values,
    positions,
    part,
    top,
    total,
    scale,
    row_stride,
    head_stride,
    KV_HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    PADDED: tl.constexpr,
    DIM: tl.constexpr,
    SPLITS: tl.constexpr,
    BLOCK: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    if OVERLAP:
        gdc_launch_dependents()
        gdc_wait()
    pair = tl.program_id(0)
    split = tl.program_id(1)
    row = pair // KV_HEADS
    head = pair % KV_HEADS
    length = tl.load(positions + row).to(tl.int32) + 1
    chunk = tl.cdiv(length, SPLITS * BLOCK) * BLOCK
    start = split * chunk
    stop = tl.minimum(length, start + chunk)
    member = tl.arange(0, PADDED)
    dim = tl.arange(0, DIM)
    real = member < GROUP
    query = tl.load(
        q + (pair * GROUP + member)[:, None] * DIM + dim[None, :], mask=real[:, None], other=0.0
    )
    base = row.to(tl.int64) * row_stride + head * head_stride
    highest = tl.full([PADDED], float("-inf"), tl.float32)
    weight = tl.zeros([PADDED], tl.float32)
    mixed = tl.zeros([PADDED, DIM], tl.float32)
    for at in range(start, stop, BLOCK):
        slot = at + tl.arange(0, BLOCK)
        inside = slot < stop
        k = tl.load(
            keys + base + slot[None, :] * DIM + dim[:, None], mask=inside[None, :], other=0.0
        )
        v = tl.load(
            values + base + slot[:, None] * DIM + dim[None, :], mask=inside[:, None], other=0.0
        )
        score = tl.dot(query, k, input_precision="ieee") * scale
        score = tl.where(inside[None, :], score, float("-inf"))
        higher = tl.maximum(highest, tl.max(score, axis=1))
        shrink = tl.exp(highest - higher)
        share = tl.exp(score - higher[:, None])
        weight = weight * shrink + tl.sum(share, axis=1)
        mixed = mixed * shrink[:, None] + tl.dot(share.to(v.dtype), v, input_precision="ieee")
        highest = higher
    out = (pair * SPLITS + split) * GROUP + member
    tl.store(top + out, highest, mask=real)
    tl.store(total + out, weight, mask=real)
    tl.store(part + out[:, None] * DIM + dim[None, :], mixed, mask=real[:, None])


@triton.jit
def _attend_join(
    part,
    top,
    total,
    out,
    GROUP: tl.constexpr,
    DIM: tl.constexpr,
    SPLITS: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    if OVERLAP:
        gdc_launch_dependents()
        gdc_wait()
    query = tl.program_id(0)
    split = tl.arange(0, SPLITS)
    dim = tl.arange(0, DIM)
    at = ((query // GROUP) * SPLITS + split) * GROUP + query % GROUP
    highest = tl.load(top + at)
    share = tl.exp(highest - tl.max(highest, axis=0))
    weight = tl.sum(share * tl.load(total + at), axis=0)
    mixed = tl.load(part + at[:, None] * DIM + dim[None, :])
    result = tl.sum(mixed * share[:, None], axis=0) / weight
    tl.store(out + query * DIM + dim, result.to(out.dtype.element_ty))


def attend(
    q: Tensor, keys: Tensor, values: Tensor, positions: Tensor, *, overlap: bool = False
) -> Tensor:
    """`fused.attend`: ``q [rows, heads, head_dim]`` over one layer's cache, up to `positions`."""
    rows, kv_heads, capacity, head_dim = keys.shape
    heads = q.shape[1]
    group = heads // kv_heads
    pairs = rows * kv_heads
    splits = max(1, min(triton.next_power_of_2(triton.cdiv(PROGRAMS, pairs)), capacity // BLOCK))
    splits = 1 << (splits.bit_length() - 1)
    device = q.device
    part = torch.empty((pairs, splits, group, head_dim), device=device, dtype=torch.float32)
    top = torch.empty((2, pairs, splits, group), device=device, dtype=torch.float32)
    out = torch.empty((rows, heads * head_dim), device=device, dtype=q.dtype)
    _attend_part[(pairs, splits)](
        q,
        keys,
        values,
        positions,
        part,
        top[0],
        top[1],
        head_dim**-0.5,
        keys.stride(0),
        keys.stride(1),
        KV_HEADS=kv_heads,
        GROUP=group,
        PADDED=max(LEAST_QUERIES, triton.next_power_of_2(group)),
        DIM=head_dim,
        SPLITS=splits,
        BLOCK=BLOCK,
        OVERLAP=overlap,
        num_warps=4,
        launch_pdl=overlap,
    )
    _attend_join[(rows * heads,)](
        part,
        top[0],
        top[1],
        out,
        GROUP=group,
        DIM=head_dim,
        SPLITS=splits,
        OVERLAP=overlap,
        num_warps=1,
        launch_pdl=overlap,
    )
    return out
