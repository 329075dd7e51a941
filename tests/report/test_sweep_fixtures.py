"""The sweeps that ship: each is rendered, each foresees what it was measured to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from decodeprof import units
from decodeprof.cli.sweep_files import POINTS_FILE
from decodeprof.cli.sweep_judged import judged
from decodeprof.diagnosis.pipeline import analyze_path
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


@pytest.mark.parametrize("part", NAMES)
def test_the_report_is_made_of_the_points(part: str) -> None:
    sweep = judged(SWEEPS / part)
    found = text(sweep_view(sweep, width=WIDTH), width=WIDTH)
    check_golden(ROOT / f"reports/{NAMES[part]}.txt", found.encode())
    check_golden(ROOT / f"reports/{NAMES[part]}.csv", sweep_csv(sweep))


def test_each_sweep_that_ships_is_rendered() -> None:
    folders = {path.parent.name for path in SWEEPS.glob(f"*/{POINTS_FILE}")}
    assert folders == set(NAMES)


@pytest.mark.parametrize("part", NAMES)
def test_the_readme_tells_what_was_measured_and_foreseen(part: str) -> None:
    sweep = judged(SWEEPS / part)
    readme = (ROOT / "README.md").read_text()
    (row,) = (line for line in readme.splitlines() if f"](reports/{NAMES[part]}.txt) |" in line)
    _, crossing, foreseen, gains = (cell.strip() for cell in row.strip("| ").split(" | "))
    assert f"from {sweep.axis} {crossing.partition(' (')[0]} on ({crossing.partition('(')[2]}." in (
        sweep.sentence
    )
    first, last = sweep.points[0].graph_gain, sweep.points[-1].graph_gain
    assert gains == f"{first:.2f} to {last:.2f} ×"
    assert sweep.prediction is not None
    at, error = sweep.prediction.at, sweep.prediction.error_share
    told = "none" if at is None else f"{float(f'{at:.2g}'):,.0f}, {units.share(error)} above"
    assert foreseen == told


@pytest.mark.parametrize("part", ["batch06", "batch8x4", "toy"])
def test_a_recorded_step_of_one_row_foresees_the_device_at_more(part: str) -> None:
    sweep = judged(SWEEPS / part)
    found = sweep.prediction
    assert found is not None
    assert found.method == "replay"
    for point, foreseen in zip(sweep.points, found.device_ns, strict=True):
        assert foreseen == pytest.approx(point.device_ns, rel=0.2), point.value
    # With the host's time of all points, so that only the device is foreseen.
    assert found.steady_error_share == pytest.approx(0, abs=0.25)


@pytest.mark.parametrize("part", ["batch06", "batch8x4", "graph"])
def test_the_batch_of_the_crossing_is_foreseen_from_one_row_alone(part: str) -> None:
    found = judged(SWEEPS / part).prediction
    assert found is not None
    assert found.error_share == pytest.approx(0, abs=0.25)


def test_a_host_that_was_slow_at_the_first_point_is_told_from_a_miss_of_the_device() -> None:
    found = judged(SWEEPS / "toy").prediction
    assert found is not None
    assert found.error_share == pytest.approx(0.31, abs=0.01)
    assert found.first_host_share == pytest.approx(0.23, abs=0.01)
    assert found.steady_error_share == pytest.approx(0.03, abs=0.01)


@pytest.mark.parametrize("part", NAMES)
def test_behind_the_crossing_a_graph_gains_nothing(part: str) -> None:
    sweep = judged(SWEEPS / part)
    floors = sweep.crossings[0]
    assert floors.at is not None
    for point in sweep.points:
        assert point.graph_gain is not None
        # Both curves run together a factor of two behind the crossing, and far apart before it.
        if point.value > 2 * floors.at:
            assert point.graph_gain < 1.1
        if point.value < floors.at / 2:
            assert point.graph_gain > 1.5


@pytest.mark.parametrize(
    ("part", "first", "last"),
    [
        ("batch06", "batch_1", "batch_1024"),
        ("batch8x4", "batch_1", "batch_1024"),
        ("toy", "batch_1", "batch_16384"),
        ("prompt", "prompt_16", "prompt_16384"),
        ("graph", "batch_1", "batch_512_graph"),
    ],
)
def test_the_traces_of_both_ends_lie_on_both_sides(part: str, first: str, last: str) -> None:
    def bound_by(name: str) -> str:
        verdict = analyze_path(SWEEPS / part / f"{name}.json.gz").diagnosis.verdict
        assert verdict is not None
        return verdict.bound_by

    assert bound_by(first) == "launch"
    assert bound_by(last) in ("kernel", "device")


ROUNDS = SWEEPS / "speculative/rounds.jsonl"


def test_the_table_of_speculative_decoding_is_made_of_its_rounds() -> None:
    check_golden(ROOT / "reports/speculative.txt", table(ROUNDS).encode())
