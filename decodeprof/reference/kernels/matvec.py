"""Matrix times vector, reading each weight once, with what stands before and after it folded in.

Each program owns a few output rows. The input vector is so short that every program reads it all
(from the L2 cache) and can normalise it on the way, so a norm costs no kernel of its own; adding
to the residual, or gating, is done on the sums before they are stored.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait


@triton.jit
def _matvec(
    weight,
    x,
    norm,
    residual,
    out,
    rows,
    eps,
    SIZE: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
    NORM: tl.constexpr,
    ADD: tl.constexpr,
    GATED: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    if OVERLAP:
        gdc_launch_dependents()
    row = tl.program_id(0) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    inside = (row < rows)[:, None]
    column = tl.arange(0, BLOCK_SIZE)
    total = tl.zeros([BLOCK_ROWS, BLOCK_SIZE], tl.float32)
    gated = tl.zeros([BLOCK_ROWS, BLOCK_SIZE], tl.float32)
    square = tl.zeros([BLOCK_SIZE], tl.float32)
    source = weight + row[:, None] * SIZE + column[None, :]
    # Weights depend on no kernel before this one: their first tile is asked for before the wait.
    w = tl.load(source, mask=inside, other=0.0, eviction_policy="evict_first")
    if GATED:
        up = tl.load(source + rows * SIZE, mask=inside, other=0.0, eviction_policy="evict_first")
    if OVERLAP:
        gdc_wait()
    for start in tl.static_range(0, SIZE, BLOCK_SIZE):
        at = start + column
        if start > 0:
            w = tl.load(source + start, mask=inside, other=0.0, eviction_policy="evict_first")
            if GATED:
                up = tl.load(
                    source + rows * SIZE + start,
                    mask=inside,
                    other=0.0,
                    eviction_policy="evict_first",
                )
        vector = tl.load(x + at).to(tl.float32)
        if NORM:
            square += vector * vector
            vector = vector * tl.load(norm + at)
        total += w * vector[None, :]
        if GATED:
            gated += up * vector[None, :]
    result = tl.sum(total, axis=1)
    if NORM:
        scale = tl.rsqrt(tl.sum(square, axis=0) / SIZE + eps)
        result = result * scale
    if GATED:
        ups = tl.sum(gated, axis=1)
        if NORM:
            ups = ups * scale
        result = result * tl.sigmoid(result) * ups
    if ADD:
        result += tl.load(residual + row, mask=row < rows, other=0.0)
    tl.store(out + row, result.to(out.dtype.element_ty), mask=row < rows)


def matvec(
    weight: Tensor,
    x: Tensor,
    out: Tensor,
    *,
    norm: Tensor | None,
    residual: Tensor | None,
    gated: bool,
    eps: float,
    blocks: tuple[int, int, int],
    overlap: bool,
) -> None:
    """``out = weight @ x``, with `x` normalised, `residual` added or pairs of rows gated.

    Args:
        weight: ``[rows, size]``, or ``[2 rows, size]`` when gated: gates, then ups.
        x: ``[size]`` in memory order.
        out: ``[rows]``; it may be `residual` itself.
        norm: weights of the norm that `x` goes through first.
        residual: added to the result.
        gated: combine row r and row r + rows as SwiGLU does.
        eps: of the norm.
        blocks: output rows a program, columns at a time (dividing size), warps.
        overlap: begin while the kernel before still runs, and let the next one do so.
    """
    size = weight.shape[1]
    rows = weight.shape[0] // 2 if gated else weight.shape[0]
    block_rows, block_size, warps = blocks
    _matvec[(triton.cdiv(rows, block_rows),)](
        weight,
        x,
        x if norm is None else norm,
        out if residual is None else residual,
        out,
        rows,
        eps,
        SIZE=size,
        BLOCK_ROWS=block_rows,
        BLOCK_SIZE=block_size,
        NORM=norm is not None,
        ADD=residual is not None,
        GATED=gated,
        OVERLAP=overlap,
        num_warps=warps,
        launch_pdl=overlap,
    )
