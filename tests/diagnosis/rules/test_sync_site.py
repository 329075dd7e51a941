from __future__ import annotations

import pytest

from decodeprof.diagnosis.judging import Clear, CouldNotTell
from decodeprof.model.diagnosis import Where
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

CODE = "sync-site"


def never_reading(b: TraceBuilder, index: int) -> None:
    del index
    busy(b)
    b.work(40 * US)


def test_the_saving_is_what_the_same_loop_without_the_wait_saves() -> None:
    with_read = case(loop(reading), recording())
    without = case(loop(never_reading), recording())
    finding = the_finding(CODE, with_read)
    assert finding.saving_ns_per_step is not None
    assert with_read.diagnosis.step is not None
    assert without.diagnosis.step is not None
    assert with_read.diagnosis.step.profiled_ns is not None
    assert without.diagnosis.step.profiled_ns is not None
    truth = with_read.diagnosis.step.profiled_ns - without.diagnosis.step.profiled_ns
    assert finding.saving_ns_per_step.expected == pytest.approx(truth, abs=5 * US)
    assert finding.severity == "medium"


def test_it_names_the_line_and_advises_a_late_read() -> None:
    finding = the_finding(CODE, case(loop(reading), recording()))
    assert finding.where == [Where(file="engine.py", line=12, function="generate")]
    assert finding.summary.startswith("engine.py:12 (aten::item) blocks the host 1 × a step")
    assert "one step late" in finding.recommendations[0].what
    assert "MEASURED" in texts(finding)
    assert "MODELLED assumes the wait takes no time" in texts(finding)


def test_each_site_has_its_own_finding_and_advice() -> None:
    def twice(b: TraceBuilder, index: int) -> None:
        busy(b)
        with b.frame("engine.py(20): mask"), b.op("aten::nonzero"):
            b.launch("cub_scan", 2 * US)
            b.sync(stream=7)
        b.work(60 * US)
        reading(b, index)

    findings = found(CODE, case(loop(twice), recording()))
    assert {finding.where[0].line for finding in findings} == {12, 20}
    advice = {finding.where[0].line: finding.recommendations[0].how for finding in findings}
    assert "torch.where" in advice[20]
    assert "pinned" in advice[12]


def test_a_bare_device_synchronisation_is_named_by_its_call() -> None:
    def synchronising(b: TraceBuilder, index: int) -> None:
        del index
        busy(b)
        b.sync("cudaDeviceSynchronize")
        b.work(60 * US)

    finding = the_finding(CODE, case(loop(synchronising), recording()))
    assert "`cudaDeviceSynchronize` blocks the host" in finding.summary
    assert "torch.cuda.synchronize()" in finding.recommendations[0].how
    assert finding.where == []


def test_a_wait_behind_a_slow_host_costs_nothing() -> None:
    assert judge(CODE, case(loop(slow), recording())) == Clear()


def test_a_long_wait_after_which_nothing_is_late_is_not_worth_removing() -> None:
    def tail(b: TraceBuilder, index: int) -> None:
        del index
        busy(b, kernels=2, ns=3_000 * US)
        read(b, after_ns=5 * US)

    # The call lasts 6 ms, and the device idles some 20 µs behind it.
    assert judge(CODE, case(loop(tail), recording())) == Clear()


def test_a_loop_without_waits_has_no_site() -> None:
    assert judge(CODE, case(loop(never_reading), recording())) == Clear()


def test_without_api_calls_it_cannot_tell() -> None:
    assert isinstance(judge(CODE, case(loop(reading), without=("calls",))), CouldNotTell)
