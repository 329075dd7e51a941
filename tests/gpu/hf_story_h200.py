"""Run the Hugging Face story on this GPU; print its tables, write JSON.

python tests/gpu/hf_story_h200.py --out DIR [--part checks …] [--variant compiled …]
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from decodeprof.reference.compiled import graphs_skipped
from decodeprof.reference.hf_story.table import CHECKS, LENGTHS
from decodeprof.reference.hf_story.variants import BATCH, VARIANTS, measure

BATCHES = (1, 2, 4, 8, 16, 32, 64, 128)
CHECKED_TOKENS = 50
SLOW_REPEATS = 1
"""Without a cache a call of 400 tokens lasts seconds."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--part", action="append", choices=["sanitizer", "checks", "lengths"])
    parser.add_argument("--variant", action="append", choices=list(VARIANTS))
    given = parser.parse_args()
    out = given.out
    out.mkdir(parents=True, exist_ok=True)
    began = time.perf_counter()
    results: dict[str, Any] = {"device": torch.cuda.get_device_name(), "torch": torch.__version__}
    parts: dict[str, Callable[[], Any]] = {
        "sanitizer": sanitized,
        "checks": checks,
        "lengths": lambda: lengths(given.variant or list(VARIANTS)),
    }
    for name, part in parts.items():
        if given.part and name not in given.part:
            continue
        try:
            results[name] = part()
        except Exception as error:  # one part's failure must not cost the GPU time of the others
            print(f"{name}: {type(error).__name__}: {error}", flush=True)
            results[name] = {"error": f"{type(error).__name__}: {error}"}
        (out / "hf_story.json").write_text(json.dumps(results, indent=1) + "\n")
    print(f"{time.perf_counter() - began:.0f} s in all")
    return 0


def lengths(names: list[str]) -> list[dict[str, Any]]:
    print(
        f"{'variant':<20} {'tokens':>6} {'ms':>8} {'tok/s':>8} {'peak MB':>8} {'held MB':>8} frag"
    )
    rows = []
    for name in names:
        for new_tokens in LENGTHS:
            repeats = SLOW_REPEATS if name == "no_cache" else 2
            row = measure(name, batch=BATCH, new_tokens=new_tokens, repeats=repeats)
            rows.append(dataclasses.asdict(row))
            print(
                f"{name:<20} {new_tokens:>6} {row.seconds * 1e3:8.0f} {row.tokens_per_s:8.0f} "
                f"{(row.peak_bytes or 0) / 1e6:8.0f} {(row.reserved_bytes or 0) / 1e6:8.0f} "
                f"{row.fragmentation_share:.3f}",
                flush=True,
            )
    # Static caches and graphs are kept, and would stand in the account of what follows: they are
    # last among the variants.
    print(f"compiled functions without a graph: {graphs_skipped()}")
    return rows


def checks() -> list[dict[str, Any]]:
    print(f"{'batch':>5} " + " ".join(f"{name + ' ms':>18}" for name in CHECKS))
    rows = []
    for batch in BATCHES:
        measured = [
            measure(name, batch=batch, new_tokens=CHECKED_TOKENS, repeats=3) for name in CHECKS
        ]
        rows += [dataclasses.asdict(row) for row in measured]
        print(
            f"{batch:>5} " + " ".join(f"{row.seconds * 1e3:18.1f}" for row in measured), flush=True
        )
    return rows


def sanitized() -> dict[str, Any]:
    """Ping-pong once under torch's stream sanitizer, which reports unordered accesses."""
    command = [sys.executable, "-m", "decodeprof.reference.hf_story.variants", "ping_pong"]
    done = subprocess.run(
        [*command, "--batch", "4", "--new-tokens", "12", "--repeats", "1"],
        env=os.environ | {"TORCH_CUDA_SANITIZER": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    races = done.stderr.count("CSAN detected a possible data race")
    print(f"ping-pong under the stream sanitizer: exit {done.returncode}, {races} races reported")
    if done.returncode or races:
        print(done.stderr[-3000:])
    return {"exit": done.returncode, "races": races, "stderr": done.stderr[-3000:]}


if __name__ == "__main__":
    sys.exit(main())
