"""From one recorded step of one row to the batch at which the device overtakes the host."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from decodeprof.analysis.sweeps.growth import Rates
from decodeprof.analysis.sweeps.larger import foreseen_by_replay
from decodeprof.cli.sweep_judged import judged
from decodeprof.diagnosis.evidence import gather
from decodeprof.diagnosis.larger_step import larger
from decodeprof.diagnosis.load import Loaded, load
from decodeprof.model.families import family
from decodeprof.model.trace import OpDetail, Trace

FIXTURES = Path(__file__).parents[2] / "fixtures"
SLOTS, CONTEXT = 512, 128
"""That the recorded step attends to, and that a step of the sweep does."""
COPY_NS, ATTENTION_NS = 3_244, 5_330
"""What the two kernels last at one row whose work grows with the context, as a profile of the
sweep's first point counted them."""
RATES = Rates(4.253e12, 7.82e14, sm_count=132, strided_elements_per_s=4.29e11)
NODE_GAP_NS = 434


def of_the_sweeps_context(trace: Trace) -> Trace:
    """The recorded step as it would have been recorded with the sweep's context."""

    def shorter(shape: tuple[int, ...] | None) -> tuple[int, ...] | None:
        return shape and tuple(CONTEXT if size == SLOTS else size for size in shape)

    def detail(found: OpDetail) -> OpDetail:
        shapes = tuple(map(shorter, found.shapes))
        # Only heads and slots lie outside a slot's own numbers; expanded ones step by 0.
        scale = [old != new for old, new in zip(found.shapes, shapes, strict=True)]
        strides = tuple(
            tuple(step * CONTEXT // SLOTS if step >= SLOTS * CONTEXT else step for step in steps)
            if smaller and steps
            else steps
            for steps, smaller in zip(found.strides, scale, strict=True)
        )
        return dataclasses.replace(found, shapes=shapes, strides=strides)

    device = trace.device
    families = [family(trace.names[name]) for name in device.name]
    copies = device.blocks == 2_048
    attention = np.array([found == "attention" for found in families])
    assert copies.sum() == 2 * attention.sum() > 0
    ends = np.where(copies, device.start_ns + COPY_NS, device.end_ns)
    ends = np.where(attention, device.start_ns + ATTENTION_NS, ends)
    blocks = np.where(copies, device.blocks * CONTEXT // SLOTS, device.blocks)
    return dataclasses.replace(
        trace,
        op_details=tuple(map(detail, trace.op_details)),
        device=dataclasses.replace(device, end_ns=ends, blocks=blocks),
    )


def test_the_crossing_of_the_sweep_that_ships_is_foreseen() -> None:
    loaded = load(FIXTURES / "stage_eager")
    evidence = gather(
        Loaded(
            trace=of_the_sweeps_context(loaded.trace), recording=loaded.recording, name="shorter"
        )
    )
    sweep = judged(FIXTURES / "sweeps/batch06")
    values = [point.value for point in sweep.points]
    eager_ns = sweep.points[0].eager_ns
    assert eager_ns is not None
    steps, withheld = larger(
        evidence, values, step_ns=eager_ns, rates=RATES, node_gap_ns=NODE_GAP_NS
    )
    assert withheld == ""
    prediction = foreseen_by_replay(
        steps, values, floors=sweep.crossings[0], plateau=sweep.crossings[1]
    )
    assert prediction is not None
    assert prediction.error_share == pytest.approx(0, abs=0.1)
    assert prediction.plateau_error_share == pytest.approx(0, abs=0.1)
    for point, foreseen in zip(sweep.points, prediction.device_ns, strict=True):
        assert point.device_ns is not None
        assert foreseen == pytest.approx(point.device_ns, rel=0.1), point.value


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
