from __future__ import annotations

from dataclasses import replace

import msgspec

from decodeprof.diagnosis.judging import Clear, CouldNotTell
from tests.build import TraceBuilder
from tests.diagnosis.cases import US, busy, case, judge, loop, recording, texts, the_finding

CODE = "far-from-roof"
# 1 × 1024 times 1024 × 3072, two bytes each: 6.3 MB, which 4 TB/s move in 1.6 µs.
VECTOR = ((1, 1024), (1024, 3072))
# 2048³ twice: 17.2 GFLOP, which take 21 µs at 800 TFLOP/s; its 25 MB take 6.3 µs.
SQUARE = ((2048, 2048), (2048, 2048))


def products(
    shapes: tuple[tuple[int, ...], ...], ns: int, *, name: str = "gemv2T_kernel<float>"
) -> TraceBuilder:
    def body(b: TraceBuilder, index: int) -> None:
        del index
        for _ in range(20):
            with b.op("aten::mm", shapes=shapes):
                b.launch(name, ns)

    return loop(body)


def test_a_kernel_at_a_tenth_of_the_bandwidth_is_found() -> None:
    finding = the_finding(CODE, case(products(VECTOR, 16 * US), recording()))
    assert finding.summary == (
        "`gemv2T_kernel` takes 320 µs of device time a step, at 9.8 % of the roof."
    )
    told = texts(finding)
    assert "20 × a step, 16 µs each, 100 % of the device's time" in told
    assert "394 GB/s of 4 TB/s (measured on this device while recording)" in told
    assert "at the roof the same work takes 31.5 µs a step, 289 µs less" in told
    assert finding.saving_ns_per_step is None


def test_a_kernel_near_the_bandwidth_is_clear() -> None:
    assert judge(CODE, case(products(VECTOR, 3 * US), recording())) == Clear()


def test_a_kernel_near_the_arithmetic_rate_is_clear_though_it_moves_few_bytes() -> None:
    assert judge(CODE, case(products(SQUARE, 30 * US), recording())) == Clear()
    the_finding(CODE, case(products(SQUARE, 100 * US), recording()))


def test_a_product_too_small_for_any_kernel_is_left_alone() -> None:
    assert judge(CODE, case(products(((1, 64), (64, 64)), 4 * US), recording())) == Clear()


def test_while_the_host_bounds_the_step_it_says_so() -> None:
    def body(b: TraceBuilder, index: int) -> None:
        del index
        for _ in range(20):
            with b.op("aten::mm", before_ns=100 * US, shapes=VECTOR):
                b.launch("gemv2T", 16 * US)

    assert "the host bounds the step now" in texts(the_finding(CODE, case(loop(body), recording())))


def test_without_shapes_or_a_known_bandwidth_it_cannot_tell() -> None:
    outcome = judge(CODE, case(loop(lambda b, _: busy(b)), recording()))
    assert isinstance(outcome, CouldNotTell)
    assert "bytes" in outcome.reason
    what = case(products(VECTOR, 16 * US), recording())
    assert what.diagnosis.floors is not None
    floors = msgspec.structs.replace(what.diagnosis.floors, bandwidth_bytes_per_s=None)
    unknown = msgspec.structs.replace(what.diagnosis, floors=floors)
    outcome = judge(CODE, replace(what, diagnosis=unknown))
    assert isinstance(outcome, CouldNotTell)
    assert "bandwidth" in outcome.reason


def test_one_kernel_of_unknown_bytes_keeps_the_others_from_clearing_the_rule() -> None:
    def body(b: TraceBuilder, index: int) -> None:
        del index
        for _ in range(10):
            with b.op("aten::mm", shapes=VECTOR):
                b.launch("gemv2T", 3 * US)
            with b.op("aten::mm"):
                b.launch("nvjet_sm90_tst", 30 * US)

    assert isinstance(judge(CODE, case(loop(body), recording())), CouldNotTell)
