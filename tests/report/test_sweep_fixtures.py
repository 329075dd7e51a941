"""The sweeps that ship: each is rendered, each foresees what it was measured to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from decodeprof.cli.sweep_files import POINTS_FILE
from decodeprof.cli.sweep_judged import judged
from decodeprof.report.sweep import sweep_csv, sweep_view
from decodeprof.report.terminal import text
from tests.golden import check_golden
from tests.gpu.speculative_table import table

ROOT = Path(__file__).parents[2]
SWEEPS = ROOT / "fixtures/sweeps"
WIDTH = 116
NAMES = {
    "batch06": "sweep_batch_0p6b",
    "batch8x4": "sweep_batch_8b_4_layers",
    "toy": "sweep_batch_toy",
    "context": "sweep_context_0p6b",
    "prompt": "sweep_prompt_0p6b",
    "graph": "sweep_batch_0p6b_fused",
}
SHIPPED = [name for name in NAMES if (SWEEPS / name / POINTS_FILE).is_file()]


@pytest.mark.parametrize("part", SHIPPED)
def test_the_report_is_made_of_the_points(part: str) -> None:
    sweep = judged(SWEEPS / part)
    found = text(sweep_view(sweep, width=WIDTH), width=WIDTH)
    check_golden(ROOT / f"reports/{NAMES[part]}.txt", found.encode())
    check_golden(ROOT / f"reports/{NAMES[part]}.csv", sweep_csv(sweep))


def test_each_sweep_that_ships_is_rendered() -> None:
    folders = {path.parent.name for path in SWEEPS.glob(f"*/{POINTS_FILE}")}
    assert folders == set(SHIPPED)


ROUNDS = SWEEPS / "speculative/rounds.jsonl"


@pytest.mark.skipif(not ROUNDS.is_file(), reason="no rounds were recorded")
def test_the_table_of_speculative_decoding_is_made_of_its_rounds() -> None:
    check_golden(ROOT / "reports/speculative_0p6b.txt", table(ROUNDS).encode())
