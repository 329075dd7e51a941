"""The model of the story: GPT-2 from `transformers`, random weights, small or smaller.

GPT-2 small launches some 1,080 kernels a step, and on an H200 its device works 1.75 ms of the 20
that an eager step takes. So almost everything that is tried on it moves host time, not device time.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor
from transformers import GPT2Config, GPT2LMHeadModel

MOST_TOKENS = 512
"""Tokens a row, prompt included; also the length of static caches, so that they compile once."""
PROMPT_LENGTH = 16


WEIGHT_SPREAD = 0.2
EMBEDDING_SHARE = 0.02
"""Standard deviation of weights, and the embedding's share of it: as they are usually initialised,
the last token's embedding outweighs all layers, and the text is that token for ever."""


@functools.cache
def setup() -> Any:
    """GPT-2 small in float32 on a CUDA device, a tiny one on a CPU; made once and kept."""
    cuda = torch.cuda.is_available()
    sizes: dict[str, Any] = {}
    if not cuda:
        sizes = {"n_layer": 2, "n_embd": 64, "n_head": 4, "vocab_size": 300}
    last = sizes.get("vocab_size", 50_257) - 1
    config = GPT2Config(
        n_positions=MOST_TOKENS,
        initializer_range=WEIGHT_SPREAD,
        bos_token_id=last,
        eos_token_id=last,
        **sizes,
    )
    build: Any = GPT2LMHeadModel
    torch.manual_seed(0)
    with torch.device("cuda" if cuda else "cpu"), torch.no_grad():
        model = build(config).eval()
        model.transformer.wte.weight.mul_(EMBEDDING_SHARE)
    return model


def prompt(model: Any, batch: int) -> Tensor:
    """A fixed prompt for each row, ``[batch, PROMPT_LENGTH]``, no two rows alike."""
    numbers = torch.arange(batch * PROMPT_LENGTH, device=model.device).view(batch, -1)
    tokens: Tensor = (7919 * (numbers + 1)) % (model.config.vocab_size - 1)
    return tokens
