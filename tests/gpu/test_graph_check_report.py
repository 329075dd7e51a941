"""The checks that ran on an H200, told again by the code of today."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.golden import check_golden
from tests.gpu.graph_check_report import judged, kept, report, timings

ROOT = Path(__file__).parents[2]
TOLERANCE_SHARE = 0.03


@pytest.fixture(scope="module")
def checks() -> dict[str, Any]:
    return kept(ROOT / "fixtures/graph_check/checks.json.gz")


def test_the_report_is_made_of_the_checks(checks: dict[str, Any]) -> None:
    check_golden(ROOT / "reports/graph_check.txt", report(checks).encode())


def test_what_was_predicted_came_true(checks: dict[str, Any]) -> None:
    found = timings(checks)
    assert len(found) == 4
    for name, predicted, measured in found:
        assert abs(predicted / measured - 1) < TOLERANCE_SHARE, name


def test_each_step_is_judged_as_it_must_be(checks: dict[str, Any]) -> None:
    found = judged(checks)
    assert {name: check.verdict for name, check in found.items()} == {
        "eager": "captures",
        "plain": "wrong",
        "counter": "wrong",
        "static_cache": "captures",
        "buckets": "captures",
        "piecewise": "refused",
    }
    assert [each.bucket for each in found["buckets"].attempts] == ["rows=1", "rows=4", "rows=16"]
    # The line that reads every token stops the whole of the plain step; its cache grows.
    refusal = found["plain"].whole_step_refusal
    assert refusal is not None
    assert refusal.error.place is not None
    assert "token = int(" in refusal.error.place.code
    growing = [change.name for change in found["plain"].attempts[0].python_changes if change.grows]
    assert growing == ["argument 2._keys[…]", "argument 2._values[…]"]
    counter = found["counter"].attempts[0].python_changes
    assert [(change.name, change.text) for change in counter] == [("self.position", "4 → 5")]
    assert len(found["piecewise"].segments) == 2
