"""How is the story's measurement told? As text, from the JSON that a run of it wrote.

It needs neither torch nor a GPU: ``python -m decodeprof.reference.hf_story.table FILE``.
"""

from __future__ import annotations

import json
import sys
import textwrap
from pathlib import Path
from typing import Any

VARIANTS = (
    "no_cache",
    "dynamic_cache",
    "expandable_segments",
    "stop_check",
    "ping_pong",
    "static_cache",
    "compiled",
)
LENGTHS = (100, 200, 400)
CHECKS = ("dynamic_cache", "stop_check", "ping_pong")
WIDTH = 100


def hf_story_text(results: dict[str, Any]) -> str:
    """The story's two tables, below what is missing from them and what they cannot show."""
    parts = [
        f"GPT-2 of transformers, random weights, float32, on {results['device']} with torch "
        f"{results['torch']}",
        *_missing(results["lengths"]),
        f"Ping-pong under CUDA stream sanitizer: {results['sanitizer']['races'] or 'no'} race.",
        *results.get("notes", []),
        *_noise(results["checks"]),
    ]
    head = [textwrap.fill(part, WIDTH, break_on_hyphens=False) for part in parts]
    return "\n".join(
        [*head, "", *_lengths(results["lengths"]), "", *_checks(results["checks"]), ""]
    )


def _missing(rows: list[dict[str, Any]]) -> list[str]:
    """Which variants and lengths were not measured, one sentence; nothing where all were."""
    there = {(row["name"], row["new_tokens"]) for row in rows}
    texts = []
    for name in VARIANTS:
        lengths = [length for length in LENGTHS if (name, length) not in there]
        if lengths == list(LENGTHS):
            texts.append(name)
        elif lengths:
            texts.append(f"{name} at {' and '.join(map(str, lengths))} tokens")
    if not texts:
        return []
    return [f"Not measured, since the time on the GPU ran out: {', '.join(texts)}."]


def _noise(rows: list[dict[str, Any]]) -> list[str]:
    """What shows that the host varied by more than the loops differ; nothing where it did not."""
    seconds = {row["batch"]: row["seconds"] for row in rows if row["name"] == CHECKS[0]}
    slowest = max(seconds, key=lambda batch: seconds[batch])
    largest = max(seconds)
    if slowest == largest:
        return []
    return [
        f"These loops are bound by launching, and the host is shared: {CHECKS[0]} takes "
        f"{seconds[slowest] * 1e3:.0f} ms at batch {slowest} and {seconds[largest] * 1e3:.0f} ms "
        f"at batch {largest}, which is more work. Smaller differences between loops than this "
        "mean nothing."
    ]


def _lengths(rows: list[dict[str, Any]]) -> list[str]:
    """Time of a call and the allocator's account of it, by length."""
    lines = [
        f"A call at batch {rows[0]['batch']}, prompt included; fragmentation: (held - peak) / held",
        f"{'variant':<20} {'tokens':>6} {'ms':>8} {'tokens/s':>8} {'peak MB':>8} {'held MB':>8} "
        f"{'fragmentation':>13}",
    ]
    lines += [
        f"{row['name']:<20} {row['new_tokens']:>6} {row['seconds'] * 1e3:8.0f} "
        f"{row['tokens_per_s']:8.0f} {row['peak_bytes'] / 1e6:8.0f} "
        f"{row['reserved_bytes'] / 1e6:8.0f} {row['fragmentation_share']:13.3f}"
        for row in rows
    ]
    return lines


def _checks(rows: list[dict[str, Any]]) -> list[str]:
    """Time of a call by batch: without a stop check, with one a step, and one step late."""
    titles = {
        "dynamic_cache": "no check",
        "stop_check": "check a step",
        "ping_pong": "ping-pong",
    }
    by_key = {(row["name"], row["batch"]): row for row in rows}
    batches = sorted({row["batch"] for row in rows})
    lines = [
        f"The stop check, {rows[0]['new_tokens']} tokens: ms a call, and MB held",
        f"{'batch':>5}" + "".join(f" {titles[name] + ' ms':>16} {'MB':>6}" for name in CHECKS),
    ]
    for batch in batches:
        cells = [by_key[name, batch] for name in CHECKS]
        lines.append(
            f"{batch:>5}"
            + "".join(
                f" {row['seconds'] * 1e3:16.1f} {row['reserved_bytes'] / 1e6:6.0f}" for row in cells
            )
        )
    return lines


if __name__ == "__main__":
    sys.stdout.write(hf_story_text(json.loads(Path(sys.argv[1]).read_text())))
