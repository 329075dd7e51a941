"""A step of few rows, replayed with more: crossings whose truth is known."""

from __future__ import annotations

import numpy as np
import pytest

from decodeprof.analysis.sweeps.growth import Growth, Rates
from decodeprof.analysis.sweeps.larger import Larger, foreseen_by_replay, larger_steps
from decodeprof.model.sweep import Crossing
from tests.analysis.replay.sources import US, launches

KERNELS = 100
RATES = Rates(1e9, 1e12, sm_count=100)
POINTS = [1, 2, 4, 8, 16, 32, 64, 128]
FLOORS = Crossing(kind="floors", answer="at", at=40.0)
PLATEAU = Crossing(kind="plateau", answer="at", at=44.0)


def linear(row_ns: int, *, duration_ns: int = 100) -> Growth:
    """Kernels of which each row reads so many bytes, at a byte an ns."""
    nothing, none = np.zeros(KERNELS), np.zeros(KERNELS, bool)
    return Growth(
        duration_ns=np.full(KERNELS, duration_ns, np.int64),
        rows=1,
        shortest_ns=0,
        known=~none,
        fixed_bytes=nothing,
        row_bytes=nothing + row_ns,
        fixed_flops=nothing,
        row_flops=nothing,
        fixed_elements=nothing,
        row_elements=nothing,
        strided=none,
        in_waves=none,
        blocks=nothing + 1,
        block_elements=nothing + 1,
        threads=nothing + 128,
    )


def steps(row_ns: int, points: list[int] = POINTS) -> list[Larger]:
    """On a host that needs 10 µs a kernel."""
    program = launches([10 * US] * KERNELS, [100] * KERNELS)
    return larger_steps(program, linear(row_ns), points, rates=RATES, node_gap_ns=0)


def test_the_step_is_the_hosts_until_the_device_takes_longer() -> None:
    found = {step.value: step for step in steps(200)}
    assert set(POINTS) <= set(found)
    for value in POINTS:
        assert found[value].device_ns == KERNELS * 200 * value
        assert found[value].step_ns == max(KERNELS * 10 * US, KERNELS * 200 * value)


def test_both_crossings_are_foreseen() -> None:
    prediction = foreseen_by_replay(steps(200), POINTS, floors=FLOORS, plateau=PLATEAU)
    assert prediction is not None
    assert prediction.method == "replay"
    assert prediction.at == pytest.approx(50)
    # The step bends at 50: between the points beside 55 it is known to a few percent.
    assert prediction.plateau_at == pytest.approx(55, rel=0.02)
    assert prediction.error_share == pytest.approx(0.25)
    assert prediction.plateau_error_share == pytest.approx(0.25, abs=0.02)
    assert prediction.device_ns == [KERNELS * 200 * value for value in POINTS]
    assert len(prediction.eager_ns) == len(POINTS)


def test_none_up_to_the_last_point_is_foreseen_too() -> None:
    found = steps(20)
    assert [step.value for step in found] == POINTS
    prediction = foreseen_by_replay(found, POINTS, floors=FLOORS, plateau=PLATEAU)
    assert prediction is not None
    assert (prediction.at, prediction.plateau_at, prediction.error_share) == (None, None, None)
    assert prediction.reason == "not up to the last point"


def test_a_step_that_is_device_bound_tells_no_hosts_time() -> None:
    assert foreseen_by_replay(steps(20_000), POINTS, floors=FLOORS, plateau=PLATEAU) is None
    assert foreseen_by_replay(steps(200, [1]), [1], floors=FLOORS, plateau=PLATEAU) is None
    assert foreseen_by_replay([], POINTS, floors=FLOORS, plateau=PLATEAU) is None
