"""The smallest thing to diagnose: ``decodeprof diagnose decodeprof.reference.demo:generate``.

The plain loop on a model that suits the machine: the 0.6B shape in bfloat16 on a CUDA device, a
tiny one in float32 without. Random weights: what is generated means nothing, what it costs does.
"""

from __future__ import annotations

import functools

import torch

from decodeprof.reference import plain
from decodeprof.reference.model import QWEN3_0P6B, TINY, Model, random_model

PROMPT_LENGTH = 16


@functools.cache
def setup() -> Model:
    """The demo's model, made once and kept."""
    if torch.cuda.is_available():
        return random_model(QWEN3_0P6B, device="cuda", dtype=torch.bfloat16)
    return random_model(TINY)


def prompt(model: Model, length: int = PROMPT_LENGTH) -> list[int]:
    """A fixed prompt: token numbers spread over the vocabulary by a stride prime to its size."""
    return [(7919 * (index + 1)) % model.config.vocab_size for index in range(length)]


def generate(new_tokens: int = 32) -> list[int]:
    """Continue the fixed prompt with the plain loop; returns the new tokens."""
    model = setup()
    return plain.generate(model, prompt(model), new_tokens)
