"""A time that comes from a profile is never shown as if it were true."""

from __future__ import annotations

from pathlib import Path

import pytest

from decodeprof.diagnosis.pipeline import analyze_path
from decodeprof.model.diagnosis import WhatIf
from decodeprof.report.terminal import text
from decodeprof.report.view import view

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
RECORDINGS = sorted(path.parent for path in FIXTURES.glob("*/recording.json"))


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.name)
def test_unprofiled_predictions_are_calibrated(path: Path) -> None:
    found = analyze_path(path).diagnosis
    for name in found.what_if.__struct_fields__:
        told: WhatIf | None = getattr(found.what_if, name)
        if told is not None:
            assert told.in_profiled_time == (found.replay.host_scale is None)


def test_the_report_and_its_findings_say_so() -> None:
    found = analyze_path(FIXTURES / "stage_fused").diagnosis
    assert found.replay.host_scale is None
    [fusion] = [f for f in found.findings if f.code == "small-kernels"]
    assert "in profiled time" in fusion.summary
    assert "in profiled time" in text(view(found), width=100)
