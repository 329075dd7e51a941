from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.golden import check_golden
from tests.gpu.predictions_h200 import CASES, aims, report, rows

ROOT = Path(__file__).parents[2]


def runs() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((ROOT / "fixtures/predictions/runs.json").read_text())
    return found


def test_the_report_is_made_of_the_runs() -> None:
    check_golden(ROOT / "reports/predictions.txt", report(runs()).encode())


def test_every_prediction_was_written_before_anything_was_measured() -> None:
    for run in runs():
        for name, row in run["measured"].items():
            said = run["predictions"]["cases"][name]
            written_at = said.get("written_at", run["predictions"].get("written_at"))
            assert written_at < row["measured_at"]


def test_a_case_without_a_figure_is_named_with_its_reason() -> None:
    said = {"cases": {case.name: {"predicted_ns": 90, "recorded_step_ns": 100} for case in CASES}}
    got = {CASES[0].name: {"before_ns": 100, "after_ns": 100}, CASES[1].name: {"error": "no room"}}
    found, missing = rows(said, got)
    assert [row.case for row in found] == [CASES[0]]
    assert missing["no room"] == [CASES[1].name]
    assert missing["not measured"] == [case.name for case in CASES[2:]]


def test_the_aims_are_judged_by_the_errors() -> None:
    case_of = {"predicted_ns": 96, "recorded_step_ns": 200, "low_ns": 90, "high_ns": 100}
    said = {"cases": {case.name: case_of for case in CASES}}
    said["cases"][CASES[0].name] = case_of | {"high_ns": 99}
    got = {case.name: {"before_ns": 200, "after_ns": 100} for case in CASES}
    graph, sync, fusion, ranged = aims(rows(said, got)[0])
    assert ranged == f"inside the predicted range: {len(CASES) - 1} of {len(CASES)}"
    assert "median error 4.0%" in graph
    assert "worst 4.0%" in graph
    assert "6 cases that save more than 5% of the step, 6 of them" in sync
    assert "worst error 4.0%" in fusion
    said["cases"] = {name: {**case, "predicted_ns": 50} for name, case in said["cases"].items()}
    assert (
        " 0 of them"
        in aims(
            rows(said, {n: {**g, "after_ns": 150, "before_ns": 200_000} for n, g in got.items()})[0]
        )[1]
    )
