"""A time that comes from a profile is never shown as if it were true."""

from __future__ import annotations

from pathlib import Path

import pytest

from decodeprof.diagnosis.pipeline import analyze_path
from decodeprof.diagnosis.predictions import AS_TIMED_SHARE
from decodeprof.model.diagnosis import Diagnosis, WhatIf
from decodeprof.report.terminal import text
from decodeprof.report.view import view

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
RECORDINGS = sorted(path.parent for path in FIXTURES.glob("*/recording.json"))


def as_timed(found: Diagnosis) -> bool:
    """Whether the step came out as long as it was without a profiler."""
    timed = found.step.unprofiled_ns if found.step else None
    if timed is None or found.replay.step_ns is None:
        return False
    return abs(found.replay.step_ns / timed.median - 1) <= AS_TIMED_SHARE


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.name)
def test_unprofiled_predictions_are_calibrated(path: Path) -> None:
    found = analyze_path(path).diagnosis
    scaled = found.replay.host_scale is not None
    for name in found.what_if.__struct_fields__:
        told: WhatIf | None = getattr(found.what_if, name)
        if told is not None:
            assert told.in_profiled_time == (not (scaled or as_timed(found)))


def test_the_report_and_its_findings_say_so() -> None:
    found = analyze_path(FIXTURES / "stage_fused").diagnosis
    assert found.replay.host_scale is None
    [fusion] = [f for f in found.findings if f.code == "small-kernels"]
    assert "in profiled time" in fusion.summary
    assert "in profiled time" in text(view(found), width=100)
