"""The prompt pass: how can prompts of any length use graphs of a few lengths?

A prompt is padded to the next bucket. Padding stands behind the prompt, at later positions, so by
the causal mask no real token sees it; and what it writes to the cache lies at positions that the
text has yet to reach, each overwritten before any query can see it. The pass runs over a cache of
the bucket's length, not the capacity's, and is copied to the request's slot after. For a short
prompt launch cost is all there is: some 1,760 launches, as many as for a token.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor

from decodeprof.reference.cache import StaticKVCache
from decodeprof.reference.graphs import PREFILL_BUCKETS, CapturedGraph, bucket_for, capture
from decodeprof.reference.model import Model
from decodeprof.reference.state import on_device


def prefill(model: Model, prompt: Sequence[int], cache: StaticKVCache) -> Tensor:
    """Run a prompt into a one-row cache as it is; logits of its last token, ``[1, vocab]``."""
    device = model.embedding.device
    tokens = on_device(list(prompt), device)[None]
    positions = torch.arange(len(prompt), device=device)[None]
    logits: Tensor = model(tokens, positions, cache, only=positions[:, -1])
    return logits[:, 0]


class BucketedPrefill:
    """Prompts padded to buckets, each bucket's pass a graph where there is CUDA.

    Args:
        model: runs the prompt.
        capacity: the longest prompt; also the largest bucket.
        graphs: capture each bucket at its first use; else run it as it is.
        pool: shared by graphs.
        generator: the decoder's; the pass draws nothing, but a capture must know it.
    """

    def __init__(
        self,
        model: Model,
        capacity: int,
        *,
        graphs: bool,
        pool: Any,
        generator: torch.Generator,
    ) -> None:
        self._model = model
        self.buckets = (*(b for b in PREFILL_BUCKETS if b < capacity), capacity)
        self._graphs = graphs
        self._pool = pool
        self._generator = generator
        self._passes: dict[int, _Pass] = {}
        self.captured: dict[int, CapturedGraph] = {}
        """By bucket."""

    def run(self, prompt: Sequence[int], cache: StaticKVCache) -> Tensor:
        """Run a prompt into a one-row cache; logits of its last token, ``[1, vocab]``."""
        bucket = bucket_for(len(prompt), self.buckets)
        made = self._passes.get(bucket)
        if made is None:
            made = self._passes[bucket] = _Pass(self._model, bucket)
        made.load(prompt)
        if self._graphs:
            if bucket not in self.captured:
                self.captured[bucket] = capture(
                    made.run, pool=self._pool, generator=self._generator, kept=nullcontext()
                )
            self.captured[bucket].replay()
        else:
            made.run()
        made.copy_to(cache)
        return made.logits


class _Pass:
    """One bucket's inputs, outputs and cache, at addresses that stay."""

    def __init__(self, model: Model, length: int) -> None:
        device, dtype = model.embedding.device, model.embedding.dtype
        self._model = model
        self._tokens = torch.zeros((1, length), dtype=torch.int64, device=device)
        self._positions = torch.arange(length, device=device)[None]
        self._last = torch.zeros(1, dtype=torch.int64, device=device)
        self._cache = StaticKVCache.zeros(
            model.config, rows=1, capacity=length, device=device, dtype=dtype
        )
        self.logits = torch.zeros((1, model.config.vocab_size), device=device, dtype=dtype)

    def load(self, prompt: Sequence[int]) -> None:
        """Bring a prompt in; what a longer one left behind it is padding like any other."""
        length = len(prompt)
        device = self._tokens.device
        self._tokens[0, :length].copy_(on_device(list(prompt), device), non_blocking=True)
        self._last.fill_(length - 1)

    def run(self) -> None:
        """The pass itself: what is captured."""
        logits = self._model(self._tokens, self._positions, self._cache, only=self._last)
        self.logits.copy_(logits[:, 0])

    def copy_to(self, cache: StaticKVCache) -> None:
        """Copy keys and values to a request's slot, padding included."""
        length = self._tokens.shape[1]
        own = (*self._cache.keys, *self._cache.values)
        slots = [tensor[:, :, :length] for tensor in (*cache.keys, *cache.values)]
        torch._foreach_copy_(slots, own)
