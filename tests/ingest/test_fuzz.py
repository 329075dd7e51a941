"""Damaged real traces give a report or a clear error: hundreds here, thousands in tests/bench."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.bench.fuzz import mutated, outcome, stretches, two_readings
from tests.build import TraceBuilder
from tests.scenarios import decode_loop
from tests.traces import folder, needs_traces
from tests.write_kineto import LAYOUTS, kineto

INPUTS = 100
READINGS = 40


def escaped(texts: list[bytes], path: Path, first: int) -> list[str]:
    found = []
    for number in range(first, first + INPUTS):
        chance = random.Random(number)
        one = outcome(mutated(chance.choice(texts), chance), path)
        if one.kind in ("escaped", "slow"):
            found.append(f"{number}: {one.kind} {one.text}")
    return found


def test_damaged_recordings(tmp_path: Path) -> None:
    shipped = Path(__file__).resolve().parents[2] / "fixtures"
    names = ("stage_matvec", "stage_graph", "stage_gate")
    texts = [t for i, n in enumerate(names) for t in stretches(shipped / n / "trace.json.gz", i)]
    assert escaped(texts, tmp_path / "trace.json", 0) == []


@needs_traces
@pytest.mark.traces
def test_damaged_traces_of_others(tmp_path: Path) -> None:
    place = folder()
    assert place is not None
    small = [p for p in sorted(place.rglob("*.json.gz")) if p.stat().st_size < 600_000]
    texts = [text for i, path in enumerate(small) for text in stretches(path, i)]
    assert escaped(texts, tmp_path / "trace.json", 1_000_000) == []


def test_damaged_or_not_the_fast_way_of_reading_finds_what_the_parser_finds() -> None:
    texts = [kineto(decode_loop(steps=4, layers=6).build(), name) for name in LAYOUTS[:2]]
    for number in range(READINGS):
        chance = random.Random(number)
        text = mutated(chance.choice(texts), chance) if number else texts[0]
        assert two_readings(text, block_bytes=chance.choice((3_000, 20_000))) == [], number


def test_every_undamaged_seed_of_a_recording_is_read(tmp_path: Path) -> None:
    recording = Path(__file__).resolve().parents[2] / "fixtures" / "stage_gate" / "trace.json.gz"
    for seed in stretches(recording, 0):
        assert outcome(seed, tmp_path / "trace.json").kind.startswith("read")


def test_a_page_of_activities_without_calls_and_without_gaps(tmp_path: Path) -> None:
    b = TraceBuilder()
    b.unlinked("one", start_ns=0, ns=1_000)
    b.unlinked("next", start_ns=1_000, ns=1_000)
    one = outcome(kineto(b.build()), tmp_path / "trace.json")
    assert (one.kind, one.text) == ("read", "")


def test_two_graph_launches_of_different_sizes(tmp_path: Path) -> None:
    b = TraceBuilder()
    for nodes in (80, 200):
        b.work(10_000)
        b.graph([(f"node_{n % 7}", 2_000) for n in range(nodes)])
    one = outcome(kineto(b.build()), tmp_path / "trace.json")
    assert one.text == ""
    assert one.kind.startswith("read")
