"""A real step of one row, grown to more rows: beside what the same program was measured to take."""

from __future__ import annotations

import numpy as np
import pytest

from decodeprof.analysis.sweeps.growth import Rates, growth
from decodeprof.analysis.traffic import kernel_traffic
from decodeprof.ingest.read import read_trace
from tests.reading import steps_of
from tests.traces import needs_traces, path_of

pytestmark = [pytest.mark.traces, needs_traces]

RATES = Rates(4.25e12, 780e12, sm_count=132)
"""Of the H200 on which it was recorded, as far as they were measured."""
BUSY_NS = {1: 4_468_000, 16: 4_640_000, 128: 5_970_000}
"""Device busy by rows, each from a profile of its own, of the 0.6B shape launched eagerly."""


@pytest.mark.parametrize(("rows", "within"), [(1, 0.01), (16, 0.04), (128, 0.15)])
def test_the_busy_time_of_more_rows_is_foreseen(rows: int, within: float) -> None:
    trace = read_trace(path_of("h200/qwen3_0p6b_eager.json.gz"))
    steps = steps_of(trace)
    step = int(np.flatnonzero(steps.steady)[0])
    activities = np.flatnonzero(steps.activity_step == step).astype(np.int64)
    found = growth(trace, kernel_traffic(trace), activities)
    assert found.unknown_share == 0
    assert found.at(rows, RATES).sum() == pytest.approx(BUSY_NS[rows], rel=within)
