"""Five loops over the same model: which of them changes what a step costs?

Without a cache each step computes the whole text again. A dynamic cache grows by `torch.cat`: each
step allocates every layer's keys and values anew, one token longer. A static cache never moves, so
a compiled step can be replayed as a graph: the only change here that takes the launches away. And
a stop check at every step makes the host wait, which on a host this slow hides behind launching.

All are greedy, take ``[batch, prompt]`` and return ``[batch, new_tokens]`` on the device.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache, StaticCache

from decodeprof.reference.hf_story.gpt2 import MOST_TOKENS


@torch.no_grad()
def no_cache(model: Any, prompt: Tensor, new_tokens: int) -> Tensor:
    """Compute the whole text at every step."""
    text = prompt
    for _ in range(new_tokens):
        logits = model(text, use_cache=False, logits_to_keep=1).logits
        text = torch.cat((text, logits[:, -1:].argmax(-1)), dim=1)
    return text[:, prompt.shape[1] :]


@torch.no_grad()
def dynamic_cache(model: Any, prompt: Tensor, new_tokens: int) -> Tensor:
    """Keep keys and values in a cache that grows; never look at a token."""
    cache = DynamicCache(config=model.config)
    tokens, made = prompt, []
    for _ in range(new_tokens):
        logits = model(tokens, past_key_values=cache, use_cache=True, logits_to_keep=1).logits
        tokens = logits[:, -1:].argmax(-1)
        made.append(tokens)
    return torch.cat(made, dim=1)


@torch.no_grad()
def stop_check(model: Any, prompt: Tensor, new_tokens: int) -> Tensor:
    """The same, asking at every step whether every row has ended: one wait a step."""
    cache = DynamicCache(config=model.config)
    tokens, made = prompt, []
    ended = torch.zeros(prompt.shape[0], dtype=torch.bool, device=prompt.device)
    for _ in range(new_tokens):
        logits = model(tokens, past_key_values=cache, use_cache=True, logits_to_keep=1).logits
        tokens = logits[:, -1:].argmax(-1)
        made.append(tokens)
        ended |= tokens[:, 0] == model.config.eos_token_id
        if bool(ended.all()):
            break
    return torch.cat(made, dim=1)


@torch.no_grad()
def static_cache(model: Any, prompt: Tensor, new_tokens: int) -> Tensor:
    """Keep keys and values in a cache of fixed length, launched kernel by kernel."""
    return _with_static_cache(model, model, prompt, new_tokens)


@torch.no_grad()
def compiled(model: Any, prompt: Tensor, new_tokens: int) -> Tensor:
    """The same, with the decode step compiled, on a GPU into a graph."""
    return _with_static_cache(model, _compile(model), prompt, new_tokens)


@functools.cache
def _compile(model: Any) -> Any:
    if model.device.type == "cuda":
        return torch.compile(model, mode="reduce-overhead", dynamic=False)
    # No code is generated on a CPU: that would need a C++ compiler.
    return torch.compile(model, backend="aot_eager", dynamic=False)


def _with_static_cache(model: Any, step: Any, prompt: Tensor, new_tokens: int) -> Tensor:
    cache = _static_cache(model, prompt.shape[0])
    cache.reset()
    rows, length = prompt.shape
    positions = torch.arange(length, device=prompt.device)[None]
    logits = model(
        prompt, past_key_values=cache, position_ids=positions, use_cache=True, logits_to_keep=1
    ).logits
    # Fixed addresses: a compiled step copies its inputs only where these change.
    tokens = logits[:, -1:].argmax(-1).clone()
    position = torch.full((1, 1), length, device=prompt.device)
    made = torch.empty((rows, new_tokens), dtype=tokens.dtype, device=prompt.device)
    made[:, :1] = tokens
    for index in range(1, new_tokens):
        logits = step(
            tokens, past_key_values=cache, position_ids=position, use_cache=True, logits_to_keep=1
        ).logits
        tokens.copy_(logits[:, -1:].argmax(-1))
        made[:, index : index + 1] = tokens
        position += 1
    return made


@functools.cache
def _static_cache(model: Any, batch: int) -> Any:
    """One cache for each batch, kept: a new one would be a new address, and compile again."""
    cache = StaticCache(config=model.config, max_cache_len=MOST_TOKENS)
    head_dim = model.config.n_embd // model.config.n_head
    cache.early_initialization(batch, model.config.n_head, head_dim, model.dtype, model.device)
    return cache
