"""The output projection that ends in a token: candidates a block, then one kernel for the rest.

The logits are never written. Each program keeps the best of its vocabulary rows; a single program
then finds the best of those and does all that follows a token: it stores it, moves the position
on, and notes whether it ends the text. Eight small kernels become one.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait


@triton.jit
def _best_of_block(
    weight,
    x,
    norm,
    best,
    best_row,
    rows,
    eps,
    SIZE: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    if OVERLAP:
        gdc_launch_dependents()
        gdc_wait()
    block = tl.program_id(0)
    row = block * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    inside = row < rows
    column = tl.arange(0, BLOCK_SIZE)
    total = tl.zeros([BLOCK_ROWS, BLOCK_SIZE], tl.float32)
    square = tl.zeros([BLOCK_SIZE], tl.float32)
    for start in tl.static_range(0, SIZE, BLOCK_SIZE):
        at = start + column
        w = tl.load(
            weight + row[:, None] * SIZE + at[None, :],
            mask=inside[:, None],
            other=0.0,
            eviction_policy="evict_first",
        )
        vector = tl.load(x + at).to(tl.float32)
        square += vector * vector
        total += w * (vector * tl.load(norm + at))[None, :]
    logit = tl.sum(total, axis=1) * tl.rsqrt(tl.sum(square, axis=0) / SIZE + eps)
    # Rounded as stored logits would be, so that ties fall as they do without this kernel.
    logit = logit.to(weight.dtype.element_ty).to(tl.float32)
    logit = tl.where(inside, logit, float("-inf"))
    highest = tl.max(logit, axis=0)
    tl.store(best + block, highest)
    tl.store(best_row + block, tl.min(tl.where(logit == highest, row, rows), axis=0))


@triton.jit
def _take(
    best,
    best_row,
    blocks,
    token,
    position,
    made,
    stopped,
    stops,
    rows,
    STOPS: tl.constexpr,
    BLOCK: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    if OVERLAP:
        gdc_launch_dependents()
        gdc_wait()
    lane = tl.arange(0, BLOCK)
    high = tl.full([BLOCK], float("-inf"), tl.float32)
    high_row = tl.full([BLOCK], 0, tl.int32) + rows
    for start in range(0, blocks, BLOCK):
        at = start + lane
        value = tl.load(best + at, mask=at < blocks, other=float("-inf"))
        row = tl.load(best_row + at, mask=at < blocks, other=rows)
        # Blocks come in rising order, so an equal one never replaces an earlier one.
        better = value > high
        high = tl.where(better, value, high)
        high_row = tl.where(better, row, high_row)
    highest = tl.max(high, axis=0)
    chosen = tl.min(tl.where(high == highest, high_row, rows), axis=0).to(tl.int64)
    at = tl.load(position) + 1
    tl.store(position, at)
    tl.store(token, chosen)
    tl.store(made + at, chosen)
    stop = tl.load(stops + tl.arange(0, STOPS))
    hit = tl.max((stop == chosen).to(tl.int32), axis=0)
    tl.store(stopped, (tl.load(stopped).to(tl.int32) | hit).to(tl.int8))


def take_best(
    weight: Tensor,
    x: Tensor,
    norm: Tensor,
    *,
    token: Tensor,
    position: Tensor,
    made: Tensor,
    stopped: Tensor,
    stops: Tensor,
    eps: float,
    blocks: tuple[int, int, int],
    overlap: bool,
) -> None:
    """Greedy choice of one row's next token, and the bookkeeping of `decoder.take`.

    Args:
        weight: ``[vocab, size]``.
        x: ``[size]``: the residual, not normalised yet.
        norm: ``[size]``.
        token: ``[1]`` int64, replaced.
        position: ``[1]`` int64, raised by 1.
        made: ``[1, …]`` int64; the token is stored at the new position.
        stopped: ``[1]`` bool, raised when the token is one of `stops`.
        stops: int64, a power of two of them.
        eps: of the norm.
        blocks: output rows a program, columns at a time, warps.
        overlap: begin while the kernel before still runs, and let the next one do so.
    """
    rows, size = weight.shape
    block_rows, block_size, warps = blocks
    count = triton.cdiv(rows, block_rows)
    best = torch.empty(count, device=x.device, dtype=torch.float32)
    best_row = torch.empty(count, device=x.device, dtype=torch.int32)
    _best_of_block[(count,)](
        weight,
        x,
        norm,
        best,
        best_row,
        rows,
        eps,
        SIZE=size,
        BLOCK_ROWS=block_rows,
        BLOCK_SIZE=block_size,
        OVERLAP=overlap,
        num_warps=warps,
        launch_pdl=overlap,
    )
    _take[(1,)](
        best,
        best_row,
        count,
        token,
        position,
        made,
        stopped.view(torch.int8),
        stops,
        rows,
        STOPS=stops.shape[0],
        BLOCK=1024,
        OVERLAP=overlap,
        num_warps=8,
        launch_pdl=overlap,
    )
