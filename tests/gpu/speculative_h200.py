"""Speculative decoding on this GPU: do fewer rounds and fewer launches work together?

Called by sweep_h200.py as its part `speculative`. Each message is one way to decode: rows, drafted
tokens, launched or one graph a round, and how well the draft guesses (by the damping of the later
layers). Tokens a second are for all rows together.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from typing import Any

import torch

from decodeprof.reference import demo, plain
from decodeprof.reference.model import QWEN3_0P6B, TINY
from decodeprof.reference.speculative import SpeculativeDecoder, damped_model
from decodeprof.reference.sweep.clock import samples_ns
from decodeprof.reference.sweep.points import device_about

DRAFT_LAYERS = 4
DRAFTS = {0.02: (0, 2, 4, 8), 0.1: (4,)}
"""By damping, the drafted tokens; without a draft nothing depends on the damping."""
ROWS = (1, 16)
NEW_TOKENS = 64
CAPACITY = 160


def measure_speculative(said: list[dict[str, Any]], *, seconds: float) -> Iterator[dict[str, Any]]:
    until = time.monotonic() + seconds
    known = {key_of(line) for line in said if "rows" in line}
    on_device = torch.cuda.is_available()
    device = torch.device("cuda" if on_device else "cpu")
    if not said:
        yield {**device_about(device), "draft_layers": DRAFT_LAYERS if on_device else 1}
    for damping, drafts in DRAFTS.items():
        model = damped_model(
            QWEN3_0P6B if on_device else TINY,
            draft_layers=DRAFT_LAYERS if on_device else 1,
            device=device,
            dtype=torch.bfloat16 if on_device else torch.float32,
            damping=damping,
        )
        prompt = demo.prompt(model)
        expected = plain.generate(model, prompt, NEW_TOKENS)
        for rows in ROWS:
            for draft in drafts:
                for graph in (False, True) if on_device else (False,):
                    settings = {"rows": rows, "draft_tokens": draft, "graph": graph}
                    key = key_of({**settings, "damping": damping})
                    if key in known or time.monotonic() > until:
                        continue
                    yield {"damping": damping, **settings, **one(model, settings, expected)}
                    gc.collect()
                    if on_device:
                        torch.cuda.empty_cache()
        del model


def key_of(line: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(line[name] for name in ("damping", "rows", "draft_tokens", "graph"))


def one(model: Any, settings: dict[str, Any], expected: list[int]) -> dict[str, Any]:
    on_device = model.embedding.device.type == "cuda"
    layers = min(DRAFT_LAYERS, model.config.layers - 1)
    decoder = SpeculativeDecoder(model, CAPACITY, draft_layers=layers, **settings)
    prompt = demo.prompt(model)
    made = decoder.generate_batch([prompt] * settings["rows"], NEW_TOKENS)
    # Rows that have ended repeat their round: the same work, for as long as it is timed.
    samples = samples_ns(decoder.run_round, on_device=on_device)
    round_ns = sorted(samples)[len(samples) // 2]
    kept = made.kept_mean or 0.0
    same = next(
        (i for i, (a, b) in enumerate(zip(made.texts[0], expected, strict=True)) if a != b),
        len(expected),
    )
    return {
        "round_ns": samples,
        "rounds": made.rounds,
        "kept_mean": kept,
        "tokens_per_s": settings["rows"] * (kept + 1) / (round_ns / 1e9),
        "same_tokens": same,
        "compared_tokens": len(expected),
    }
