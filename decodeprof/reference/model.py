"""The model: what does one forward pass of a modern decoder compute, written as anyone would?

Qwen3's architecture: grouped-query attention whose queries and keys are RMS-normalised per head,
rotary positions, a SwiGLU feed-forward, and (in the small sizes) an output projection that shares
the embedding's weights. Every operation is spelled out in plain PyTorch, so one layer costs some
60 kernels of about 2 µs each, of which only 7 read a matrix of weights. At 28 layers that is 1,763
launches, each some 13 µs of the host's work, for a step whose weights an H200 can read in 0.28 ms:
why decode is slow before anybody looks at it. The other modules take that apart, one idea a file.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True)
class ModelConfig:
    """A decoder's shape.

    Attributes:
        heads: query heads; `heads // kv_heads` of them share one key and value head.
        tied: the output projection uses the embedding's weights.
    """

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    tied: bool
    rope_theta: float = 1e6
    norm_eps: float = 1e-6

    @property
    def group(self) -> int:
        """Query heads for each key and value head."""
        return self.heads // self.kv_heads


TINY = ModelConfig(
    vocab_size=512,
    hidden_size=64,
    intermediate_size=128,
    layers=2,
    heads=4,
    kv_heads=2,
    head_dim=16,
    tied=True,
)
"""Runs on a CPU in a millisecond or two a token."""

QWEN3_0P6B = ModelConfig(
    vocab_size=151_936,
    hidden_size=1024,
    intermediate_size=3072,
    layers=28,
    heads=16,
    kv_heads=8,
    head_dim=128,
    tied=True,
)
"""The shape of Qwen3-0.6B: 1.19 GB of weights in bfloat16, each read once a step."""

QWEN3_8B = ModelConfig(
    vocab_size=151_936,
    hidden_size=4096,
    intermediate_size=12_288,
    layers=36,
    heads=32,
    kv_heads=8,
    head_dim=128,
    tied=False,
)
"""The shape of Qwen3-8B: a step reads 15.1 GB; the untied embedding is read only by row."""

SHAPES = {"tiny": TINY, "0.6b": QWEN3_0P6B, "8b": QWEN3_8B}
"""The shapes by name."""


class Cache(Protocol):
    """What attention needs to know about the tokens before it."""

    def key_positions(self, query_length: int) -> Tensor:
        """Position of every key that `update` will return for that many queries, ``[keys]``."""
        ...

    def update(
        self, layer: int, keys: Tensor, values: Tensor, positions: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Store keys and values ``[rows, kv_heads, queries, head_dim]``; return all of them."""
        ...


class RMSNorm(nn.Module):
    """Divide by the root mean square, in float32, and scale: 8 kernels in bfloat16."""

    def __init__(self, size: int, eps: float, *, device: torch.device, dtype: torch.dtype) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(size, device=device, dtype=dtype), False)

    def forward(self, x: Tensor) -> Tensor:
        """Normalise the last dimension; shape and dtype stay."""
        wide = x.float()
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps)
        return self.weight * wide.to(x.dtype)


def rotary_angles(config: ModelConfig, positions: Tensor) -> tuple[Tensor, Tensor]:
    """Cosine and sine of every position's rotation, float32 ``[*positions.shape, head_dim]``.

    Pair i of a head turns by ``position / theta ** (2 i / head_dim)``; both halves of the head hold
    the same angles, as Hugging Face's layout has it.
    """
    even = torch.arange(0, config.head_dim, 2, device=positions.device, dtype=torch.float32)
    frequencies = 1.0 / (config.rope_theta ** (even / config.head_dim))
    angles = positions[..., None].float() * frequencies
    angles = torch.cat((angles, angles), dim=-1)
    return angles.cos(), angles.sin()


def rotate(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Turn each pair (i, i + head_dim / 2) of a head by its position's angle."""
    first, second = x.chunk(2, dim=-1)
    return x * cosine + torch.cat((-second, first), dim=-1) * sine


class Attention(nn.Module):
    """Grouped-query attention with normalised queries and keys."""

    def __init__(self, config: ModelConfig, *, device: torch.device, dtype: torch.dtype) -> None:
        super().__init__()
        self.config = config
        query_size = config.heads * config.head_dim
        kv_size = config.kv_heads * config.head_dim
        self.q = _linear(config.hidden_size, query_size, device=device, dtype=dtype)
        self.k = _linear(config.hidden_size, kv_size, device=device, dtype=dtype)
        self.v = _linear(config.hidden_size, kv_size, device=device, dtype=dtype)
        self.o = _linear(query_size, config.hidden_size, device=device, dtype=dtype)
        self.q_norm = RMSNorm(config.head_dim, config.norm_eps, device=device, dtype=dtype)
        self.k_norm = RMSNorm(config.head_dim, config.norm_eps, device=device, dtype=dtype)

    def forward(
        self,
        x: Tensor,
        layer: int,
        place: Place,
    ) -> Tensor:
        """Attend from ``x [rows, queries, hidden]`` to everything at or before each position."""
        rows, queries, _ = x.shape
        config = self.config
        q = self.q(x).view(rows, queries, config.heads, config.head_dim)
        k = self.k(x).view(rows, queries, config.kv_heads, config.head_dim)
        v = self.v(x).view(rows, queries, config.kv_heads, config.head_dim)
        q = rotate(self.q_norm(q).transpose(1, 2), place.cosine, place.sine)
        k = rotate(self.k_norm(k).transpose(1, 2), place.cosine, place.sine)
        keys, values = place.cache.update(layer, k, v.transpose(1, 2), place.positions)
        mixed = functional.scaled_dot_product_attention(
            q,
            keys.repeat_interleave(config.group, dim=1),
            values.repeat_interleave(config.group, dim=1),
            attn_mask=place.visible,
        )
        out: Tensor = self.o(mixed.transpose(1, 2).reshape(rows, queries, -1))
        return out


class FeedForward(nn.Module):
    """SwiGLU: a gate and a value, multiplied and projected back."""

    def __init__(self, config: ModelConfig, *, device: torch.device, dtype: torch.dtype) -> None:
        super().__init__()
        wide, narrow = config.intermediate_size, config.hidden_size
        self.gate = _linear(narrow, wide, device=device, dtype=dtype)
        self.up = _linear(narrow, wide, device=device, dtype=dtype)
        self.down = _linear(wide, narrow, device=device, dtype=dtype)

    def forward(self, x: Tensor) -> Tensor:
        """Apply to the last dimension."""
        out: Tensor = self.down(functional.silu(self.gate(x)) * self.up(x))
        return out


class Layer(nn.Module):
    """Attention and feed-forward, each normalised before and added to the residual after."""

    def __init__(self, config: ModelConfig, *, device: torch.device, dtype: torch.dtype) -> None:
        super().__init__()
        self.attention_norm = RMSNorm(
            config.hidden_size, config.norm_eps, device=device, dtype=dtype
        )
        self.attention = Attention(config, device=device, dtype=dtype)
        self.feed_forward_norm = RMSNorm(
            config.hidden_size, config.norm_eps, device=device, dtype=dtype
        )
        self.feed_forward = FeedForward(config, device=device, dtype=dtype)

    def forward(self, x: Tensor, layer: int, place: Place) -> Tensor:
        """One layer; ``x [rows, queries, hidden]``."""
        x = x + self.attention(self.attention_norm(x), layer, place)
        out: Tensor = x + self.feed_forward(self.feed_forward_norm(x))
        return out


@dataclass(frozen=True)
class Place:
    """Where this call's tokens stand: the same for every layer, so computed once.

    Attributes:
        positions: ``[rows, queries]``.
        cosine, sine: ``[rows, 1, queries, head_dim]``, in the model's dtype.
        visible: ``[rows, 1, queries, keys]``; true where a key's position is at or before the
            query's.
    """

    cache: Cache
    positions: Tensor
    cosine: Tensor
    sine: Tensor
    visible: Tensor


class Model(nn.Module):
    """The decoder: tokens and their positions in, logits out.

    Weights are uninitialised; `random_model` and `checkpoint.load_model` fill them.
    """

    def __init__(self, config: ModelConfig, *, device: torch.device, dtype: torch.dtype) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Parameter(
            torch.empty(config.vocab_size, config.hidden_size, device=device, dtype=dtype), False
        )
        self.layers = nn.ModuleList(
            Layer(config, device=device, dtype=dtype) for _ in range(config.layers)
        )
        self.norm = RMSNorm(config.hidden_size, config.norm_eps, device=device, dtype=dtype)
        self.head = (
            self.embedding
            if config.tied
            else nn.Parameter(torch.empty_like(self.embedding), requires_grad=False)
        )

    def forward(
        self, tokens: Tensor, positions: Tensor, cache: Cache, *, only: Tensor | None = None
    ) -> Tensor:
        """Logits after each token.

        Args:
            tokens: ``[rows, queries]``, integer.
            positions: of the same shape: where each token stands in its row's text.
            cache: read and updated.
            only: ``[rows]``: the one query of each row whose logits are wanted. A prompt needs
                only its last, and the output projection is the widest matrix of all.

        Returns:
            ``[rows, queries, vocab]``, or ``[rows, 1, vocab]`` with `only`.
        """
        x = functional.embedding(tokens, self.embedding)
        cosine, sine = rotary_angles(self.config, positions)
        keys = cache.key_positions(tokens.shape[1])
        place = Place(
            cache=cache,
            positions=positions,
            cosine=cosine.to(x.dtype)[:, None],
            sine=sine.to(x.dtype)[:, None],
            visible=(keys <= positions[..., None])[:, None],
        )
        for index, layer in enumerate(self.layers):
            x = layer(x, index, place)
        if only is not None:
            x = x.gather(1, only[:, None, None].expand(-1, 1, x.shape[2]))
        return functional.linear(self.norm(x), self.head)


def random_model(
    config: ModelConfig,
    *,
    device: str | torch.device = "cpu",
    dtype: torch.dtype = torch.float32,
    seed: int = 0,
) -> Model:
    """A model with seeded random weights, made on the device itself.

    Projections have variance 1 / inputs, so that layers outweigh the small embedding and the greedy
    continuation is a varied text, not the last token for ever. The same seed gives other weights
    on another kind of device.
    """
    target = torch.device(device)
    model = Model(config, device=target, dtype=dtype)
    generator = torch.Generator(target).manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 2:
                scale = 0.02 if parameter is model.embedding else 1 / math.sqrt(parameter.shape[1])
                parameter.normal_(0, scale, generator=generator)
    return model


def step_weight_bytes(model: Model) -> int:
    """Bytes of weights that a decode step must read: all but an embedding read by row alone."""
    total = sum(p.numel() * p.element_size() for p in model.parameters())
    if not model.config.tied:
        total -= model.embedding.numel() * model.embedding.element_size()
    return total


def _linear(inputs: int, outputs: int, *, device: torch.device, dtype: torch.dtype) -> nn.Linear:
    """A projection without bias, uninitialised: filling 8 billion weights twice takes a while."""
    projection = nn.Linear(inputs, outputs, bias=False, device="meta", dtype=dtype)
    return projection.to_empty(device=device).requires_grad_(False)
