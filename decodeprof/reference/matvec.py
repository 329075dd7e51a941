"""Batch 1: what is left of a layer when every matrix kernel also does its neighbours' work?

At one token a matrix product is a matrix times a vector: each weight is read once and used once,
so the only question is how near to the memory's bandwidth it is read. A kernel written for that
has time to spare for arithmetic: it normalises its input on the way in, and adds to the residual
or gates on the way out. A layer is then seven kernels: qkv, place, attend (two), o, gate and up,
down; and a step of 28 layers has some 200, of which the gaps between cost 0.08 ms.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from decodeprof.reference.cache import StaticKVCache
from decodeprof.reference.fused import JoinedModel, add_norm, gate
from decodeprof.reference.jobs import why_no_triton


@dataclass(frozen=True)
class Weigh:
    """One matrix of a layer, with what stands before and after it.

    Attributes:
        weight: ``[rows, size]``; with `gated`, ``[2 rows, size]``.
        norm: weights of the norm before it, if any.
        gated: SwiGLU after it.
    """

    weight: Tensor
    norm: Tensor | None = None
    gated: bool = False


def matvec_torch(job: Weigh, x: Tensor, *, residual: Tensor | None, eps: float) -> Tensor:
    """One matrix at batch 1 in PyTorch: what the kernel is verified against; ``x [1, size]``."""
    if job.norm is not None:
        _, x = add_norm(x, None, job.norm, eps)
    out = functional.linear(x, job.weight)
    if job.gated:
        out = gate(out)
    return out if residual is None else residual.add_(out)


def matvec_triton(
    job: Weigh, x: Tensor, *, residual: Tensor | None, eps: float, overlap: bool = False
) -> Tensor:
    """The same as one kernel; `residual` is added to in place."""
    from decodeprof.reference.kernels.matvec import matvec

    rows = job.weight.shape[0] // (2 if job.gated else 1)
    out = residual
    if out is None:
        out = torch.empty((1, rows), device=x.device, dtype=x.dtype)
    matvec(
        job.weight,
        x,
        out,
        norm=job.norm,
        residual=residual,
        gated=job.gated,
        eps=eps,
        blocks=choose_blocks(rows, job.weight.shape[1], gated=job.gated),
        overlap=overlap,
    )
    return out


def choose_blocks(rows: int, size: int, *, gated: bool = False) -> tuple[int, int, int]:
    """Output rows a program, columns at a time, and warps, for a matrix of this shape."""
    del gated
    block_size = 1024
    while size % block_size:
        block_size //= 2
    block_rows = 16 if rows >= 16_384 else 4
    return block_rows, block_size, 4


class MatvecModel:
    """A decode step of one row by matrix-vector kernels, over joined weights.

    Args:
        joined: the weights, and the jobs (place and attend) that are not matrices.
        overlap: let kernels begin before the one before has ended, where Triton runs.
    """

    def __init__(self, joined: JoinedModel, *, overlap: bool) -> None:
        self.joined = joined
        self._overlap = overlap
        triton_runs = why_no_triton(joined.embedding.device) is None
        self._matvec: Callable[..., Tensor] = matvec_torch
        if triton_runs:
            self._matvec = functools.partial(matvec_triton, overlap=overlap)
        self.ends_in_token = triton_runs
        """Whether `take_best` is a kernel; elsewhere logits are made and sampled as usual."""
        self._layers = [
            (
                Weigh(weights.qkv, norm=weights.attention_norm),
                Weigh(weights.o),
                Weigh(weights.gate_up, norm=weights.feed_forward_norm, gated=True),
                Weigh(weights.down),
            )
            for weights in joined.layers
        ]

    def residual(self, tokens: Tensor, positions: Tensor, cache: StaticKVCache) -> Tensor:
        """All layers: the residual ``[1, hidden]`` before the last norm."""
        joined, eps = self.joined, self.joined.config.norm_eps
        turn = joined.turn(positions, cache)
        residual = functional.embedding(tokens, joined.embedding)
        for index, (qkv, o, gate_up, down) in enumerate(self._layers):
            heads = self._matvec(qkv, residual, residual=None, eps=eps)
            q = joined.jobs.place(heads, joined.layers[index], index, turn)
            mixed = joined.jobs.attend(q, index, turn)
            self._matvec(o, mixed, residual=residual, eps=eps)
            gated = self._matvec(gate_up, residual, residual=None, eps=eps)
            self._matvec(down, gated, residual=residual, eps=eps)
        return residual

    def __call__(self, tokens: Tensor, positions: Tensor, cache: StaticKVCache) -> Tensor:
        """Logits ``[1, vocab]`` after one token; ``tokens [1]``, ``positions [1]``."""
        residual = self.residual(tokens, positions, cache)
        head = Weigh(self.joined.head, norm=self.joined.norm)
        return self._matvec(head, residual, residual=None, eps=self.joined.config.norm_eps)

    def take_best(
        self, state: tuple[Tensor, Tensor, Tensor, Tensor], stops: Tensor, cache: StaticKVCache
    ) -> None:
        """One greedy step that ends in the token and its bookkeeping, all in kernels.

        Args:
            state: token, position, made and stopped of the one row, updated in place.
            stops: the tokens that end a text.
            cache: of the one row.
        """
        from decodeprof.reference.kernels.head import take_best

        token, position, made, stopped = state
        residual = self.residual(token, position, cache)
        take_best(
            self.joined.head,
            residual,
            self.joined.norm,
            token=token,
            position=position,
            made=made,
            stopped=stopped,
            stops=stops,
            eps=self.joined.config.norm_eps,
            blocks=choose_blocks(*self.joined.head.shape),
            overlap=self._overlap,
        )
