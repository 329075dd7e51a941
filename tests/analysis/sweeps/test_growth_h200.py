"""The recorded eager step that ships, grown to more rows: beside recordings of these."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from decodeprof.analysis.sweeps.growth import Rates, growth
from decodeprof.diagnosis.evidence import gather
from decodeprof.diagnosis.load import load

EAGER = Path(__file__).parents[3] / "fixtures" / "stage_eager"
"""A step of the 0.6B shape that attends to all of 512 slots."""
RATES = Rates(4.25e12, 7.9e14, sm_count=132, strided_elements_per_s=4.28e11)
"""As the ceilings of the H200 were that recorded the larger batches, before they were recorded."""
BUSY_NS = {16: 6_689_000, 128: 25_400_000}
"""Device busy in an eager step of the same program with more rows, each recorded by itself."""


@pytest.mark.parametrize(("rows", "within"), [(16, 0.10), (128, 0.05)])
def test_the_busy_time_of_more_rows_is_foreseen(rows: int, within: float) -> None:
    evidence = gather(load(EAGER))
    step = int(np.flatnonzero(evidence.steps.steady)[0])
    activities = np.flatnonzero(evidence.steps.activity_step == step).astype(np.int64)
    assert evidence.traffic is not None
    found = growth(evidence.trace, evidence.traffic, activities)
    assert found.at(rows, RATES).sum() == pytest.approx(BUSY_NS[rows], rel=within)
    # What must be read at least, and computed, would have foreseen no more than this.
    least = found.duration_ns.sum() + rows * 512 * 114_688 / RATES.bandwidth_bytes_per_s * 1e9
    assert least < 0.8 * BUSY_NS[rows]
