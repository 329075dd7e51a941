from __future__ import annotations

from decodeprof.diagnosis.judging import Clear, CouldNotTell
from tests.build import TraceBuilder
from tests.diagnosis.cases import (
    US,
    busy,
    case,
    judge,
    loop,
    read,
    recording,
    slow,
    texts,
    the_finding,
)

CODE = "host-after-sync"


def detokenising(b: TraceBuilder, index: int) -> None:
    del index
    busy(b)
    read(b, after_ns=200 * US)
    with b.op("aten::add", before_ns=50 * US):
        pass


def prompt_again(b: TraceBuilder, index: int) -> None:
    del index
    busy(b)
    read(b, after_ns=5 * US)


def test_what_the_host_did_after_the_wait_is_named() -> None:
    finding = the_finding(CODE, case(loop(detokenising), recording()))
    assert finding.summary.startswith(
        "After engine.py:12 the device is idle for 257 µs a step, 39 % of it"
    )
    told = texts(finding)
    assert "200 µs in Python" in told
    assert "Python functions in it: engine.py(30): append" in told
    assert "`aten::add`" in told
    assert [where.line for where in finding.where] == [12]
    # No replay was made of it: there is no number to give.
    assert finding.saving_ns_per_step is None


def test_without_ops_python_and_dispatch_are_told_together() -> None:
    told = texts(the_finding(CODE, case(loop(detokenising), without=("ops",))))
    assert "in Python and framework ops" in told


def test_a_host_that_launches_at_once_is_clear() -> None:
    assert judge(CODE, case(loop(prompt_again), recording())) == Clear()


def test_a_host_that_is_always_late_is_not_blamed_on_the_wait() -> None:
    assert judge(CODE, case(loop(slow), recording())) == Clear()


def test_without_api_calls_it_cannot_tell() -> None:
    outcome = judge(CODE, case(loop(detokenising), without=("calls",)))
    assert isinstance(outcome, CouldNotTell)
