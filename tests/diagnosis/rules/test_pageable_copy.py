from __future__ import annotations

from decodeprof.diagnosis.judging import Clear, CouldNotTell, LeftTo
from tests.build import TraceBuilder
from tests.diagnosis.cases import (
    US,
    busy,
    case,
    judge,
    loop,
    recording,
    slow,
    texts,
    the_finding,
)

CODE = "pageable-copy"
PAGEABLE = "Memcpy HtoD (Pageable -> Device)"
PINNED = "Memcpy HtoD (Pinned -> Device)"


def make_tensor(b: TraceBuilder, *, name: str = PAGEABLE, waits: bool = True) -> None:
    with b.frame("engine.py(8): positions"), b.op("aten::to"):
        b.copy(1 * US, name=name, size=64)
        if waits:
            b.sync(stream=7)
    b.work(30 * US)


def copying(b: TraceBuilder, index: int) -> None:
    del index
    busy(b)
    make_tensor(b)


def staged(b: TraceBuilder, index: int) -> None:
    del index
    busy(b)
    make_tensor(b, waits=False)


def pinned(b: TraceBuilder, index: int) -> None:
    del index
    busy(b)
    make_tensor(b, name=PINNED)


def slow_and_copying(b: TraceBuilder, index: int) -> None:
    slow(b, index)
    make_tensor(b)


def test_a_tensor_made_on_the_host_is_found_with_its_line_and_size() -> None:
    finding = the_finding(CODE, case(loop(copying), recording()))
    assert finding.summary == "1 × a step data is copied from pageable host memory (64 B)."
    assert [where.line for where in finding.where] == [8]
    assert "by `aten::to`: the host waits for it at engine.py:8, which costs" in texts(finding)
    # The saving is said once, with the site.
    assert finding.saving_ns_per_step is None
    the_finding("sync-site", case(loop(copying), recording()))


def test_a_copy_that_does_not_wait_is_staged_all_the_same() -> None:
    finding = the_finding(CODE, case(loop(staged), recording()))
    assert "did not wait" in texts(finding)
    assert finding.where == []


def test_a_copy_from_pinned_memory_is_as_it_should_be() -> None:
    assert judge(CODE, case(loop(pinned), recording())) == Clear()


def test_a_copy_whose_wait_costs_nothing_is_left_to_the_harmless_ones() -> None:
    what = case(loop(slow_and_copying), recording())
    assert judge(CODE, what) == LeftTo("sync-harmless")
    assert "engine.py:8" in the_finding("sync-harmless", what).summary


def test_without_api_calls_it_cannot_tell() -> None:
    assert isinstance(judge(CODE, case(loop(copying), without=("calls",))), CouldNotTell)
