"""Joined projections: how many kernels does a layer need when each does a whole job?

Queries, keys and values come from the same input, and so do gate and up: three matrices become one
and two become one, joined when the weights are loaded. At batch 1 a matrix kernel's time is its
weights' bytes over the bandwidth plus 2 to 3 µs of starting and draining, which joining pays once.
The rest of the layer is cut into four jobs that sit between the matrices, so that each can be
swapped for one kernel: add and normalise, place (normalise heads, rotate, write the cache),
attend, and gate. `TORCH` does them in plain PyTorch; the modules in `kernels` have Triton
versions.

Joining changes no number and takes no memory: the model's own projections become views of the
joined ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields

import torch
from torch import Tensor, nn
from torch.nn import functional

from decodeprof.reference.cache import StaticKVCache
from decodeprof.reference.model import Attention, FeedForward, Layer, Model, rotary_angles, rotate


@dataclass(frozen=True)
class JoinedLayer:
    """One layer's weights, with those of the same input joined.

    Attributes:
        qkv: ``[(heads + 2 kv_heads) head_dim, hidden]``: all query heads, key heads, value heads.
        gate_up: ``[2 intermediate, hidden]``.
    """

    attention_norm: Tensor
    qkv: Tensor
    q_norm: Tensor
    k_norm: Tensor
    o: Tensor
    feed_forward_norm: Tensor
    gate_up: Tensor
    down: Tensor


def join(model: Model) -> list[JoinedLayer]:
    """Join each layer's projections; the model goes on working, on views of the same memory."""
    return [_join_layer(layer) for layer in model.layers if isinstance(layer, Layer)]


def _join_layer(layer: Layer) -> JoinedLayer:
    attention, feed_forward = layer.attention, layer.feed_forward
    assert isinstance(attention, Attention)
    assert isinstance(feed_forward, FeedForward)
    return JoinedLayer(
        attention_norm=layer.attention_norm.weight.detach(),
        qkv=_join(attention.q, attention.k, attention.v),
        q_norm=attention.q_norm.weight.detach(),
        k_norm=attention.k_norm.weight.detach(),
        o=attention.o.weight.detach(),
        feed_forward_norm=layer.feed_forward_norm.weight.detach(),
        gate_up=_join(feed_forward.gate, feed_forward.up),
        down=feed_forward.down.weight.detach(),
    )


def _join(*projections: nn.Linear) -> Tensor:
    """One matrix over the projections' rows; if they are views of one already, that one."""
    first = projections[0].weight
    rows = sum(projection.weight.shape[0] for projection in projections)
    if len({p.weight.untyped_storage().data_ptr() for p in projections}) == 1:
        return first.detach().as_strided((rows, first.shape[1]), first.stride())
    joined = torch.cat([projection.weight.detach() for projection in projections])
    at = 0
    for projection in projections:
        rows = projection.weight.shape[0]
        projection.weight = nn.Parameter(joined[at : at + rows], requires_grad=False)
        at += rows
    return joined


@dataclass(frozen=True)
class Turn:
    """Where a decode step's tokens stand, one a row; the same for every layer.

    Attributes:
        positions: ``[rows]``, int64.
        cosine, sine: the rotation of every position, ``[capacity, head_dim]``.
        visible: ``[rows, 1, 1, capacity]``; none when attention reads `positions` itself.
    """

    cache: StaticKVCache
    positions: Tensor
    cosine: Tensor
    sine: Tensor
    visible: Tensor | None
    eps: float


def add_norm(
    residual: Tensor, delta: Tensor | None, weight: Tensor, eps: float
) -> tuple[Tensor, Tensor]:
    """Add to the residual and normalise the sum: ``[rows, hidden]`` both; returns both."""
    if delta is not None:
        residual = residual + delta
    wide = residual.float()
    wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)
    return residual, weight * wide.to(residual.dtype)


def place(qkv: Tensor, weights: JoinedLayer, layer: int, turn: Turn) -> Tensor:
    """Normalise and rotate queries and keys, and write keys and values to the cache.

    Args:
        qkv: ``[rows, (heads + 2 kv_heads) head_dim]``.
        weights: the layer's.
        layer: its index in the cache.
        turn: of this step.

    Returns:
        Queries, ``[rows, heads, head_dim]``.
    """
    _, kv_heads, _, head_dim = turn.cache.keys[layer].shape
    all_heads = qkv.view(qkv.shape[0], -1, head_dim)
    heads = all_heads.shape[1] - 2 * kv_heads
    q, k, v = all_heads.split((heads, kv_heads, kv_heads), dim=1)
    cosine, sine = turn.cosine[turn.positions][:, None], turn.sine[turn.positions][:, None]
    _, q = add_norm(q, None, weights.q_norm, turn.eps)
    _, k = add_norm(k, None, weights.k_norm, turn.eps)
    k = rotate(k, cosine, sine)
    turn.cache.write(layer, k[:, :, None], v[:, :, None], turn.positions[:, None])
    return rotate(q, cosine, sine)


def attend(q: Tensor, layer: int, turn: Turn) -> Tensor:
    """Attend from one query a row to the row's cache.

    The query heads that share a key head are taken as so many queries of that head: nothing is
    repeated in memory.

    Args:
        q: ``[rows, heads, head_dim]``.
        layer: its index in the cache.
        turn: of this step; it must hold `visible`.

    Returns:
        ``[rows, heads × head_dim]``.
    """
    keys, values, _ = turn.cache.read(layer)
    rows, kv_heads, _, head_dim = keys.shape
    grouped = q.view(rows, kv_heads, -1, head_dim)
    mixed = functional.scaled_dot_product_attention(grouped, keys, values, attn_mask=turn.visible)
    return mixed.reshape(rows, -1)


def gate(gate_up: Tensor) -> Tensor:
    """``silu(gate) × up`` of ``[rows, 2 intermediate]``."""
    gates, ups = gate_up.chunk(2, dim=-1)
    return functional.silu(gates) * ups


@dataclass(frozen=True)
class Jobs:
    """What is done between the matrices, and by what."""

    add_norm: Callable[[Tensor, Tensor | None, Tensor, float], tuple[Tensor, Tensor]] = add_norm
    place: Callable[[Tensor, JoinedLayer, int, Turn], Tensor] = place
    attend: Callable[[Tensor, int, Turn], Tensor] = attend
    gate: Callable[[Tensor], Tensor] = gate
    attend_needs_mask: bool = True


TORCH = Jobs()
"""Plain PyTorch: what every kernel is verified against."""


class JoinedModel:
    """A model's decode step over joined weights.

    Args:
        model: its projections become views of the joined weights.
        capacity: positions to tabulate the rotation for.
        jobs: what does the work between the matrices.
    """

    def __init__(self, model: Model, capacity: int, jobs: Jobs = TORCH) -> None:
        self.config = model.config
        self.jobs = jobs
        self.layers = join(model)
        self.embedding = model.embedding.detach()
        self.norm = model.norm.weight.detach()
        self.head = model.head.detach()
        positions = torch.arange(capacity, device=self.embedding.device)
        cosine, sine = rotary_angles(model.config, positions)
        self.cosine, self.sine = cosine.to(self.embedding.dtype), sine.to(self.embedding.dtype)

    def tensors(self) -> Iterator[Tensor]:
        """All weights and tables that a step reads."""
        yield from (self.embedding, self.norm, self.head, self.cosine, self.sine)
        for layer in self.layers:
            yield from (getattr(layer, field.name) for field in fields(layer))

    def turn(self, positions: Tensor, cache: StaticKVCache) -> Turn:
        """What all layers share of a step at these positions, ``[rows]``."""
        visible = None
        if self.jobs.attend_needs_mask:
            visible = (cache.slot_positions <= positions[:, None])[:, None, None]
        return Turn(
            cache=cache,
            positions=positions,
            cosine=self.cosine,
            sine=self.sine,
            visible=visible,
            eps=self.config.norm_eps,
        )

    def __call__(self, tokens: Tensor, positions: Tensor, cache: StaticKVCache) -> Tensor:
        """Logits ``[rows, vocab]`` after one token a row: tokens and positions are ``[rows]``."""
        jobs, eps = self.jobs, self.config.norm_eps
        turn = self.turn(positions, cache)
        residual = functional.embedding(tokens, self.embedding)
        delta: Tensor | None = None
        for index, weights in enumerate(self.layers):
            residual, x = jobs.add_norm(residual, delta, weights.attention_norm, eps)
            q = jobs.place(functional.linear(x, weights.qkv), weights, index, turn)
            delta = functional.linear(jobs.attend(q, index, turn), weights.o)
            residual, x = jobs.add_norm(residual, delta, weights.feed_forward_norm, eps)
            delta = functional.linear(
                jobs.gate(functional.linear(x, weights.gate_up)), weights.down
            )
        _, x = jobs.add_norm(residual, delta, self.norm, eps)
        return functional.linear(x, self.head)
