from __future__ import annotations

from decodeprof.diagnosis.judging import Clear, CouldNotTell
from tests.build import TraceBuilder
from tests.diagnosis.cases import US, busy, case, judge, loop, recording, texts, the_finding

CODE = "at-the-roof"
# 1 × 4096 times 4096 × 12288: 100.7 MB, which 4 TB/s move in 25.2 µs.
VECTOR = ((1, 4096), (4096, 12288))
# 4096³ twice: 137 GFLOP, 172 µs at 800 TFLOP/s.
SQUARE = ((4096, 4096), (4096, 4096))


def products(shapes: tuple[tuple[int, ...], ...], ns: int, *, host_ns: int = 0) -> TraceBuilder:
    def body(b: TraceBuilder, index: int) -> None:
        del index
        b.work(host_ns)
        for _ in range(20):
            with b.op("aten::mm", shapes=shapes):
                b.launch("gemv2T", ns)

    return loop(body)


def test_a_step_near_its_bandwidth_is_told_what_is_left() -> None:
    finding = the_finding(CODE, case(products(VECTOR, 30 * US), recording()))
    assert finding.summary.startswith("The step is at 84 % of the device's bandwidth: 600 µs")
    assert "÷ 4 TB/s (measured on this device while recording)" in texts(finding)
    assert [advice.what for advice in finding.recommendations] == [
        "Move fewer bytes",
        "Let one pass over the weights serve more tokens",
    ]


def test_a_step_near_its_arithmetic_rate_is_told_so() -> None:
    finding = the_finding(CODE, case(products(SQUARE, 200 * US), recording()))
    assert "of the device's arithmetic rate" in finding.summary
    assert finding.recommendations[0].what == "Do fewer operations, or cheaper ones"


def test_slow_kernels_are_not_at_the_roof() -> None:
    assert judge(CODE, case(products(VECTOR, 50 * US), recording())) == Clear()


def test_fast_kernels_behind_a_slow_host_are_not_at_the_roof() -> None:
    assert judge(CODE, case(products(VECTOR, 30 * US, host_ns=2_000 * US), recording())) == Clear()


def test_without_shapes_it_cannot_tell() -> None:
    outcome = judge(CODE, case(loop(lambda b, _: busy(b)), recording()))
    assert isinstance(outcome, CouldNotTell)
