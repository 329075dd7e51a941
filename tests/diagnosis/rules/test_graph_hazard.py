from __future__ import annotations

from pathlib import Path

import pytest

from decodeprof.diagnosis.judging import Clear, CouldNotTell, LeftTo
from decodeprof.errors import InputError
from decodeprof.model.ops import OpCall, OpRecord, Place, StepOps, TensorRef
from decodeprof.recording import (
    OPS_FILE,
    PassReport,
    Site,
    SyncEvent,
    SyncPass,
    read_operations,
    write_operations,
)
from tests.build import TraceBuilder
from tests.diagnosis.cases import case, found, judge, loop, reading, recording, texts, the_finding
from tests.scenarios import decode_loop, graph_loop

CODE = "graph-hazard"
PLACES = tuple(
    Place(file="engine.py", line=line, function="step", code=f"line {line}") for line in (12, 30)
)
STATE = TensorRef(1, (1, 4), "float32", "cuda:0")
NOTHING_SEEN = SyncPass(steps=6)


def add(number: int, *, into: TensorRef = STATE, **more: object) -> OpCall:
    """``state.add_(number)``."""
    return OpCall(
        name="aten::add_.Scalar",
        inputs=(into,),
        outputs=(into,),
        scalars=(str(number),),
        **more,  # type: ignore[arg-type]
    )


def steps(first: list[OpCall], second: list[OpCall]) -> OpRecord:
    return OpRecord(
        first=StepOps(step=3, calls=tuple(first), forward_calls=len(first)),
        second=StepOps(step=4, calls=tuple(second), forward_calls=0),
        places=PLACES,
    )


def eager() -> TraceBuilder:
    return decode_loop(steps=8)


def test_a_baked_number_is_named_with_its_line_and_the_change() -> None:
    ops = steps([add(8)], [add(9)])
    finding = the_finding(CODE, case(eager(), recording(gpu_trace=NOTHING_SEEN), ops=ops))
    assert finding.summary == (
        "1 line of the decode step would replay wrongly in a CUDA graph of it, with no error."
    )
    assert "engine.py:12, in the loop, after the forward: add_ is given 8 → 9" in texts(finding)
    assert [(each.file, each.line) for each in finding.where] == [("engine.py", 12)]
    [advice] = finding.recommendations
    assert advice.what.startswith("Keep the value in a tensor on the device")
    assert "baked into the graph" in advice.how
    assert finding.saving_ns_per_step is None


def test_what_refuses_stands_apart_from_what_replays_wrongly() -> None:
    host = TensorRef(2, (4,), "float32", "cpu")
    copy = OpCall(name="aten::copy_.default", inputs=(STATE, host), outputs=(STATE,), place=1)
    ops = steps([add(8), copy], [add(9), copy])
    both = found(CODE, case(eager(), recording(gpu_trace=NOTHING_SEEN), ops=ops))
    assert [finding.where[0].line for finding in both] == [30, 12]
    assert "capture of a CUDA graph of it fail" in both[0].summary


def test_blocking_calls_are_those_that_were_seen() -> None:
    site = Site(file="engine.py", line=30, function="step", code="int(token)")
    seen = SyncPass(
        sites=[site],
        events=[SyncEvent(step=step, site=0, kind="stream") for step in range(9)],
        steps=8,
    )
    predicted = add(1, wait="the host reads a value")
    ops = steps([predicted], [predicted])
    finding = the_finding(CODE, case(loop(reading), recording(gpu_trace=seen), ops=ops))
    assert [each.line for each in finding.where] == [30]
    assert "MEASURED engine.py:30: waits for the device" in texts(finding)
    # Where nobody looked, what the operators themselves say stands.
    finding = the_finding(CODE, case(eager(), recording(), ops=ops))
    assert [each.line for each in finding.where] == [12]


def test_two_equal_steps_stand_against_nothing() -> None:
    ops = steps([add(8)], [add(8)])
    assert judge(CODE, case(eager(), recording(gpu_trace=NOTHING_SEEN), ops=ops)) == Clear()


def test_a_step_that_is_a_graph_already_is_another_rules() -> None:
    of = recording(gpu_trace=NOTHING_SEEN)
    ops = steps([add(8)], [add(9)])
    assert judge(CODE, case(graph_loop(replays=8), of, ops=ops)) == LeftTo("graph-unused")


def test_without_the_operations_it_cannot_tell() -> None:
    outcome = judge(CODE, case(eager()))
    assert isinstance(outcome, CouldNotTell)
    assert "a trace does not say" in outcome.reason
    skipped = PassReport(name="operations", status="skipped", reason="the target is compiled")
    outcome = judge(CODE, case(eager(), recording(passes=[skipped])))
    assert isinstance(outcome, CouldNotTell)
    assert outcome.reason == "the target is compiled"


def test_operations_are_written_and_read_back(tmp_path: Path) -> None:
    ops = steps([add(8)], [add(9)])
    assert read_operations(tmp_path) is None
    write_operations(tmp_path, ops)
    assert read_operations(tmp_path) == ops
    (tmp_path / OPS_FILE).write_bytes(b"\x1f\x8b cut short")
    with pytest.raises(InputError, match="damaged"):
        read_operations(tmp_path)
