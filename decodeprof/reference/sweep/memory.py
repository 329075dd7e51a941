"""Can a point fit at all? Refused by arithmetic, since building it could take for ever.

Counted is what certainly is there at one time: weights, keys and values, logits, a prompt's mask.
A point that passes may still run out of memory.
"""

from __future__ import annotations

import os

import torch

from decodeprof.reference.model import ModelConfig
from decodeprof.reference.sweep.spec import TOY_LAYERS, TOY_WIDTH, SweepSpec


def refuse_what_cannot_fit(point: SweepSpec, device: torch.device, dtype: torch.dtype) -> None:
    """Refuse a point that needs more than all memory that there is.

    Raises:
        MemoryError: with both figures.
    """
    needed, there = needed_bytes(point, dtype), _memory_bytes(device)
    if needed > there:
        raise MemoryError(f"needs about {_gb(needed)} of {_gb(there)}")


def needed_bytes(point: SweepSpec, dtype: torch.dtype) -> int:
    """What a point needs at least; see `SweepSpec.at`."""
    if point.phase == "toy":
        width = point.width or TOY_WIDTH
        rows = 2 * point.batch  # What goes in and what comes out.
        return ((point.layers or TOY_LAYERS) * width + rows) * width * dtype.itemsize
    config = point.config()
    prompt = point.phase == "prefill"
    rows, tokens = (1, point.prompt) if prompt else (point.batch, point.batch * point.context)
    cache = 2 * config.layers * config.kv_heads * config.head_dim * tokens
    numbers = parameters(config) + cache + rows * config.vocab_size
    return numbers * dtype.itemsize + (tokens**2 if prompt else 0)


def parameters(config: ModelConfig) -> int:
    """How many a model of this shape has, without building it."""
    attention = 2 * (config.heads + config.kv_heads) * config.head_dim * config.hidden_size
    feed_forward = 3 * config.hidden_size * config.intermediate_size
    layer = attention + feed_forward + 2 * config.hidden_size + 2 * config.head_dim
    embeddings = (1 if config.tied else 2) * config.vocab_size * config.hidden_size
    return config.layers * layer + embeddings + config.hidden_size


def _memory_bytes(device: torch.device) -> int:
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _gb(count: int) -> str:
    return f"{count / 1e9:,.1f} GB"
