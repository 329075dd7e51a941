from __future__ import annotations

from decodeprof.diagnosis.judging import Clear, CouldNotTell, LeftTo
from decodeprof.recording import CompileInfo
from tests.build import TraceBuilder
from tests.diagnosis.cases import case, judge, loop, reading, recording, texts, the_finding
from tests.scenarios import decode_loop, graph_loop

CODE = "graph-missing"


def test_a_loop_of_small_kernels_would_be_shorter_as_one_graph() -> None:
    what = case(decode_loop(steps=8), recording())
    finding = the_finding(CODE, what)
    outcomes = what.predicted.outcomes
    assert outcomes is not None
    assert outcomes.cuda_graph is not None
    assert finding.saving_ns_per_step == outcomes.cuda_graph.saving_ns
    assert finding.severity == "high"
    # 1 + 6 × 4 + 1 + 1 kernels, and nothing else is launched but the copy of the token.
    assert finding.summary.startswith("27 launches make a step of ")
    assert finding.recommendations[0].verify.startswith(
        "`decodeprof diagnose my_script.py:generate`"
    )


def test_what_a_capture_would_meet_is_named() -> None:
    told = texts(the_finding(CODE, case(decode_loop(steps=8), recording())))
    assert "MEASURED blocking calls, none of which a graph can hold: `aten::item`" in told


def test_a_compiled_step_without_a_graph_is_named_as_such() -> None:
    def compiled(b: TraceBuilder, index: int) -> None:
        del index
        for _ in range(30):
            with b.op("triton_poi_fused_add_0", before_ns=8_000):
                b.launch("triton_poi_fused_add_0", 2_000)

    assert "the step is compiled, and runs without a graph" in texts(
        the_finding(CODE, case(loop(compiled)))
    )


def test_a_trace_alone_says_that_its_times_are_profiled() -> None:
    assert "in profiled time" in the_finding(CODE, case(decode_loop(steps=8))).summary


def test_a_step_that_the_device_bounds_wins_too_little() -> None:
    assert judge(CODE, case(loop(reading), recording())) == Clear()
    assert judge(CODE, case(decode_loop(steps=8, kernel_ns=400_000), recording())) == Clear()


def test_a_step_that_is_one_graph_has_one() -> None:
    assert judge(CODE, case(graph_loop(replays=8), recording())) == Clear()


def test_where_compile_was_asked_for_graphs_another_rule_says_why_there_is_none() -> None:
    of = recording(compile=CompileInfo(cudagraphs_asked=True))
    what = case(decode_loop(steps=8), of)
    assert judge(CODE, what) == LeftTo("graph-unused")
    the_finding("graph-unused", what)


def test_without_api_calls_it_cannot_tell() -> None:
    outcome = judge(CODE, case(decode_loop(steps=8), without=("calls",)))
    assert isinstance(outcome, CouldNotTell)
    assert "API calls" in outcome.reason
