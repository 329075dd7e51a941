from __future__ import annotations

from dataclasses import replace

import pytest

from decodeprof.diagnosis.evidence import gather
from decodeprof.diagnosis.judging import Case, Clear, CouldNotTell
from decodeprof.diagnosis.load import Loaded
from decodeprof.diagnosis.pipeline import case_of
from decodeprof.model.calls import CallKind
from tests.build import TraceBuilder
from tests.diagnosis.cases import US, busy, case, judge, loop, recording, texts, the_finding, timing
from tests.reading import trace_of

CODE = "data-quality"


def body(b: TraceBuilder, index: int) -> None:
    del index
    busy(b)


def with_kernels_lost(share: float) -> Case:
    """The loop, of whose kernels the last ones were not recorded."""
    trace = trace_of(loop(body).build())
    kept = round(len(trace.device) * (1 - share))
    trace = replace(trace, device=trace.device.take(trace.device.start_ns.argsort()[:kept]))
    return case_of(gather(Loaded(trace=trace, recording=recording(), name="synthetic")))


def test_a_sound_recording_is_clear() -> None:
    assert judge(CODE, case(loop(body), recording(timing=timing([390 * US] * 8)))) == Clear()


def test_a_high_dilation_is_named() -> None:
    finding = the_finding(CODE, case(loop(body), recording(timing=timing([200 * US] * 8))))
    assert "a profiled step takes 2 ×" in finding.summary
    assert finding.severity == "info"


def test_steps_that_scatter_are_named() -> None:
    samples = [us * US for us in (300, 300, 300, 400, 400, 500, 500, 500)]
    finding = the_finding(CODE, case(loop(body), recording(timing=timing(samples, samples))))
    assert "unprofiled steps scatter from 300 µs (p10) to 500 µs (p90)" in texts(finding)


@pytest.mark.parametrize("decode", [3, 4])
def test_few_steady_steps_are_named(decode: int) -> None:
    told = texts(the_finding(CODE, case(loop(body, decode=decode), recording())))
    # The first and the last step are never steady.
    assert f"{decode - 2} of {decode} decode steps {'is' if decode == 3 else 'are'} steady" in told


def test_launches_without_kernels_are_named() -> None:
    what = with_kernels_lost(0.05)
    launches = int((what.evidence.trace.calls.kind == CallKind.LAUNCH).sum())
    told = texts(the_finding(CODE, what))
    assert f"8 of {launches} launch calls have no device activity" in told


def test_one_lost_kernel_in_hundreds_is_the_end_of_a_profile() -> None:
    assert judge(CODE, with_kernels_lost(0.005)) == Clear()


def test_sets_of_no_bytes_are_no_lost_launches() -> None:
    def setting(b: TraceBuilder, index: int) -> None:
        body(b, index)
        b.call("cudaMemsetAsync", 1 * US)

    assert judge(CODE, case(loop(setting), recording())) == Clear()


def test_without_steps_it_cannot_tell() -> None:
    b = TraceBuilder()
    with b.op("aten::mm"):
        b.launch("nvjet", 5 * US)
    assert isinstance(judge(CODE, case(b)), CouldNotTell)
