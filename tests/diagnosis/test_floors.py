"""Floors of a step whose kernels are the user's own and overlap: from a recording of an H200."""

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from decodeprof.diagnosis.evidence import Evidence, gather
from decodeprof.diagnosis.load import load
from decodeprof.diagnosis.pipeline import diagnose
from decodeprof.diagnosis.verdict import Bound, sentence_of
from decodeprof.model.diagnosis import Diagnosis
from decodeprof.recording import ModelInfo

FIXTURES = Path(__file__).parents[2] / "fixtures"
WEIGHTS = 1_192_099_840


def evidence(model: ModelInfo | None) -> Evidence:
    loaded = load(FIXTURES / "stage_overlap")
    assert loaded.recording is not None
    recording = msgspec.structs.replace(loaded.recording, model=model)
    return gather(replace(loaded, recording=recording))


def diagnosed(model: ModelInfo | None) -> Diagnosis:
    return diagnose(evidence(model))


def test_the_weights_alone_give_kernels_without_shapes_a_floor() -> None:
    found = diagnosed(ModelInfo(name="Model", parameter_bytes=WEIGHTS))
    assert found.floors is not None
    assert found.floors.bytes is not None
    # What else is known is a token and its embedding: some kilobytes.
    assert WEIGHTS <= found.floors.bytes <= WEIGHTS + 10_000
    assert found.floors.bytes_ns == pytest.approx(274_000, rel=0.02)
    assert found.verdict.bound_by == "kernel"


def test_without_the_weights_the_verdict_does_not_guess() -> None:
    found = diagnosed(None)
    assert found.floors is not None
    assert found.floors.bytes is None
    assert found.verdict.bound_by == "device"


def test_nodes_that_overlap_have_no_gaps_between_them() -> None:
    found = diagnosed(None)
    assert found.floors is not None
    assert found.step is not None
    assert found.step.unprofiled_ns is not None
    busy, gap, device = found.floors.busy_ns, found.floors.node_gap_ns, found.floors.device_ns
    assert busy is not None
    assert gap is not None
    assert device is not None
    assert busy < device < busy + 10 * gap
    assert device <= found.step.unprofiled_ns.median


def test_a_device_that_a_profile_shows_busy_for_longer_than_the_step_is_busy_all_of_it() -> None:
    bound = Bound(
        step_ns=3_590_000,
        device_floor_ns=3_590_000,
        busy_ns=3_617_000,
        sync_saving_ns=None,
        host_saving_ns=None,
        bytes_ns=274_000,
        flops_ns=None,
    )
    told = sentence_of(
        "kernel", bound, launching="launch 1,700 kernels", what="each decode step", timed=""
    )
    assert "the GPU is busy all of it" in told
    assert "%" not in told
