"""A capture that was tried stands in a recording, and in place of the prediction in its report."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pytest

from decodeprof.analysis.graph_checked import checked
from decodeprof.diagnosis.pipeline import analyze_path
from decodeprof.model.diagnosis import Diagnosis
from decodeprof.model.graph_check import (
    Attempt,
    CaptureError,
    GraphCheck,
    GraphCheckRun,
    StepTimes,
    WholeStep,
)
from decodeprof.model.ops import OpCall, OpRecord, Place, StepOps, TensorRef
from decodeprof.recording import read_recording, write_recording
from decodeprof.report.terminal import text
from decodeprof.report.view import view

FIXTURES = Path(__file__).parents[2] / "fixtures"
CUDA = TensorRef(1, (4,), "float32", "cuda:0")


def times(median_ns: int) -> StepTimes:
    return StepTimes(median_ns=median_ns, p10_ns=median_ns - 7, p90_ns=median_ns + 9, n=20)


def diagnosed(folder: Path, fixture: str, found: GraphCheck) -> Diagnosis:
    directory = folder / "recording"
    shutil.copytree(FIXTURES / fixture, directory)
    recording = msgspec.structs.replace(read_recording(directory), graph_check=found)
    write_recording(directory, recording)
    return analyze_path(directory).diagnosis


def test_the_measured_step_replaces_the_prediction(tmp_path: Path) -> None:
    attempt = Attempt(captured=True, matches=True, before=times(50_000_000), after=times(5_500_000))
    run = GraphCheckRun(target="t", step="Model", attempts=[attempt])
    diagnosis = diagnosed(tmp_path, "stage_eager", checked(run))
    what_if = diagnosis.what_if.cuda_graph
    assert what_if is not None
    assert what_if.measured
    assert not what_if.in_profiled_time
    assert (what_if.step_ns.low, what_if.step_ns.expected) == (5_499_993, 5_500_000)
    shown = text(view(diagnosis), width=120)
    assert "measured: `Model` was captured and replayed in the loop, 20 steps" in shown
    assert "`Model` is captured, and its replay is the step" in shown
    (finding,) = [each for each in diagnosis.findings if each.code == "graph-missing"]
    assert finding.evidence[-1].kind == "MEASURED"
    assert "a capture was tried: `Model` is captured" in finding.evidence[-1].text


@pytest.mark.parametrize("attempt", [Attempt(captured=True, matches=False), Attempt()])
def test_what_did_not_work_leaves_the_prediction(tmp_path: Path, attempt: Attempt) -> None:
    run = GraphCheckRun(target="t", step="Model", attempts=[attempt])
    before = analyze_path(FIXTURES / "stage_eager").diagnosis
    if attempt.captured:
        run = msgspec.structs.replace(
            run,
            attempts=[msgspec.structs.replace(attempt, changed_inputs=["position: 1 → 2"])],
        )
    diagnosis = diagnosed(tmp_path, "stage_eager", checked(run))
    assert diagnosis.what_if == before.what_if
    assert diagnosis.graph_check is not None


def test_the_line_that_stops_a_graph_parts_it_and_the_rest_is_predicted(tmp_path: Path) -> None:
    before = analyze_path(FIXTURES / "plain_0p6b").diagnosis
    (site,) = [
        each
        for each in before.syncs
        if each.phase == "decode" and each.code and "int(" in each.code
    ]
    assert site.file is not None
    assert site.line is not None
    place = Place(file=site.file, line=site.line, function="generate", code=site.code or "")
    error = CaptureError(
        kind="AcceleratorError",
        message="CUDA error: operation not permitted when stream is capturing",
        phase="capture",
        place=place,
    )
    calls = (
        OpCall(name="aten::mm", inputs=(CUDA,), outputs=(CUDA,)),
        OpCall(name="aten::_local_scalar_dense", inputs=(CUDA,), wait="the host reads a value"),
    )
    step = StepOps(step=1, calls=calls)
    run = GraphCheckRun(
        target="t",
        step="Model",
        attempts=[Attempt(captured=True, matches=False, changed_inputs=["x: 1 → 2"])],
        whole_step=WholeStep(captured=False, error=error),
        record=OpRecord(first=step, second=step, places=(place,)),
    )
    diagnosis = diagnosed(tmp_path, "plain_0p6b", checked(run))
    assert before.what_if.piecewise is None
    piecewise = diagnosis.what_if.piecewise
    assert piecewise is not None
    assert not piecewise.measured
    assert before.step is not None
    assert before.step.unprofiled_ns is not None
    assert piecewise.step_ns.expected < before.step.unprofiled_ns.median
