"""The report of the sweep that ships with decodeprof, and what it must say of itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from decodeprof.cli.sweep_judged import judged
from decodeprof.model.sweep import Sweep
from decodeprof.report.sweep import sweep_view
from decodeprof.report.terminal import text

ROOT = Path(__file__).parents[2]
WIDTH = 116


@pytest.fixture(scope="module")
def sweep() -> Sweep:
    return judged(ROOT / "fixtures/sweeps/batch06")


@pytest.mark.parametrize("width", [64, 80, 110])
def test_a_narrow_terminal_parts_the_table(sweep: Sweep, width: int) -> None:
    lines = text(sweep_view(sweep, width=width), width=width).splitlines()
    assert max(map(len, lines)) <= width
    heads = [line.split() for line in lines if line.startswith("  batch  ")]
    assert len(heads) > 1
    whole = text(sweep_view(sweep, width=WIDTH), width=WIDTH).splitlines()
    (wanted,) = (line.split() for line in whole if line.startswith("  batch  "))
    assert [name for head in heads for name in head[1:]] == wanted[1:]


def test_a_graph_step_stands_in_where_nothing_was_counted(sweep: Sweep) -> None:
    bare = [point for point in sweep.points if point.busy_ns is None]
    assert [point.value for point in bare] == [64, 128, 256, 512, 1024]
    assert all(point.device_ns == point.graph_ns and point.kernels is None for point in bare)
    floors = sweep.crossings[0]
    assert floors.between == (512, 1024)
    assert sweep.prediction is not None
    assert sweep.prediction.at is None
