from __future__ import annotations

from decodeprof.diagnosis.judging import Clear, CouldNotTell
from decodeprof.recording import Device
from tests.build import TraceBuilder
from tests.diagnosis.cases import (
    US,
    busy,
    case,
    judge,
    loop,
    recording,
    texts,
    the_finding,
    timing,
)

CODE = "one-off-costs"


def allocating_once(cost_ns: int) -> TraceBuilder:
    def body(b: TraceBuilder, index: int) -> None:
        busy(b)
        if index == 3:
            b.call("cudaMalloc", cost_ns)

    return loop(body)


def slow_at_first(b: TraceBuilder, index: int) -> None:
    busy(b, ns=100 * US if index == 0 else 20 * US)


def test_a_step_that_did_something_once_is_found_with_what_it_cost() -> None:
    finding = the_finding(CODE, case(allocating_once(2_000 * US), recording()))
    # The host had run ahead by four steps less their launches when it began to allocate.
    assert finding.summary == (
        "1 decode step took 680 µs more than the median step, in profiled time."
    )
    assert "step 3: " in texts(finding)
    assert "one-off work: it allocated device memory" in texts(finding)
    assert finding.saving_ns_per_step is None


def test_one_off_work_that_took_no_time_is_not_worth_a_word() -> None:
    assert judge(CODE, case(allocating_once(10 * US), recording())) == Clear()


def test_a_slow_first_step_of_a_trace_is_found() -> None:
    assert "1 decode step took" in the_finding(CODE, case(loop(slow_at_first))).summary


def test_where_unprofiled_calls_are_known_they_tell_of_the_first_step() -> None:
    alike = recording(timing=timing([400 * US] * 8))
    assert judge(CODE, case(loop(slow_at_first), alike)) == Clear()
    slow = recording(timing=timing([2_000 * US, *[400 * US] * 7]))
    assert the_finding(CODE, case(loop(slow_at_first), slow)).summary == (
        "The first decode step of a call takes 2 ms where the median step takes 400 µs."
    )


def test_a_last_step_that_the_calls_end_cuts_short_makes_no_first_one_slow() -> None:
    cut = recording(timing=timing([50_000 * US, 50_000 * US, 300 * US]))
    assert judge(CODE, case(loop(slow_at_first), cut)) == Clear()


def test_a_loop_of_equal_steps_is_clear() -> None:
    assert judge(CODE, case(loop(lambda b, _: busy(b)), recording())) == Clear()


def test_without_a_gpu_or_times_it_cannot_tell() -> None:
    b = TraceBuilder()
    with b.op("aten::mm"):
        pass
    assert isinstance(judge(CODE, case(b, recording(device=None))), CouldNotTell)
    assert isinstance(judge(CODE, case(b, recording(device=Device(name="x")))), CouldNotTell)
