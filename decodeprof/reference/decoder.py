"""The fast decoder: one step as a function of device tensors, run eagerly, replayed or compiled.

A step reads token and position where they lie on the device, and leaves the next ones there. So
the host never waits for a value to go on, only every so often to ask whether to stop: one wait of
a few tens of µs in `check_every` steps, and up to that many surplus tokens, which are cut off. In
"graph" mode a step costs the host one launch; in "compile" mode torch.compile also fuses the small
kernels, and replays a graph of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from decodeprof.mark import step
from decodeprof.reference.cache import StaticKVCache
from decodeprof.reference.compiled import compile_step, keep_in_place
from decodeprof.reference.fused import JoinedModel
from decodeprof.reference.graphs import (
    BATCH_BUCKETS,
    WARM_UP_STEPS,
    CapturedGraph,
    bucket_for,
    capture,
)
from decodeprof.reference.jobs import KernelOptions, choose_jobs
from decodeprof.reference.matvec import MatvecModel
from decodeprof.reference.model import Model
from decodeprof.reference.pipelined import PipelinedCheck
from decodeprof.reference.prefill import BucketedPrefill, prefill
from decodeprof.reference.sampling import GREEDY, Sampling
from decodeprof.reference.state import State, put_back

Mode = Literal["eager", "graph", "compile"]
CHECK_EVERY = 16
"""Steps between two looks at the stop flags: the wait is shared by so many, and on average half
of them are surplus at a text's end."""


class FastDecoder:
    """Continues prompts without the host waiting for tokens.

    Args:
        model: on any device; with `joined` its projections become views of joined weights.
        capacity: tokens that a row can hold, prompt included.
        mode: how a step is run.
        rows: prompts that can be decoded at a time, at most 16.
        joined: use joined projections.
        kernels: jobs that Triton kernels do; these need `joined`.
        sampling: how tokens are chosen.
        check_every: steps between two looks at the stop flags.
        pipelined: look at every step's flags, one step late, on a second stream.
        prefill_buckets: pad prompts to buckets, and replay a graph for each in "graph" mode.

    Raises:
        ValueError: an unknown mode, graphs without CUDA, or options that do not fit together.
    """

    def __init__(
        self,
        model: Model,
        capacity: int,
        *,
        mode: Mode = "eager",
        rows: int = 1,
        joined: bool = False,
        kernels: KernelOptions | None = None,
        sampling: Sampling = GREEDY,
        check_every: int = CHECK_EVERY,
        pipelined: bool = False,
        prefill_buckets: bool = False,
    ) -> None:
        device, dtype = model.embedding.device, model.embedding.dtype
        _check_options(mode, device, rows, check_every)
        least = WARM_UP_STEPS + 1 if mode == "graph" else 1
        if capacity < least:
            raise ValueError(f'in mode "{mode}" the capacity is at least {least}, not {capacity}')
        if kernels is not None and not joined:
            raise ValueError("the kernels work on joined projections: pass joined=True")
        self.model = model
        self.capacity = capacity
        self.mode = mode
        self._sampling = sampling
        self._check_every = check_every
        # A live batch is rounded up to a bucket, whose surplus rows need slots too.
        slots = bucket_for(rows, BATCH_BUCKETS)
        self.rows = rows
        self.state = State.empty(rows=slots, capacity=capacity, device=device)
        self.cache = StaticKVCache.zeros(
            model.config, rows=slots, capacity=capacity, device=device, dtype=dtype
        )
        self._generator = torch.Generator(device)
        self._forward, self._matvec = forward_for(model, capacity, joined=joined, kernels=kernels)
        self._pool = torch.cuda.graph_pool_handle() if mode == "graph" else None
        self.graphs: dict[int, CapturedGraph] = {}
        """The decode graphs captured so far, by bucket of rows."""
        self._compiled: dict[int, Any] = {}
        self.prefill: BucketedPrefill | None = None
        if prefill_buckets:
            self.prefill = BucketedPrefill(
                model,
                capacity,
                graphs=mode == "graph",
                pool=self._pool,
                generator=self._generator,
            )
        self._check = PipelinedCheck(slots, device) if pipelined else None
        self._calls = 0
        self._uniform: Tensor | None = None
        if mode == "compile":
            others = [*model.parameters(), *(self._forward.tensors() if joined else ())]
            if sampling.temperature > 0:
                # torch.compile takes no generator, so each step's numbers are drawn before it.
                self._uniform = torch.zeros((slots, model.config.vocab_size), device=device)
                others.append(self._uniform)
            keep_in_place(self.state, self.cache, others)

    def generate(
        self, prompt: Sequence[int], new_tokens: int, *, stop: Collection[int] = (), seed: int = 0
    ) -> list[int]:
        """Continue one prompt; the same result as the plain loop's when greedy.

        Raises:
            ValueError: the prompt is empty, or prompt and new tokens exceed the capacity.
        """
        return self.generate_batch([prompt], new_tokens, stop=stop, seed=seed)[0]

    @torch.no_grad()
    def generate_batch(
        self,
        prompts: Sequence[Sequence[int]],
        new_tokens: int,
        *,
        stop: Collection[int] = (),
        seed: int = 0,
    ) -> list[list[int]]:
        """Continue prompts of any lengths together.

        Args:
            prompts: at most `rows` of them.
            new_tokens: how many to make at most, for each.
            stop: tokens that end a text; the one that did is its last.
            seed: of the random numbers, when sampling.

        Raises:
            ValueError: too many prompts, an empty one, or one that exceeds the capacity.
        """
        if new_tokens < 1 or not prompts:
            return [[] for _ in prompts]
        rows = len(prompts)
        for _ in self._run(prompts, new_tokens, stop=stop, seed=seed):
            pass
        made = self.state.made[:rows].tolist()
        texts = [
            row[len(prompt) : len(prompt) + new_tokens]
            for row, prompt in zip(made, prompts, strict=True)
        ]
        return [_until_stop(text[: self._taken], stop) for text in texts]

    @torch.no_grad()
    def stream(
        self, prompt: Sequence[int], new_tokens: int, *, stop: Collection[int] = (), seed: int = 0
    ) -> Iterator[int]:
        """Continue one prompt, yielding its tokens as each check brings them to the host.

        Raises:
            ValueError: as `generate`, at the first token asked for.
            RuntimeError: another call has taken over the decoder's rows since.
        """
        seen = 0
        if new_tokens < 1:
            return
        for taken in self._run([prompt], new_tokens, stop=stop, seed=seed):
            first = len(prompt) + seen
            tokens = self.state.made[0, first : len(prompt) + taken].tolist()
            seen = taken
            for token in tokens:
                yield token
                if token in stop:
                    return

    def warm_up(self, rows: int = 1) -> None:
        """Capture or compile the decode step of a batch, so that no later call has to."""
        bucket = bucket_for(rows, BATCH_BUCKETS)
        if self.mode == "graph":
            self._graph(bucket)

    def _run(
        self,
        prompts: Sequence[Sequence[int]],
        new_tokens: int,
        *,
        stop: Collection[int],
        seed: int,
    ) -> Iterator[int]:
        """Make tokens; yield, after each look at the flags, how many have been made a row."""
        rows = len(prompts)
        self._refuse(prompts, new_tokens)
        self._calls += 1
        call = self._calls
        self._generator.manual_seed(seed)
        self.state.set_stops(stop)
        # Surplus rows of a bucket decode along from 0: fewer steps than the slots they have.
        self.state.position.zero_()
        for row, prompt in enumerate(prompts):
            with step("prefill"):
                self._begin(row, prompt)
        self._taken = 1
        while self._taken < new_tokens:
            with step():
                self._step(rows)
                self._taken += 1
                ended = self._look(rows)
            if ended is not None:
                yield self._taken
                if ended:
                    return
                if self._calls != call:
                    raise RuntimeError("another text was begun in this decoder: a stream was cut")
        yield self._taken

    def _begin(self, row: int, prompt: Sequence[int]) -> None:
        """Run a prompt into a row's slot and take the token that follows it."""
        slot = self.cache.slice(row, row + 1)
        if self.prefill is None:
            logits = prefill(self.model, prompt, slot)
        else:
            logits = self.prefill.run(prompt, slot)
        following = self._sampling(logits, self._generator)
        self.state.slice(row, row + 1).begin(following, len(prompt))

    def _step(self, rows: int) -> None:
        """One decode step of the first rows, in the decoder's mode."""
        if self.mode == "eager":
            self._decode(rows)
            return
        bucket = bucket_for(rows, BATCH_BUCKETS)
        if self.mode == "graph":
            self._graph(bucket).replay()
        else:
            if self._uniform is not None:
                self._uniform[:bucket].uniform_(generator=self._generator)
            self._compiled_step(bucket)()

    def _decode(self, rows: int) -> None:
        """The step itself: what is captured or compiled. Reads and writes device tensors alone."""
        state, cache = self.state.slice(0, rows), self.cache.slice(0, rows)
        matvec = self._matvec if rows == 1 else None
        if matvec is not None and matvec.ends_in_token and self._sampling.temperature == 0:
            matvec.take_best(
                (state.token, state.position, state.made, state.stopped), state.stops, cache
            )
            return
        forward = self._forward if matvec is None else matvec
        logits = forward(state.token, state.position, cache)
        uniform = None if self._uniform is None else self._uniform[:rows]
        state.take(self._sampling(logits, self._generator, uniform=uniform))

    def _graph(self, bucket: int) -> CapturedGraph:
        """The captured step of a bucket, captured at its first use."""
        if bucket not in self.graphs:
            kept = put_back(
                self.state, self.cache, steps=WARM_UP_STEPS + 1, generator=self._generator
            )
            with torch.no_grad():
                self.graphs[bucket] = capture(
                    lambda: self._decode(bucket),
                    pool=self._pool,
                    generator=self._generator,
                    kept=kept,
                )
        return self.graphs[bucket]

    def _compiled_step(self, bucket: int) -> Any:
        if bucket not in self._compiled:
            self._compiled[bucket] = compile_step(
                lambda: self._decode(bucket), self.state.token.device
            )
        return self._compiled[bucket]

    def _look(self, rows: int) -> bool | None:
        """Whether every row has ended, where this step looks; none where it does not."""
        turn = self._taken - 1
        if self._check is not None:
            self._check.send(turn, self.state.token[:rows], self.state.stopped[:rows])
            if turn == 1:
                return None
            _, stopped = self._check.receive(turn - 1, rows)
            return all(stopped)
        if turn % self._check_every:
            return None
        return bool(self.state.stopped[:rows].all())

    def _refuse(self, prompts: Sequence[Sequence[int]], new_tokens: int) -> None:
        if len(prompts) > self.rows:
            raise ValueError(f"{len(prompts)} prompts, but the decoder has {self.rows} rows")
        for prompt in prompts:
            if not prompt:
                raise ValueError("a prompt is empty: the model has nothing to continue")
            # Nothing is computed from the last token, so it needs no slot.
            needed = len(prompt) + new_tokens - 1
            if needed > self.capacity:
                raise ValueError(
                    f"a prompt of {len(prompt)} tokens and {new_tokens} new ones need {needed} "
                    f"slots, but the capacity is {self.capacity}"
                )


def forward_for(
    model: Model, capacity: int, *, joined: bool, kernels: KernelOptions | None
) -> tuple[Any, MatvecModel | None]:
    """The forward of one token a row, and the one for batch 1 where it is another."""
    if not joined:

        def spelled_out(tokens: Tensor, positions: Tensor, cache: StaticKVCache) -> Tensor:
            logits: Tensor = model(tokens[:, None], positions[:, None], cache)
            return logits[:, 0]

        return spelled_out, None
    kernels = kernels or KernelOptions()
    forward = JoinedModel(model, capacity, choose_jobs(kernels, model.embedding.device))
    return forward, MatvecModel(forward, overlap=kernels.overlap) if kernels.matvec else None


def _check_options(mode: str, device: torch.device, rows: int, check_every: int) -> None:
    if mode not in get_args(Mode):
        known = ", ".join(f'"{name}"' for name in get_args(Mode))
        raise ValueError(f'unknown mode "{mode}": it is one of {known}')
    if mode == "graph" and device.type != "cuda":
        raise ValueError(f"graphs need a CUDA device; the model is on {device.type}")
    if not 1 <= rows <= BATCH_BUCKETS[-1]:
        raise ValueError(f"rows is 1 to {BATCH_BUCKETS[-1]}, not {rows}")
    if check_every < 1:
        raise ValueError(f"check_every is at least 1, not {check_every}")


def _until_stop(text: list[int], stop: Collection[int]) -> list[int]:
    for index, token in enumerate(text):
        if token in stop:
            return text[: index + 1]
    return text
