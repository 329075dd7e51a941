from __future__ import annotations

from decodeprof.diagnosis.judging import Clear, CouldNotTell, LeftTo
from tests.build import TraceBuilder
from tests.diagnosis.cases import (
    US,
    busy,
    case,
    judge,
    loop,
    reading,
    recording,
    slow,
    texts,
    the_finding,
)

CODE = "blocking-read"


def read_late(b: TraceBuilder, index: int) -> None:
    """The copy is queued, and the host waits for an event of the step before."""
    del index
    with b.op("aten::copy_"):
        b.copy(1 * US, name="Memcpy DtoH (Device -> Pinned)")
    b.call("cudaEventRecord", 500)
    busy(b)
    b.call("cudaEventSynchronize", 2 * US, blocks=True)


def test_a_read_that_opens_a_gap_is_found() -> None:
    finding = the_finding(CODE, case(loop(reading), recording()))
    assert finding.summary.startswith("1 × a step the host reads 8 B from the device")
    assert "into pageable memory by `aten::item` at engine.py:12; the wait costs" in texts(finding)
    assert [where.line for where in finding.where] == [12]
    assert "pin_memory=True" in finding.recommendations[0].how


def test_a_pinned_copy_that_is_read_a_step_later_is_as_it_should_be() -> None:
    assert judge(CODE, case(loop(read_late), recording())) == Clear()


def test_a_read_that_costs_nothing_is_left_to_the_harmless_ones() -> None:
    what = case(loop(slow), recording())
    assert judge(CODE, what) == LeftTo("sync-harmless")
    the_finding("sync-harmless", what)


def test_without_api_calls_it_cannot_tell() -> None:
    assert isinstance(judge(CODE, case(loop(reading), without=("calls",))), CouldNotTell)


def test_without_ops_the_wait_of_a_copy_is_not_known() -> None:
    def bare(b: TraceBuilder, index: int) -> None:
        del index
        busy(b)
        b.copy(1 * US, name="Memcpy DtoH (Device -> Pageable)")
        b.sync(stream=7)

    outcome = judge(CODE, case(loop(bare), recording(), without=("ops",)))
    assert isinstance(outcome, CouldNotTell)
    assert "operators" in outcome.reason
