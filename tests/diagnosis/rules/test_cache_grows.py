from __future__ import annotations

from collections.abc import Callable

from decodeprof.diagnosis.judging import Clear, CouldNotTell, LeftTo
from tests.build import TraceBuilder
from tests.diagnosis.cases import US, case, judge, look_up, loop, recording, texts, the_finding
from tests.scenarios import graph_loop

CODE = "cache-grows"
CAT = "void at::native::CatArrayBatchedCopy<float>"


def step(length: Callable[[int], int], query: Callable[[int], int] = lambda _: 1):  # type: ignore[no-untyped-def]
    """A step that concatenates keys of `length(index)` with the new ones, in ten layers."""

    def body(b: TraceBuilder, index: int) -> None:
        look_up(b, query(index))
        for _ in range(10):
            old, new = (1, 8, length(index), 64), (1, 8, 1, 64)
            with b.op("aten::cat", shapes=((old, new), ())):  # type: ignore[arg-type]
                b.launch(CAT, 2 * US)
            with b.op("aten::mm", shapes=((1, 64), (64, 64))):
                b.launch("gemv2T", 2 * US)

    return body


def test_a_cache_that_grows_by_one_each_step_is_found() -> None:
    finding = the_finding(CODE, case(loop(step(lambda i: 16 + i)), recording()))
    assert finding.summary.startswith(
        "10 concatenations a step make tensors that grow by 1 each time"
    )
    assert "10 × `aten::cat` a step: a tensor grows from [1, 8, 16, 64] to [1, 8, 23, 64]" in texts(
        finding
    )
    assert "index_copy_" in finding.recommendations[0].how
    assert finding.saving_ns_per_step is None


def test_the_graph_rule_says_that_a_static_cache_comes_first() -> None:
    what = case(loop(step(lambda i: 16 + i)), recording())
    assert "shapes that grow" in texts(the_finding("graph-missing", what))


def test_shapes_that_stay_are_clear() -> None:
    assert judge(CODE, case(loop(step(lambda _: 512)), recording())) == Clear()


def test_shapes_that_rise_and_fall_are_not_a_growing_cache() -> None:
    assert judge(CODE, case(loop(step(lambda i: 16 + i % 3)), recording())) == Clear()


def test_shapes_that_grew_once_are_not_a_growing_cache() -> None:
    assert judge(CODE, case(loop(step(lambda i: 16 + (i > 3))), recording())) == Clear()


def test_where_the_whole_sequence_is_processed_that_is_said_instead() -> None:
    what = case(loop(step(lambda i: 16 + i, lambda i: 16 + i)), recording())
    assert judge(CODE, what) == LeftTo("no-kv-cache")
    the_finding("no-kv-cache", what)


def test_a_step_that_is_one_graph_has_the_shapes_of_its_capture() -> None:
    assert judge(CODE, case(graph_loop(replays=8), recording())) == Clear()


def test_without_shapes_or_with_two_steps_it_cannot_tell() -> None:
    growing = step(lambda i: 16 + i)
    outcome = judge(CODE, case(loop(growing), without=("shapes",)))
    assert isinstance(outcome, CouldNotTell)
    assert "shapes" in outcome.reason
    outcome = judge(CODE, case(loop(growing, decode=2)))
    assert isinstance(outcome, CouldNotTell)
    assert "three" in outcome.reason
