"""The story's variants by name: how long does each take, and what does it ask of the allocator?

Run one as ``python -m decodeprof.reference.hf_story.variants NAME``, which prints a line of JSON;
each is also a target: ``decodeprof diagnose decodeprof.reference.hf_story.variants:dynamic_cache``.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from decodeprof.reference.hf_story import loops
from decodeprof.reference.hf_story.gpt2 import prompt, setup
from decodeprof.reference.hf_story.ping_pong import ping_pong as ping_pong_loop

Loop = Callable[[Any, Tensor, int], Tensor]

BATCH = 32
REPEATS = 3


@dataclass(frozen=True)
class Variant:
    """One loop, and how the allocator is set while it runs.

    Attributes:
        lesson: what it shows, in one sentence.
        expandable: run with expandable segments.
    """

    name: str
    loop: Loop
    lesson: str
    expandable: bool = False


VARIANTS = {
    variant.name: variant
    for variant in (
        Variant(
            "no_cache",
            loops.no_cache,
            "The whole text is computed at every step: device time grows with its square.",
        ),
        Variant(
            "dynamic_cache",
            loops.dynamic_cache,
            "Only the new token is computed; every step allocates a cache one token longer.",
        ),
        Variant(
            "expandable_segments",
            loops.dynamic_cache,
            "The same, with segments that grow: blocks of ever new sizes leave fewer holes.",
            expandable=True,
        ),
        Variant(
            "stop_check",
            loops.stop_check,
            "The host waits for every step's flags: dear only where the device is the bottleneck.",
        ),
        Variant(
            "ping_pong",
            ping_pong_loop,
            "Every step's flags are seen one step late, on two streams.",
        ),
        Variant(
            "static_cache",
            loops.static_cache,
            "The cache neither moves nor grows, but attention reads all of it, valid or not.",
        ),
        Variant(
            "compiled",
            loops.compiled,
            "A cache that does not move lets the step be replayed as a graph: launches are gone.",
        ),
    )
}


@dataclass(frozen=True)
class Measured:
    """One variant at one batch and length. Bytes are none without CUDA.

    Attributes:
        seconds: median time of a whole call, prompt included.
        peak_bytes: most that tensors held at a time, weights included.
        reserved_bytes: most that the allocator held of the device.
        fragmentation_share: (reserved − peak) ÷ reserved: held, and no use to any tensor.
    """

    name: str
    batch: int
    new_tokens: int
    seconds: float
    tokens_per_s: float
    peak_bytes: int | None
    reserved_bytes: int | None
    fragmentation_share: float | None


def measure(name: str, *, batch: int, new_tokens: int, repeats: int = REPEATS) -> Measured:
    """Time a variant, and read the allocator's account of it, from an empty pool.

    Raises:
        KeyError: there is no such variant.
    """
    variant = VARIANTS[name]
    model = setup()
    tokens = prompt(model, batch)
    cuda = model.device.type == "cuda"
    if cuda:
        torch.cuda.empty_cache()
        torch.cuda.memory._set_allocator_settings(f"expandable_segments:{variant.expandable}")
        torch.cuda.reset_peak_memory_stats()
    samples = []
    for _ in range(repeats + 1):  # the first warms up
        start = time.perf_counter()
        variant.loop(model, tokens, new_tokens)
        if cuda:
            torch.cuda.synchronize()
        samples.append(time.perf_counter() - start)
    seconds = sorted(samples[1:])[repeats // 2]
    peak = torch.cuda.max_memory_allocated() if cuda else None
    reserved = torch.cuda.max_memory_reserved() if cuda else None
    if cuda:
        torch.cuda.memory._set_allocator_settings("expandable_segments:False")
    return Measured(
        name=name,
        batch=batch,
        new_tokens=new_tokens,
        seconds=seconds,
        tokens_per_s=batch * new_tokens / seconds,
        peak_bytes=peak,
        reserved_bytes=reserved,
        fragmentation_share=(reserved - peak) / reserved if reserved and peak else None,
    )


def _target(name: str, new_tokens: int, batch: int) -> list[list[int]]:
    model = setup()
    rows: list[list[int]] = VARIANTS[name].loop(model, prompt(model, batch), new_tokens).tolist()
    return rows


# Each loop as a target to diagnose.


def no_cache(new_tokens: int = 32, batch: int = 1) -> list[list[int]]:
    """`loops.no_cache` on the fixed prompt."""
    return _target("no_cache", new_tokens, batch)


def dynamic_cache(new_tokens: int = 32, batch: int = 1) -> list[list[int]]:
    """`loops.dynamic_cache` on the fixed prompt."""
    return _target("dynamic_cache", new_tokens, batch)


def static_cache(new_tokens: int = 32, batch: int = 1) -> list[list[int]]:
    """`loops.static_cache` on the fixed prompt."""
    return _target("static_cache", new_tokens, batch)


def compiled(new_tokens: int = 32, batch: int = 1) -> list[list[int]]:
    """`loops.compiled` on the fixed prompt."""
    return _target("compiled", new_tokens, batch)


def stop_check(new_tokens: int = 32, batch: int = 1) -> list[list[int]]:
    """`loops.stop_check` on the fixed prompt."""
    return _target("stop_check", new_tokens, batch)


def ping_pong(new_tokens: int = 32, batch: int = 1) -> list[list[int]]:
    """`ping_pong.ping_pong` on the fixed prompt."""
    return _target("ping_pong", new_tokens, batch)


def main() -> None:
    """Measure one variant and print it as a line of JSON."""
    parser = argparse.ArgumentParser(description="Measure one variant of the story.")
    parser.add_argument("name", choices=list(VARIANTS))
    parser.add_argument("--batch", type=int, default=BATCH)
    parser.add_argument("--new-tokens", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=REPEATS)
    arguments = parser.parse_args()
    measured = measure(
        arguments.name,
        batch=arguments.batch,
        new_tokens=arguments.new_tokens,
        repeats=arguments.repeats,
    )
    print(json.dumps(dataclasses.asdict(measured)))


if __name__ == "__main__":
    main()
