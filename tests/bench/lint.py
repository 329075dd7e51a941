"""How much slower is lint than a plain CPU run? One table: ``python -m tests.bench.lint``.

The models are tiny, which is the worst case: what lint adds is per operation, and a real model's
operations take longer. Plain and predicted calls take turns, and the fastest of each counts: other
work on the machine can only add to it. The goal stands beside what was measured; nothing fails.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from decodeprof.lint import predict
from decodeprof.reference import demo, plain
from decodeprof.reference.model import TINY, random_model
from tests.lint.test_transformers import WAYS, model

ROUNDS = 5
NEW_TOKENS = 16
GOAL = 6.0
KINDS = ("gpt2", "llama", "qwen3")


def seconds(call: Callable[[], Any]) -> float:
    """Of one call."""
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def generate(made: Any, device: str, options: dict[str, Any]) -> None:
    """`transformers` generate, always as many tokens."""
    torch.manual_seed(1)
    ids = torch.arange(1, 8).view(1, -1).to(device)
    made.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        max_new_tokens=NEW_TOKENS,
        min_new_tokens=NEW_TOKENS,
        pad_token_id=0,
        **options,
    )


def compared(on: Callable[[str], Callable[[], Any]]) -> tuple[float, float]:
    """Fastest plain and fastest predicted call, in seconds.

    Args:
        on: makes the call for a device; the pretended one where it is ``cuda``.
    """
    here = on("cpu")
    here()
    with predict():
        there = on("cuda")
        there()
    plain_s, predicted_s = [], []
    for _ in range(ROUNDS):
        plain_s.append(seconds(here))
        with predict():
            predicted_s.append(seconds(there))
    return min(plain_s), min(predicted_s)


def transformers_call(kind: str, way: str) -> Callable[[str], Callable[[], Any]]:
    """A model of `transformers`, one way of generating."""

    def on(device: str) -> Callable[[], Any]:
        made = model(kind, device)
        compiled = {"disable_compile": True} if way == "static" else {}
        return lambda: generate(made, device, {**WAYS[way], **compiled})

    return on


def plain_loop(device: str) -> Callable[[], Any]:
    """The worked example's plain loop."""
    made = random_model(TINY, device=device)
    return lambda: plain.generate(made, demo.prompt(made), NEW_TOKENS)


def main() -> None:
    """Print the table."""
    argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None).parse_args()
    torch.set_num_threads(1)
    table = Table("what", "plain", "lint", "times", "goal", title=f"fastest of {ROUNDS}")
    calls = {"plain loop": plain_loop}
    calls |= {f"{kind} {way}": transformers_call(kind, way) for kind in KINDS for way in WAYS}
    for name, on in calls.items():
        usual, predicted = compared(on)
        table.add_row(
            name,
            f"{usual * 1e3:.0f} ms",
            f"{predicted * 1e3:.0f} ms",
            f"{predicted / usual:.2f}",
            f"< {GOAL:.0f}",
        )
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
