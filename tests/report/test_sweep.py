"""The report of the sweep that ships with decodeprof, and what it must say of itself."""

from __future__ import annotations

import csv
import io
import json
import math
import re
import shutil
from pathlib import Path

import pytest

from decodeprof.cli.sweep_files import CEILINGS_FILE, POINTS_FILE
from decodeprof.cli.sweep_judged import judged
from decodeprof.model.sweep import Sweep
from decodeprof.report.sweep import sweep_csv, sweep_view
from decodeprof.report.terminal import text

ROOT = Path(__file__).parents[2]
SWEEP = ROOT / "fixtures/sweeps/batch06"
WIDTH = 160


@pytest.fixture(scope="module")
def sweep() -> Sweep:
    return judged(SWEEP)


def titles(head: str) -> list[str]:
    """The columns of a table; titles of several words have one space between them."""
    return re.split(r"  +", head.strip())


@pytest.mark.parametrize("width", [64, 80, 110])
def test_a_narrow_terminal_parts_the_table(sweep: Sweep, width: int) -> None:
    lines = text(sweep_view(sweep, width=width), width=width).splitlines()
    assert max(map(len, lines)) <= width
    heads = [titles(line) for line in lines if line.startswith("  batch  ")]
    assert len(heads) > 1
    whole = text(sweep_view(sweep, width=WIDTH), width=WIDTH).splitlines()
    (wanted,) = (titles(line) for line in whole if line.startswith("  batch  "))
    assert [name for head in heads for name in head[1:]] == wanted[1:]
    # No table is left with a column or two.
    assert max(map(len, heads)) - min(map(len, heads)) < len(heads)


def test_a_graph_step_stands_in_where_nothing_was_counted(tmp_path: Path, sweep: Sweep) -> None:
    # As if the run had ended while its points were counted.
    lines = (SWEEP / POINTS_FILE).read_text().splitlines()
    messages = [json.loads(line) for line in lines]
    kept = [
        line
        for line, message in zip(lines, messages, strict=True)
        if message.get("kind") != "counted" or message["value"] <= 32
    ]
    (tmp_path / POINTS_FILE).write_text("\n".join(kept) + "\n")
    shutil.copy(SWEEP / CEILINGS_FILE, tmp_path)
    found = judged(tmp_path)
    bare = [point for point in found.points if point.busy_ns is None]
    assert [point.value for point in bare] == [64, 128, 256, 512, 1024]
    assert all(point.device_ns == point.graph_ns and point.kernels is None for point in bare)
    counted, stood_in = sweep.crossings[0], found.crossings[0]
    assert counted.at is not None
    assert stood_in.at == pytest.approx(counted.at, rel=0.1)
    # Without its trace the first point foresees by floors alone, which know of no copies.
    assert found.prediction is not None
    assert (found.prediction.method, found.prediction.at) == ("floors", None)


def test_a_tokens_rate_is_told_where_tokens_are_known(sweep: Sweep) -> None:
    told = text(sweep_view(sweep, width=WIDTH), width=WIDTH)
    assert "tokens/s" in told
    first = sweep.points[0]
    assert first.graph_ns is not None
    assert first.tokens_per_s == pytest.approx(1e9 / first.graph_ns)
    # The toy's rows are no tokens.
    toy = judged(SWEEP.parent / "toy")
    assert "tokens/s" not in text(sweep_view(toy, width=WIDTH), width=WIDTH)


@pytest.mark.parametrize("width", [400, 500, 2_000])
def test_a_very_wide_terminal_cuts_nothing(sweep: Sweep, width: int) -> None:
    told = text(sweep_view(sweep, width=width), width=width)
    assert "…" not in told
    lines = told.splitlines()
    (frame,) = (line for line in lines if "└" in line)
    assert len(frame) < 230
    assert len(lines[lines.index(frame) + 1]) == len(frame)


@pytest.mark.parametrize("width", [64, 80, 120])
def test_plans_of_buckets_are_whole_in_a_narrow_terminal(width: int) -> None:
    asked = [[1, 2, 3, 4, 5, 6, 7, 1_000, 1_024]]
    found = judged(SWEEP, live={1: 50, 7: 20, 100: 5, 1_000: 1}, plans=asked)
    told = text(sweep_view(found, width=width), width=width)
    plans = told.partition("What padding")[2].partition("\n\n")[0]
    assert re.search(r"as asked +9 .*\n +1, 2, 3, 4, 5, 6, … 1024\n", plans)
    assert re.search(r"1, 2, 4 and multiples of 8 +128 .*\n +1, 2, 4, 8, 16, 24, … 1000\n", plans)
    assert max(map(len, plans.splitlines())) <= width


def test_each_word_of_the_table_is_explained(sweep: Sweep) -> None:
    told = " ".join(text(sweep_view(sweep, width=80), width=80).split())
    for words in (
        "total kernel launch and queuing time",
        "large values do not compare",
        "memory bandwidth utilization",
        "model FLOPs utilization",
        "An activity is a kernel, a copy or a set",
        "A node gap is the pause between two kernels of a graph",
        "bytes floor: the least that must be read ÷ the bandwidth",
        "FLOPs floor: the least that must be computed ÷ the arithmetic rate",
    ):
        assert words in told


@pytest.mark.parametrize("part", ["batch06", "batch8x4", "graph", "prompt", "toy", "context"])
def test_where_the_plateau_ends_follows_from_the_points_by_the_rule_that_is_told(
    part: str,
) -> None:
    found = judged(SWEEP.parent / part)
    points = {int(r[found.axis]): r for r in csv.DictReader(io.StringIO(sweep_csv(found).decode()))}
    plateau = next(crossing for crossing in found.crossings if crossing.kind == "plateau")
    assert plateau.between is not None
    low, high = (points[value] for value in plateau.between)

    def of(row: dict[str, str], name: str) -> float:
        return float(row[f"{name}_ns"])

    ratio = of(high, "eager") / of(high, "device")
    told = " ".join(text(sweep_view(found, width=WIDTH), width=WIDTH).split())
    assert f"its device floor × {ratio:.2f}, which is eager ÷ device at" in told
    begin = math.log(of(low, "device") * ratio / of(low, "host"))
    end = math.log(of(high, "eager") / of(high, "host"))
    share = (math.log(1.1) - begin) / (end - begin)
    left, right = plateau.between
    assert left * (right / left) ** share == pytest.approx(plateau.at, rel=1e-3)
