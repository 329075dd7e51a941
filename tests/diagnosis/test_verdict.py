"""What a verdict blames, and when it blames nothing."""

from __future__ import annotations

from pathlib import Path

from decodeprof import units
from decodeprof.diagnosis.evidence import gather
from decodeprof.diagnosis.load import Loaded
from decodeprof.diagnosis.pipeline import analyze_path, diagnose
from decodeprof.diagnosis.verdict import Bound, judge, sentence_of
from decodeprof.model.diagnosis import Verdict
from decodeprof.model.trace import Trace
from decodeprof.recording import Run, Timing
from decodeprof.report.terminal import text
from decodeprof.report.view import view
from tests import write_nsys
from tests.build import TraceBuilder
from tests.diagnosis.cases import MS, US, case, loop, recording

LATE_NS = 500 * MS


def prefill(b: TraceBuilder, *, late_ns: int = 0) -> None:
    """Long kernels; the second may start late for no reason that the trace holds."""
    b.launch("the first", 3 * US)
    b.work(50 * US)
    b.launch("resolve_future_token_ids", 3 * US, late_ns=late_ns)
    for _ in range(20):
        b.launch("nvjet_sm90_tst", 1 * MS)


def verdict(b: TraceBuilder) -> Verdict:
    return case(b).diagnosis.verdict


def only(late_ns: int) -> TraceBuilder:
    return loop(lambda _b, _i: None, decode=0, prefill=lambda b: prefill(b, late_ns=late_ns))


def test_a_wait_that_nothing_explains_is_nobodys_fault() -> None:
    found = verdict(only(LATE_NS))
    assert found.bound_by == "unknown"
    assert found.sentence.startswith(
        "Cannot tell what bounds it: the one prefill here takes 520 ms"
    )
    assert found.sentence.endswith("of the 500 ms that it waits the capture does not say why.")


def test_without_the_wait_the_device_bounds_it() -> None:
    found = verdict(only(0))
    assert found.bound_by == "device"
    assert found.sentence.startswith("Device-bound: the one prefill here takes 20")


def test_a_prefill_alone_is_split_into_busy_and_idle_causes() -> None:
    shown = text(view(case(only(LATE_NS)).diagnosis), width=100)
    assert "Where the prefill's time goes" in shown
    assert "the capture does not say" in shown


def test_half_of_the_waiting_must_be_unknown() -> None:
    bound = Bound(
        step_ns=10 * MS,
        device_floor_ns=5 * MS,
        busy_ns=5 * MS,
        sync_saving_ns=None,
        host_saving_ns=None,
        bytes_ns=None,
        flops_ns=None,
        unknown_idle_share=0.5,
    )
    assert judge(bound) == "launch"
    told = sentence_of("launch", bound, launching="launch 3 kernels", what="it", timed="")
    assert told.startswith("Launch-bound")


def sentence_without_steps(*runs: Run) -> str:
    timed = recording(device=None, timing=Timing(method="none", runs=list(runs)))
    loaded = Loaded(trace=Trace.nothing("trace"), recording=timed, name="synthetic")
    return diagnose(gather(loaded)).verdict.sentence


def test_a_call_whose_steps_were_not_seen_is_told_as_a_whole() -> None:
    runs = [Run(total_ns=ms * MS, tokens=6) for ms in (130, 123, 110)]
    assert sentence_without_steps(*runs) == (
        "Cannot tell per step: a call takes 123 ms for 6 tokens, unprofiled; where its steps begin "
        "was not seen."
    )
    assert "did the call make any tokens?" in sentence_without_steps(Run(total_ns=MS))


def test_a_host_that_is_outside_the_api_is_told_of_where_nothing_else_was_recorded(
    tmp_path: Path,
) -> None:
    b = TraceBuilder()
    for _ in range(4):
        b.launch("saxpy", 20 * US)
        b.work(980 * US)
    path = write_nsys.write(tmp_path / "report.sqlite", write_nsys.as_nsys_sees(b.build()))
    assert analyze_path(path).diagnosis.verdict.sentence.endswith(
        "of the rest no CUDA call is under way, and what the host does then was not recorded."
    )
    # With operators the same gaps have a cause of their own.
    with b.op("aten::mul"):
        b.launch("mul", 20 * US)
    assert "was not recorded" not in verdict(b).sentence


def test_what_comes_in_every_fourth_step_counts_in_the_mean_of_four() -> None:
    def step(b: TraceBuilder, index: int) -> None:
        for _ in range(20):
            b.work(2 * US)
            b.launch("nvjet_sm90_tst", 50 * US)
        if index % 4 == 3:
            b.sync(stream=7)
            b.work(800 * US)

    diagnosis = case(loop(step, decode=24)).diagnosis
    assert diagnosis.verdict.bound_by == "sync"
    assert "each decode step, in the mean of 4, takes" in diagnosis.verdict.sentence
    step_ns, without = diagnosis.replay.step_ns, diagnosis.what_if.no_syncs
    assert step_ns is not None
    assert without is not None
    saved_ns = step_ns - without.step_ns.expected
    assert saved_ns > 100 * US
    shown = text(view(diagnosis), width=100)
    (row,) = (each for each in shown.splitlines() if "no blocking calls" in each)
    assert row.endswith(units.time(saved_ns))
