from __future__ import annotations

from decodeprof.diagnosis.judging import Clear, CouldNotTell
from decodeprof.model.diagnosis import Where
from decodeprof.recording import CompileInfo, CudagraphSkip
from tests.build import TraceBuilder
from tests.diagnosis.cases import US, case, judge, loop, recording, texts, the_finding
from tests.scenarios import decode_loop, graph_loop

CODE = "graph-unused"
SKIPPED = CompileInfo(
    cudagraphs_asked=True,
    cudagraph_skips=[
        CudagraphSkip(
            reason="skipping cudagraphs due to mutated inputs (2 instances)",
            where="engine.py:88",
            count=3,
        )
    ],
    graph_breaks=["Tensor.item() (× 2)"],
)


def nodes(count: int) -> list[tuple[str, int]]:
    return [(f"node_{n % 7}", 2 * US) for n in range(count)]


def pieces(b: TraceBuilder, index: int) -> None:
    del index
    for _ in range(3):
        b.work(30 * US)
        b.graph(nodes(20))


def partly(b: TraceBuilder, index: int) -> None:
    del index
    b.graph(nodes(20))
    for _ in range(20):
        with b.op("aten::add"):
            b.launch("vectorized_elementwise_kernel", 2 * US)


def test_what_compile_logged_is_quoted_with_its_line() -> None:
    finding = the_finding(CODE, case(decode_loop(steps=8), recording(compile=SKIPPED)))
    assert finding.where == [Where(file="engine.py", line=88)]
    told = texts(finding)
    assert "compile logged 3 times: skipping cudagraphs due to mutated inputs" in told
    assert "graph break: Tensor.item()" in told
    assert finding.saving_ns_per_step is not None
    assert finding.severity == "high"
    assert "mark_static_address" in finding.recommendations[0].how


def test_other_reasons_get_other_advice() -> None:
    of = recording(
        compile=CompileInfo(
            cudagraphs_asked=True,
            cudagraph_skips=[CudagraphSkip(reason="skipping cudagraphs due to cpu device (x)")],
        )
    )
    how = the_finding(CODE, case(decode_loop(steps=8), of)).recommendations[0].how
    assert "mark_static_address" not in how
    assert "CPU tensors" in how


def test_several_graphs_a_step_are_pieces_of_one() -> None:
    of = recording(compile=CompileInfo(cudagraphs_asked=True, partitions=3))
    finding = the_finding(CODE, case(loop(pieces), of))
    assert finding.summary == "A step takes 3 graph launches: it is captured in pieces."
    assert "3 partitions" in texts(finding)
    assert finding.saving_ns_per_step is not None


def test_pieces_are_seen_in_a_trace_alone() -> None:
    assert "3 graph launches" in the_finding(CODE, case(loop(pieces))).summary


def test_a_step_with_half_its_kernels_outside_its_graph_is_found() -> None:
    finding = the_finding(CODE, case(loop(partly)))
    assert finding.summary == "20 of a step's 40 kernels are launched outside its CUDA graph."


def test_one_graph_a_step_is_what_was_asked_for() -> None:
    assert judge(CODE, case(graph_loop(replays=8), recording(compile=SKIPPED))) == Clear()


def test_who_did_not_ask_for_graphs_misses_none() -> None:
    assert judge(CODE, case(decode_loop(steps=8), recording())) == Clear()
    of = recording(compile=CompileInfo(cudagraphs_asked=False))
    assert judge(CODE, case(decode_loop(steps=8), of)) == Clear()


def test_a_trace_without_graphs_does_not_say_what_was_asked_for() -> None:
    outcome = judge(CODE, case(decode_loop(steps=8)))
    assert isinstance(outcome, CouldNotTell)
    assert "asked for" in outcome.reason
