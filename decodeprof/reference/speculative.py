"""Speculative decoding: can a step make more than one token, and still the same ones?

A cheap draft proposes a few tokens; one forward of the whole model over all of them says which of
them it would have made itself. Those up to the first difference are kept, and the model's own token
follows them: the text is that of greedy decoding, whatever the draft proposes. A forward over five
tokens reads the weights once, as one over a single token does, so a memory-bound step gets cheaper
by nearly the number of tokens kept. A launch-bound one gets cheaper by less: a draft of four layers
launches four layers a token. A graph takes launches away, whatever they are for: on an H200 the
gains of both multiply, as long as the draft guesses well.

The draft here is the model's own first layers. It shares their cache: what it writes there is what
the whole model would write, and the verifying forward writes it again. A round has a fixed shape,
and how many tokens it keeps is a number on the device, so a round fits in one graph.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor

from decodeprof.reference.cache import StaticKVCache
from decodeprof.reference.graphs import CapturedGraph, capture
from decodeprof.reference.model import Layer, Model, ModelConfig, random_model
from decodeprof.reference.prefill import prefill

CHECK_EVERY = 8
"""Rounds between two looks at how far the rows have come: a wait each."""
DAMPING = 0.02
"""Of the later layers' outputs in `damped_model`: half of the drafted tokens or more are kept."""


@dataclass(frozen=True)
class Speculated:
    """What a call made.

    Attributes:
        texts: the new tokens of each prompt.
        rounds: how many were run.
        kept_mean: drafted tokens that were kept, for a row and a round; none without a round.
    """

    texts: list[list[int]]
    rounds: int
    kept_mean: float | None


class SpeculativeDecoder:
    """Continues prompts greedily, several tokens a round.

    Args:
        model: the whole model.
        capacity: tokens that a row can hold, prompt included; a round needs room for its draft.
        draft_tokens: proposed in a round; with 0 it is plain greedy decoding.
        draft_layers: of the model, which make the draft.
        rows: prompts that are decoded together.
        graph: capture a round, and replay it; needs CUDA.

    Raises:
        ValueError: the model has fewer layers, or a draft has fewer than 0 tokens.
    """

    def __init__(
        self,
        model: Model,
        capacity: int,
        *,
        draft_tokens: int,
        draft_layers: int,
        rows: int = 1,
        graph: bool = False,
    ) -> None:
        device = model.embedding.device
        _check_options(model, draft_tokens=draft_tokens, draft_layers=draft_layers)
        self.model = model
        self.capacity = capacity
        self.draft_tokens = draft_tokens
        self.rows = rows
        self._draft = first_layers(model, draft_layers)
        self.cache = StaticKVCache.zeros(
            model.config,
            rows=rows,
            capacity=capacity,
            device=device,
            dtype=model.embedding.dtype,
        )
        self._draft_cache = StaticKVCache(
            self.cache.keys[:draft_layers],
            self.cache.values[:draft_layers],
            self.cache.slot_positions,
        )

        def zeros(*shape: int) -> Tensor:
            return torch.zeros(shape, dtype=torch.int64, device=device)

        self.token, self.position, self.ends = zeros(rows), zeros(rows), zeros(rows)
        self.kept, self.live = zeros(rows), zeros(rows)
        # A round writes all of its tokens; the next one overwrites those that were not kept.
        self.made = zeros(rows, capacity + 1)
        self._offsets = torch.arange(draft_tokens + 1, device=device)
        self._graph: CapturedGraph | None = None
        if graph:
            self._graph = capture(
                self._round,
                pool=torch.cuda.graph_pool_handle(),
                generator=torch.Generator(device),
                kept=nullcontext(),
            )

    @torch.no_grad()
    def generate_batch(self, prompts: Sequence[Sequence[int]], new_tokens: int) -> Speculated:
        """Continue as many prompts as there are rows.

        Args:
            prompts: of any lengths.
            new_tokens: to make for each.

        Raises:
            ValueError: not as many prompts as rows, an empty one, or no room for the last round.
        """
        self.begin(prompts, new_tokens)
        rounds = 0
        while rounds % CHECK_EVERY or bool((self.position < self.ends).any()):
            self.run_round()
            rounds += 1
        made = self.made.tolist()
        texts = [
            row[len(prompt) : len(prompt) + new_tokens]
            for row, prompt in zip(made, prompts, strict=True)
        ]
        live = int(self.live.sum())
        return Speculated(
            texts=texts, rounds=rounds, kept_mean=int(self.kept.sum()) / live if live else None
        )

    @torch.no_grad()
    def begin(self, prompts: Sequence[Sequence[int]], new_tokens: int) -> None:
        """Run the prompts, so that rounds can follow.

        Raises:
            ValueError: as `generate_batch`.
        """
        self._refuse(prompts, new_tokens)
        self.kept.zero_()
        self.live.zero_()
        for row, prompt in enumerate(prompts):
            logits = prefill(self.model, prompt, self.cache.slice(row, row + 1))
            self.token[row] = logits[0].argmax()
            self.position[row] = len(prompt)
            self.made[row, len(prompt)] = self.token[row]
            self.ends[row] = len(prompt) + new_tokens - 1

    def run_round(self) -> None:
        """One round, from where the rows stand: launched, or one graph."""
        if self._graph is not None:
            self._graph.replay()
        else:
            self._round()

    @torch.no_grad()
    def _round(self) -> None:
        """Draft, verify, keep. A row that has reached its end repeats its round."""
        drafted = [self.token]
        for index in range(self.draft_tokens):
            logits = self._draft(
                drafted[-1][:, None], (self.position + index)[:, None], self._draft_cache
            )
            drafted.append(logits[:, 0].argmax(-1))
        tokens = torch.stack(drafted, 1)
        positions = self.position[:, None] + self._offsets
        own = self.model(tokens, positions, self.cache).argmax(-1)
        self.made.scatter_(1, positions + 1, own)
        # The drafted tokens before the first that the model would not have made.
        kept = (tokens[:, 1:] == own[:, :-1]).cumprod(1).sum(1)
        live = self.position < self.ends
        following = own.gather(1, kept[:, None])[:, 0]
        self.token.copy_(torch.where(live, following, self.token))
        self.position.add_(torch.where(live, kept + 1, 0))
        self.kept.add_(torch.where(live, kept, 0))
        self.live.add_(live)

    def _refuse(self, prompts: Sequence[Sequence[int]], new_tokens: int) -> None:
        if len(prompts) != self.rows:
            raise ValueError(f"{len(prompts)} prompts, but the decoder has {self.rows} rows")
        if new_tokens < 1:
            raise ValueError(f"at least one new token is made, not {new_tokens}")
        for prompt in prompts:
            if not prompt:
                raise ValueError("a prompt is empty: the model has nothing to continue")
            # A row may end a whole round beyond its last token, and repeats a round from there.
            needed = len(prompt) + new_tokens + 2 * self.draft_tokens
            if needed > self.capacity:
                raise ValueError(
                    f"a prompt of {len(prompt)} tokens and {new_tokens} new ones need {needed} "
                    f"slots with a draft of {self.draft_tokens}, but the capacity is "
                    f"{self.capacity}"
                )


def first_layers(model: Model, layers: int) -> Model:
    """A model of the first layers of another, and of its very weights."""
    config = dataclasses.replace(model.config, layers=layers)
    first = Model(config, device=torch.device("meta"), dtype=model.embedding.dtype)
    first.embedding, first.head = model.embedding, model.head
    first.layers = torch.nn.ModuleList(list(model.layers)[:layers])
    first.norm = model.norm
    return first


def damped_model(
    config: ModelConfig,
    *,
    draft_layers: int,
    device: str | torch.device = "cpu",
    dtype: torch.dtype = torch.float32,
    damping: float = DAMPING,
) -> Model:
    """A random model whose layers behind the first few say little.

    With random weights no part of a model guesses the whole. A trained model's early layers do, as
    do small models trained alike; how often is what `damping` sets here, the factor on what the
    later layers add.
    """
    model = random_model(config, device=device, dtype=dtype)
    with torch.no_grad():
        for layer in list(model.layers)[draft_layers:]:
            assert isinstance(layer, Layer)
            layer.attention.o.weight.mul_(damping)
            layer.feed_forward.down.weight.mul_(damping)
    return model


def _check_options(model: Model, *, draft_tokens: int, draft_layers: int) -> None:
    if not 1 <= draft_layers <= model.config.layers:
        raise ValueError(f"a draft of {draft_layers} layers; there are {model.config.layers}")
    if draft_tokens < 0:
        raise ValueError(f"a draft has 0 tokens or more, not {draft_tokens}")
