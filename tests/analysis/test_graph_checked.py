"""What is said of captures that were tried, and which parts of a step can be captured."""

from __future__ import annotations

from decodeprof.analysis.graph_checked import checked
from decodeprof.analysis.graph_segments import segments_of
from decodeprof.model.graph_check import (
    Attempt,
    CaptureError,
    Difference,
    GraphCheckRun,
    PythonChange,
    StepTimes,
    WholeStep,
)
from decodeprof.model.ops import OpCall, OpRecord, Place, StepOps, TensorRef

CUDA = TensorRef(1, (4,), "float32", "cuda:0")
PLACES = tuple(
    Place(file="loop.py", line=number, function="step", code=f"line {number}")
    for number in range(8)
)
WORK = OpCall(name="aten::mm", inputs=(CUDA,), outputs=(CUDA,))
READ = OpCall(name="aten::_local_scalar_dense", inputs=(CUDA,), wait="the host reads", place=3)
VIEW = OpCall(name="aten::view", inputs=(CUDA,), outputs=(CUDA,), view=True)
GOOD = Attempt(
    captured=True,
    matches=True,
    before=StepTimes(median_ns=50_000_000, p10_ns=49_000_000, p90_ns=51_000_000, n=20),
    after=StepTimes(median_ns=5_000_000, p10_ns=5_000_000, p90_ns=5_000_000, n=20),
)
REFUSAL = CaptureError(
    kind="AcceleratorError",
    message="CUDA error: operation not permitted when stream is capturing",
    phase="capture",
    place=PLACES[3],
)


def at(call: OpCall, place: int) -> OpCall:
    return OpCall(name=call.name, inputs=call.inputs, outputs=call.outputs, place=place)


def record(*calls: OpCall) -> OpRecord:
    return OpRecord(
        first=StepOps(step=4, calls=calls), second=StepOps(step=5, calls=calls), places=PLACES
    )


def run(*attempts: Attempt, **rest: object) -> GraphCheckRun:
    return GraphCheckRun(target="loop.py:generate", step="Model", attempts=list(attempts), **rest)  # type: ignore[arg-type]


def test_segments_lie_between_what_no_graph_holds() -> None:
    found = segments_of(record(at(WORK, 1), VIEW, at(WORK, 2), READ, READ, at(WORK, 4)))
    assert [(each.operations, each.first.line, each.last.line) for each in found] == [
        (2, 1, 2),
        (1, 4, 4),
    ]
    assert [each.stopped_by for each in found] == ["aten::_local_scalar_dense", ""]
    assert found[0].stopped_at == PLACES[3]


def test_a_step_without_a_stop_is_one_segment() -> None:
    (only,) = segments_of(record(WORK, WORK))
    assert only.operations == 2
    assert only.stopped_at is None


def test_a_good_step_says_what_it_wins() -> None:
    found = checked(run(GOOD, whole_step=WholeStep(captured=True), record=record(WORK)))
    assert found.verdict == "captures"
    assert found.sentence == (
        "`Model` is captured, and its replay is the step: 50 ms a step become 5 ms, 10 times "
        "as fast."
    )
    assert found.segments == []


def test_a_good_step_in_a_loop_that_reads_names_the_line_and_the_parts() -> None:
    whole = WholeStep(captured=False, error=REFUSAL)
    found = checked(run(GOOD, whole_step=whole, record=record(at(WORK, 1), READ)))
    assert found.verdict == "captures"
    assert "the loop around it cannot be captured along at loop.py:3, `line 3`" in found.sentence
    assert found.whole_step_refusal is not None
    assert found.whole_step_refusal.op == "aten::_local_scalar_dense"
    assert [each.operations for each in found.segments] == [1]


def test_a_refused_step_is_refused_whatever_another_bucket_did() -> None:
    refused = Attempt(bucket="batch=2", error=REFUSAL)
    found = checked(run(GOOD, refused, record=record(at(WORK, 1), READ)))
    assert found.verdict == "refused"
    assert "“no value is read by the host” at loop.py:3" in found.sentence


def test_the_likeliest_cause_of_a_wrong_replay_comes_first() -> None:
    difference = Difference(name="the result", kind="output", input=2, text="all elements differ")
    counter = PythonChange(name="self.position", text="7 → 8", kind="value")
    cache = PythonChange(name="cache.keys", text="(7) → (8)", kind="tensor", grows=True)
    wrong = {"captured": True, "matches": False, "differences": [difference]}
    told = [
        checked(run(Attempt(**wrong, **rest))).sentence  # type: ignore[arg-type]
        for rest in (
            {"python_changes": [counter, cache]},
            {"python_changes": [counter]},
            {"changed_inputs": ["position: 7 → 8"], "python_changes": [counter]},
            {},
        )
    ]
    assert "`cache.keys` grows in each step" in told[0]
    assert "`self.position` changes in each step (7 → 8)" in told[1]
    assert "an input changes in each step (position: 7 → 8)" in told[2]
    assert "the result differs with the second input" in told[3]


def test_what_could_not_be_compared_is_no_answer() -> None:
    unknown = Attempt(captured=True, why_unknown="the step run twice gave two results")
    found = checked(run(unknown))
    assert found.verdict == "unknown"
    assert "could not tell; the step run twice gave two results" in found.sentence


def test_a_result_that_differs_with_replays_is_a_caveat() -> None:
    kept = Attempt(captured=True, matches=True, same_result=False)
    (caveat,) = checked(run(kept)).caveats
    assert "overwrites" in caveat
