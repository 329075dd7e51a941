"""What does one point of a sweep run, and what is the least that it must read and compute?

Each point's tensors are exactly as large as the point says: caches hold the context and no more,
prompts are not padded, so nothing that is measured is padding. A step leaves the position where it
was: every run of it is the same step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from decodeprof.reference import demo
from decodeprof.reference.cache import StaticKVCache
from decodeprof.reference.decoder import forward_for
from decodeprof.reference.jobs import KernelOptions
from decodeprof.reference.model import Model, ModelConfig, random_model, step_weight_bytes
from decodeprof.reference.sweep.memory import refuse_what_cannot_fit
from decodeprof.reference.sweep.spec import TOY_LAYERS, TOY_WIDTH, SweepSpec

FUSED = KernelOptions(norm=True, place=True, attend=True, gate=True)
"""The kernels that serve every batch size; the matvec ones serve batch 1 alone."""


@dataclass(frozen=True)
class Subject:
    """One point, ready to run.

    Attributes:
        step: runs it once; it neither waits nor changes what the next run does.
        tokens: real tokens that go in: rows of a decode step, the prompt's length.
        weight_bytes: of weights that it reads, each once.
        kv_bytes: of keys and values that it reads (decode) or writes (prefill).
        flops: multiply-adds counted as two, of matrices and of attention.
    """

    step: Callable[[], None]
    tokens: int
    weight_bytes: int
    kv_bytes: int
    flops: int


class Builder:
    """Builds the points of a sweep one after the other; a model is kept as long as it fits."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
        self._config: ModelConfig | None = None
        self._model: Model | None = None

    def build(self, point: SweepSpec) -> Subject:
        """Build a point; see `SweepSpec.at`.

        Raises:
            MemoryError: it cannot fit.
        """
        refuse_what_cannot_fit(point, self.device, self.dtype)
        if point.phase == "toy":
            return toy(point, self.device, self.dtype)
        model = self._model_of(point.config())
        if point.phase == "prefill":
            return prompt_pass(model, point.prompt)
        return decode_step(model, point.batch, point.context, fused=point.fused)

    def forget(self) -> None:
        """Free the model."""
        self._config = self._model = None

    def _model_of(self, config: ModelConfig) -> Model:
        if self._model is None or config != self._config:
            self.forget()
            self._model = random_model(config, device=self.device, dtype=self.dtype)
            self._config = config
        return self._model


def decode_step(model: Model, rows: int, context: int, *, fused: bool) -> Subject:
    """A decode step of `rows` texts, each attending to `context` tokens."""
    config, device = model.config, model.embedding.device
    dtype = model.embedding.dtype
    cache = StaticKVCache.zeros(config, rows=rows, capacity=context, device=device, dtype=dtype)
    for tensor in (*cache.keys, *cache.values):
        tensor.normal_()
    forward, _ = forward_for(model, context, joined=fused, kernels=FUSED if fused else None)
    token = torch.arange(rows, device=device) % config.vocab_size
    position = torch.full((rows,), context - 1, device=device)

    @torch.no_grad()
    def step() -> None:
        logits: Tensor = forward(token, position, cache)
        token.copy_(logits.argmax(-1))

    attention = 4 * rows * context * config.heads * config.head_dim * config.layers
    return Subject(
        step=step,
        tokens=rows,
        weight_bytes=step_weight_bytes(model),
        kv_bytes=_kv_bytes(config, rows * context, dtype),
        flops=2 * rows * (_layer_parameters(model) + model.head.numel()) + attention,
    )


def prompt_pass(model: Model, length: int) -> Subject:
    """A prompt's pass up to the logits of its last token: what precedes the first token."""
    config, device = model.config, model.embedding.device
    dtype = model.embedding.dtype
    cache = StaticKVCache.zeros(config, rows=1, capacity=length, device=device, dtype=dtype)
    tokens = torch.tensor([demo.prompt(model, length)], device=device)
    positions = torch.arange(length, device=device)[None]
    last = torch.full((1,), length - 1, device=device)
    out = torch.zeros(1, dtype=torch.int64, device=device)

    @torch.no_grad()
    def step() -> None:
        logits: Tensor = model(tokens, positions, cache, only=last)
        out.copy_(logits[:, 0].argmax(-1))

    # Causal: a token attends to those before it, half of the square on average.
    attention = 2 * length * (length + 1) * config.heads * config.head_dim * config.layers
    return Subject(
        step=step,
        tokens=length,
        weight_bytes=step_weight_bytes(model),
        kv_bytes=_kv_bytes(config, length, dtype),
        flops=2 * length * _layer_parameters(model) + 2 * model.head.numel() + attention,
    )


def toy(point: SweepSpec, device: torch.device, dtype: torch.dtype) -> Subject:
    """Layers of a matmul, a SiLU and an addition: three kernels each, and no attention."""
    layers, width = point.layers or TOY_LAYERS, point.width or TOY_WIDTH
    generator = torch.Generator(device).manual_seed(0)
    weights = [
        torch.randn(width, width, device=device, dtype=dtype, generator=generator) / width
        for _ in range(layers)
    ]
    start = torch.randn(point.batch, width, device=device, dtype=dtype, generator=generator)
    out = torch.empty_like(start)

    @torch.no_grad()
    def step() -> None:
        x = start
        for weight in weights[:-1]:
            x = x + functional.silu(x @ weight)
        torch.add(x, functional.silu(x @ weights[-1]), out=out)

    return Subject(
        step=step,
        tokens=point.batch,
        weight_bytes=sum(weight.numel() * weight.element_size() for weight in weights),
        kv_bytes=0,
        flops=2 * point.batch * width * width * layers,
    )


def _layer_parameters(model: Model) -> int:
    """Elements of the layers' matrices: each is multiplied with every token."""
    return sum(p.numel() for p in model.layers.parameters() if p.dim() == 2)


def _kv_bytes(config: ModelConfig, tokens: int, dtype: torch.dtype) -> int:
    return 2 * config.layers * config.kv_heads * config.head_dim * tokens * dtype.itemsize
