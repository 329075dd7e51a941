from __future__ import annotations

from collections.abc import Callable

from decodeprof import mark
from decodeprof.diagnosis.judging import Clear, CouldNotTell
from tests.build import TraceBuilder
from tests.diagnosis.cases import busy, case, judge, look_up, loop, recording, texts, the_finding
from tests.scenarios import graph_loop

CODE = "no-kv-cache"


def lengths(query: Callable[[int], int], *, decode: int = 8) -> TraceBuilder:
    def body(b: TraceBuilder, index: int) -> None:
        look_up(b, query(index))
        busy(b, kernels=3)

    return loop(body, decode=decode)


def test_steps_that_process_one_token_more_each_time_are_found() -> None:
    finding = the_finding(CODE, case(lengths(lambda i: 17 + i), recording()))
    assert finding.summary == (
        "Each decode step processes the whole sequence: 17 tokens in the first step seen, 24 in "
        "the last, where 1 would do."
    )
    # 17 + 18 + … + 24
    assert "164 tokens were processed to make 8" in texts(finding)


def test_one_token_a_step_is_clear() -> None:
    assert judge(CODE, case(lengths(lambda _: 1), recording())) == Clear()
    assert judge(CODE, case(lengths(lambda _: 1, decode=2), recording())) == Clear()


def test_speculation_takes_several_tokens_up_and_down() -> None:
    assert judge(CODE, case(lengths(lambda i: 1 + i % 4), recording())) == Clear()
    assert judge(CODE, case(lengths(lambda _: 4), recording())) == Clear()


def test_a_graph_replays_one_length() -> None:
    assert judge(CODE, case(graph_loop(replays=8), recording())) == Clear()


def test_without_lengths_it_cannot_tell() -> None:
    what = case(loop(lambda b, _: busy(b)), recording())
    assert isinstance(judge(CODE, what), CouldNotTell)
    assert isinstance(judge(CODE, case(lengths(lambda i: 17 + i, decode=2))), CouldNotTell)


def on_a_cpu(query: Callable[[int], int]) -> TraceBuilder:
    b = TraceBuilder()
    for index in range(6):
        with (
            b.annotation(mark.label(mark.STEP, phase="decode")),
            b.op("aten::embedding", shapes=((1000, 64), (1, query(index)))),
        ):
            b.work(100_000)
    return b


def test_a_run_on_a_cpu_tells_as_well() -> None:
    of = recording(device=None)
    assert "17 tokens" in the_finding(CODE, case(on_a_cpu(lambda i: 17 + i), of)).summary
    assert judge(CODE, case(on_a_cpu(lambda _: 1), of)) == Clear()
