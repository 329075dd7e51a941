"""What a person reads of a capture that was tried."""

from __future__ import annotations

from decodeprof.analysis.graph_checked import checked
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
from decodeprof.report.graph_check import graph_check_view
from decodeprof.report.terminal import text

CUDA = TensorRef(1, (4,), "float32", "cuda:0")
PLACE = Place(file="loop.py", line=12, function="generate", code="token = int(logits.argmax())")
ERROR = CaptureError(
    kind="AcceleratorError",
    message="CUDA error: operation not permitted when stream is capturing\nand more",
    phase="capture",
    place=PLACE,
)
READ = OpCall(
    name="aten::_local_scalar_dense",
    inputs=(CUDA,),
    wait="the host reads a value that the device computes",
)
WORK = OpCall(name="aten::mm", inputs=(CUDA,), outputs=(CUDA,))


def shown(run: GraphCheckRun) -> str:
    return text(graph_check_view(checked(run)), width=100)


def record(*calls: OpCall) -> OpRecord:
    step = StepOps(step=1, calls=calls)
    return OpRecord(first=step, second=step, places=(PLACE,))


def test_a_refusal_shows_error_line_rule_and_change() -> None:
    run = GraphCheckRun(
        target="loop.py:generate",
        step="decode",
        device="H200",
        attempts=[Attempt(error=ERROR)],
        record=record(WORK, READ, WORK),
    )
    out = shown(run)
    assert "cannot be captured" in out
    assert "token = int(logits.argmax())" in out
    assert "AcceleratorError: CUDA error: operation not permitted when stream is capturing" in out
    assert "and more" not in out
    assert "_local_scalar_dense" in out
    assert "no value is read by the host" in out
    assert "keep the value on the device" in out
    assert "Parts of the whole step that can be captured" in out


def test_each_bucket_has_its_row_and_its_spread() -> None:
    times = StepTimes(median_ns=5_000_000, p10_ns=4_900_000, p90_ns=5_200_000, n=20)
    attempts = [
        Attempt(
            bucket=f"batch={size}",
            captured=True,
            matches=True,
            before=times,
            after=times,
            capture_seconds=0.25,
            pool_bytes=2_000_000,
        )
        for size in (1, 2)
    ]
    out = shown(GraphCheckRun(target="t", step="decode", attempts=attempts, record=record(WORK)))
    for row in ("batch=1", "batch=2"):
        (one,) = [each for each in out.splitlines() if row in each]
        assert "right" in one.split()
        assert "0.25 s" in one
    assert "before 4.90 ms to 5.20 ms, n = 20" in out


def test_a_wrong_replay_lists_what_differs_and_what_python_changed() -> None:
    attempt = Attempt(
        captured=True,
        matches=False,
        differences=[Difference(name="the result", kind="output", input=2, text="100 % differ")],
        python_changes=[PythonChange(name="self.position", text="7 → 8", kind="value")],
        static_inputs=["tokens"],
        static_input_bytes=8,
    )
    run = GraphCheckRun(
        target="t", step="decode", attempts=[attempt], whole_step=WholeStep(captured=True)
    )
    out = shown(run)
    assert "a replay is not the step" in out
    assert "the result (output, input 2): 100 % differ" in out
    assert "Python: self.position 7 → 8" in out
    assert "inputs that need a buffer which stays (8 B): tokens" in out
    assert "two consecutive steps were not recorded" in out


def test_hostile_names_change_no_structure() -> None:
    change = PythonChange(name="\x1b[31mred[/red]\n</script>", text="a → b", kind="value")
    attempt = Attempt(captured=True, matches=False, python_changes=[change])
    out = shown(GraphCheckRun(target="t\x1b[2J", step="s", attempts=[attempt]))
    assert "\x1b" not in out
    assert "</script>" in out
