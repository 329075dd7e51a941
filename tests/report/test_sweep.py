"""The report of the sweep that ships with decodeprof, and what it must say of itself."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from decodeprof.cli.sweep_files import CEILINGS_FILE, POINTS_FILE
from decodeprof.cli.sweep_judged import judged
from decodeprof.model.sweep import Sweep
from decodeprof.report.sweep import sweep_view
from decodeprof.report.terminal import text

ROOT = Path(__file__).parents[2]
SWEEP = ROOT / "fixtures/sweeps/batch06"
WIDTH = 160


@pytest.fixture(scope="module")
def sweep() -> Sweep:
    return judged(SWEEP)


@pytest.mark.parametrize("width", [64, 80, 110])
def test_a_narrow_terminal_parts_the_table(sweep: Sweep, width: int) -> None:
    lines = text(sweep_view(sweep, width=width), width=width).splitlines()
    assert max(map(len, lines)) <= width
    heads = [line.split() for line in lines if line.startswith("  batch  ")]
    assert len(heads) > 1
    whole = text(sweep_view(sweep, width=WIDTH), width=WIDTH).splitlines()
    (wanted,) = (line.split() for line in whole if line.startswith("  batch  "))
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
