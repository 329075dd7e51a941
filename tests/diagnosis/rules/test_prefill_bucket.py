from __future__ import annotations

from decodeprof.diagnosis.judging import Clear, CouldNotTell
from decodeprof.recording import Run, Timing
from tests.build import TraceBuilder
from tests.diagnosis.cases import US, busy, case, judge, loop, recording, texts, the_finding

CODE = "prefill-bucket"


def small(b: TraceBuilder) -> None:
    for _ in range(20):
        with b.op("aten::mm", before_ns=20 * US):
            b.launch("nvjet_sm90_tst", 3 * US)


def as_graph(b: TraceBuilder) -> None:
    b.work(300 * US)
    b.graph([("nvjet_sm90_tst", 3 * US)] * 20)


def decode(b: TraceBuilder, index: int) -> None:
    del index
    busy(b)


def test_a_prefill_of_small_kernels_is_held_up_by_its_launches() -> None:
    finding = the_finding(CODE, case(loop(decode, prefill=small), recording()))
    assert finding.summary.startswith("The prefill takes ")
    assert "in profiled time, and the device works 60 µs of it: 20 launches" in finding.summary
    # 20 kernels of 3 µs and 20 gaps of 400 ns.
    assert "would take 68 µs, assuming 400 ns between two" in texts(finding)
    assert finding.saving_ns_per_step is None


def test_the_unprofiled_first_token_is_what_counts() -> None:
    runs = [Run(total_ns=10_000 * US, steps=8, ttft_ns=100 * US, step_ns=[400 * US] * 8)]
    of = recording(timing=Timing(method="cuda_events", runs=runs))
    # 60 of 100 µs are busy: the host is not what it waits for.
    assert judge(CODE, case(loop(decode, prefill=small), of)) == Clear()


def test_what_the_loop_does_after_its_first_token_does_not_hold_the_prefill_up() -> None:
    runs = [
        Run(
            total_ns=90_000 * US,
            steps=8,
            ttft_ns=50_000 * US,
            first_token_ns=100 * US,
            first_token_by="forward",
            step_ns=[400 * US] * 8,
        )
    ]
    of = recording(timing=Timing(method="cuda_events", runs=runs))
    assert judge(CODE, case(loop(decode, prefill=small), of)) == Clear()


def test_a_prefill_of_large_kernels_or_of_one_graph_is_clear() -> None:
    what = case(loop(decode, prefill=lambda b: busy(b, ns=500 * US)), recording())
    assert judge(CODE, what) == Clear()
    assert judge(CODE, case(loop(decode, prefill=as_graph), recording())) == Clear()


def late_start(b: TraceBuilder) -> None:
    """A kernel that starts half a second after its launch arrived, and nothing says why."""
    b.launch("the first", 3 * US)
    b.work(50 * US)
    b.launch("resolve_future_token_ids", 3 * US, late_ns=500_000 * US)
    small(b)


def test_a_wait_that_nothing_explains_is_not_blamed_on_launches() -> None:
    outcome = judge(CODE, case(loop(decode, prefill=late_start), recording()))
    assert isinstance(outcome, CouldNotTell)
    assert "of the time that the device waits in the prefill" in outcome.reason


def test_without_a_prefill_it_cannot_tell() -> None:
    outcome = judge(CODE, case(loop(decode), recording()))
    assert isinstance(outcome, CouldNotTell)
    assert outcome.reason == "no prefill is in the capture"
