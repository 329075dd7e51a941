from __future__ import annotations

from decodeprof.diagnosis.judging import Clear, CouldNotTell
from tests.build import TraceBuilder
from tests.diagnosis.cases import (
    US,
    busy,
    case,
    found,
    judge,
    loop,
    read,
    reading,
    recording,
    slow,
    texts,
    the_finding,
)

CODE = "sync-harmless"


def test_a_wait_that_returns_at_once_is_said_to_be_harmless() -> None:
    finding = the_finding(CODE, case(loop(slow), recording()))
    assert "1 blocking call a step, harmless here: engine.py:12;" in finding.summary
    assert finding.severity == "info"
    assert finding.saving_ns_per_step is None
    assert "MODELLED engine.py:12 (aten::item): 1 × a step, removing it saves" in texts(finding)


def test_beside_a_costly_site_only_the_harmless_one_is_named() -> None:
    def both(b: TraceBuilder, index: int) -> None:
        with b.frame("engine.py(5): check"), b.op("aten::is_nonzero"):
            b.copy(1 * US, name="Memcpy DtoH (Device -> Pageable)")
            b.sync(stream=7, return_ns=500)
        del index
        busy(b, ns=200 * US)
        read(b, after_ns=100 * US)

    what = case(loop(both), recording())
    [costly] = found("sync-site", what)
    [where] = the_finding(CODE, what).where
    assert (costly.where[0].line, where.line) == (12, 5)


def test_a_costly_wait_is_not_harmless() -> None:
    assert judge(CODE, case(loop(reading), recording())) == Clear()


def test_no_wait_is_not_a_harmless_wait() -> None:
    assert judge(CODE, case(loop(lambda b, _: busy(b)), recording())) == Clear()


def test_without_api_calls_it_cannot_tell() -> None:
    assert isinstance(judge(CODE, case(loop(slow), without=("calls",))), CouldNotTell)
