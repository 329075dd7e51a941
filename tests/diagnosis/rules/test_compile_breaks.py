from __future__ import annotations

from decodeprof.diagnosis.judging import Case, Clear, CouldNotTell
from decodeprof.model.diagnosis import Where
from decodeprof.recording import CompileEvent, CompileInfo
from tests.diagnosis.cases import case, judge, recording, texts, the_finding
from tests.scenarios import decode_loop

CODE = "compile-breaks"
BREAK = CompileEvent(
    kind="graph_break",
    reason="Unsupported Tensor.item() call",
    where="engine.py:40",
    function="step",
    count=3,
)


def again(number: int, *, function: str = "step") -> CompileEvent:
    return CompileEvent(
        kind="recompile", reason=f"n == {number}", where="engine.py:12", function=function
    )


def with_events(*events: CompileEvent, **more: object) -> Case:
    info = CompileInfo(events=list(events), **more)  # type: ignore[arg-type]
    return case(decode_loop(steps=8), recording(compile=info))


def test_a_break_is_named_with_its_line() -> None:
    finding = the_finding(CODE, with_events(BREAK))
    assert finding.summary == "torch.compile breaks its graph at 1 line."
    assert finding.where == [Where(file="engine.py", line=40, function="step")]
    assert "graph break at engine.py:40 (× 3): Unsupported Tensor.item() call" in texts(finding)
    assert "fullgraph=True" in finding.recommendations[0].how


def test_recompiles_beyond_the_first_are_named() -> None:
    finding = the_finding(CODE, with_events(again(0), again(1)))
    assert finding.summary == "torch.compile compiles 1 function again 2 times."
    assert "since a guard failed at engine.py:12: n == 1" in texts(finding)


def test_one_recompile_of_each_function_is_usual() -> None:
    what = with_events(again(0), again(0, function="head"))
    assert judge(CODE, what) == Clear()


def test_who_compiles_nothing_breaks_nothing() -> None:
    assert judge(CODE, case(decode_loop(steps=8), recording())) == Clear()


def test_without_lines_or_logs_it_cannot_tell() -> None:
    assert isinstance(judge(CODE, case(decode_loop(steps=8))), CouldNotTell)
    old = with_events(graph_breaks=["Tensor.item()"])
    assert isinstance(judge(CODE, old), CouldNotTell)
