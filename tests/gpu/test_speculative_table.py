"""The table of speculative decoding, on rounds whose truth is known."""

from __future__ import annotations

import json
from pathlib import Path

from tests.gpu.speculative_table import table


def rounds(path: Path, *lines: tuple[int, int, bool, int, float]) -> Path:
    """Rows, draft, graph or launched, time of a round, and what is kept of the draft."""
    return written(path, *((0.02, *line) for line in lines))


def written(path: Path, *lines: tuple[float, int, int, bool, int, float]) -> Path:
    """The same with the damping before: that of plain decoding is that of a good draft."""
    said: list[dict[str, object]] = [{"device": "NVIDIA H200", "draft_layers": 4}]
    for damping, rows, draft, graph, round_ns, kept in lines:
        said.append(
            {
                "damping": damping, "rows": rows, "draft_tokens": draft, "graph": graph,
                "round_ns": [round_ns] * 3, "kept_mean": kept,
                "tokens_per_s": rows * (kept + 1) / round_ns * 1e9,
                "same_tokens": 64, "compared_tokens": 64,
            }
        )  # fmt: skip
    path.write_text("\n".join(map(json.dumps, said)) + "\n")
    return path


def rows_of(text: str) -> list[str]:
    """The lines of the table, single-spaced."""
    lines = text.splitlines()
    begin = next(index for index, line in enumerate(lines) if line.startswith("rows"))
    return [" ".join(line.split()) for line in lines[begin + 1 : lines.index("", begin)]]


ALONE = [
    (1, 0, False, 40_000_000, 0.0),
    (1, 0, True, 5_000_000, 0.0),
    (1, 4, False, 80_000_000, 3.0),
    (1, 4, True, 8_000_000, 3.0),
]


def test_what_draft_and_graph_gain_together_stands_beside_the_product(tmp_path: Path) -> None:
    text = table(rounds(tmp_path / "rounds.jsonl", *ALONE))
    plain, drafted = rows_of(text)
    assert plain == "1 0 - 0.0 64/64 40 ms 25/s 5 ms 200/s 8.0 ×"
    # 4 tokens in twice the time: 2 ×; as a graph 10 × the launched one: 20 × together, not 8 × 2.
    assert drafted == "1 4 good 3.0 64/64 80 ms 50/s 8 ms 500/s 10.0 × 2.0 × 20.0 × 1.25"
    assert "Together they reach 20.0 × at batch 1: 1.25 to 1.25 of the product" in text


def test_a_slow_host_is_no_gain_of_the_graph(tmp_path: Path) -> None:
    # The same launches took 80 ms with one row: what they took with two was the host's doing.
    slow = [
        (2, 0, False, 40_000_000, 0.0),
        (2, 0, True, 5_000_000, 0.0),
        (2, 4, False, 160_000_000, 3.0),
        (2, 4, True, 8_000_000, 3.0),
    ]
    text = table(rounds(tmp_path / "rounds.jsonl", *ALONE, *slow))
    *_, drafted = rows_of(text)
    assert drafted == "2 4 good 3.0 64/64 160 ms 50/s* 8 ms 1,000/s 10.0 × 2.0 × 20.0 × 1.25"
    assert "* The host was slow: it took 2.0 × what the same launches took" in text


def test_a_bad_draft_is_marked_and_said_to_gain_nothing_by_itself(tmp_path: Path) -> None:
    # Every other token is kept in twice the time, launched and as a graph.
    bad = [(0.3, 1, 4, False, 80_000_000, 0.8), (0.3, 1, 4, True, 10_000_000, 0.8)]
    text = table(written(tmp_path / "rounds.jsonl", *((0.02, *line) for line in ALONE), *bad))
    *_, row = rows_of(text)
    assert row == "1 4 bad 0.8 64/64 80 ms 22/s 10 ms 180/s 8.0 × 0.9 × 7.2 × 1.00"
    told = " ".join(text.split())
    assert "(0.8 of 4 kept) gains nothing by itself, 0.90 × of the tokens without it" in told
    assert "with the draft it makes 0.90 × of the tokens that it makes without" in told
    # Their gains multiply, too: nothing may say that they do not.
    assert "do not" not in told
    assert max(map(len, text.splitlines())) <= 100
