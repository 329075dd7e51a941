"""Of a recorded step that cannot be replayed with more rows, why it cannot is said."""

from __future__ import annotations

from pathlib import Path

from decodeprof.analysis.sweeps.growth import Rates
from decodeprof.diagnosis.evidence import gather
from decodeprof.diagnosis.larger_step import larger
from decodeprof.diagnosis.load import load

FIXTURES = Path(__file__).parents[2] / "fixtures"
RATES = Rates(4.253e12, 7.82e14, sm_count=132, strided_elements_per_s=4.29e11)
NODE_GAP_NS = 434


def test_why_nothing_is_foreseen_is_said() -> None:
    def why(name: str, step_ns: int) -> str:
        steps, reason = larger(
            gather(load(FIXTURES / name)),
            [1, 2],
            step_ns=step_ns,
            rates=RATES,
            node_gap_ns=NODE_GAP_NS,
        )
        assert steps == []
        return reason

    assert "of its device time is in kernels whose shapes were not recorded" in why(
        "stage_graph", 5_000_000
    )
    # Shorter than the device is busy: no host time leads to that.
    assert why("stage_eager", 1_000_000) == "its length does not depend on the host"
