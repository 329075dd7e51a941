"""The table of speculative decoding, on rounds whose truth is known."""

from __future__ import annotations

import json
from pathlib import Path

from tests.gpu.speculative_table import table


def test_what_draft_and_graph_gain_together_stands_beside_the_product(tmp_path: Path) -> None:
    lines = [{"device": "NVIDIA H200", "draft_layers": 4}]
    for draft, graph, round_ns, kept in (
        (0, False, 40_000_000, 0.0),
        (0, True, 5_000_000, 0.0),
        (4, False, 80_000_000, 3.0),
        (4, True, 8_000_000, 3.0),
    ):
        lines.append(
            {
                "damping": 0.02, "rows": 1, "draft_tokens": draft, "graph": graph,
                "round_ns": [round_ns] * 3, "kept_mean": kept,
                "tokens_per_s": (kept + 1) / round_ns * 1e9,
            }
        )  # fmt: skip
    path = tmp_path / "rounds.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)) + "\n")
    *_, plain, drafted = table(path).splitlines()
    assert " ".join(plain.split()) == "1 0 0.0 40 ms 25/s 5 ms 200/s 8.0 ×"
    # 4 tokens in twice the time: 2 ×; as a graph 10 × the launched one: 20 × together, not 8 × 2.
    told = " ".join(drafted.split())
    assert told == "1 4 3.0 80 ms 50/s 8 ms 500/s 10.0 × 2.0 × 20.0 × 1.25"
