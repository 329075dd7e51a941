from __future__ import annotations

from pathlib import Path

import pytest

from decodeprof.diagnosis.judging import Clear, CouldNotTell
from decodeprof.diagnosis.pipeline import analyze_path
from decodeprof.recording import Target
from tests.build import TraceBuilder
from tests.diagnosis.cases import US, busy, case, judge, loop, recording, texts, the_finding, timing

CODE = "batch-room"
ROOT = Path(__file__).parents[3]
# 100.7 MB take 25.2 µs at 4 TB/s; the 101 MFLOP of one row take 0.13 µs at 800 TFLOP/s.
VECTOR = ((1, 4096), (4096, 12288))
SQUARE = ((4096, 4096), (4096, 4096))


def spaced(before_ns: int, ns: int = 4 * US) -> TraceBuilder:
    def body(b: TraceBuilder, index: int) -> None:
        del index
        for _ in range(40):
            with b.op("aten::mm", before_ns=before_ns):
                b.launch("nvjet_sm90_tst", ns)

    return loop(body)


def products(shapes: tuple[tuple[int, ...], ...], ns: int) -> TraceBuilder:
    def body(b: TraceBuilder, index: int) -> None:
        del index
        for _ in range(20):
            with b.op("aten::mm", shapes=shapes):
                b.launch("gemv2T", ns)

    return loop(body)


def test_a_host_bound_step_has_room_until_the_device_takes_as_long() -> None:
    # A launch each 46.5 µs, and 4.4 µs of device time with its gap: 10.6 times as much.
    finding = the_finding(CODE, case(spaced(44 * US), recording()))
    assert "at least 10 × the batch" in finding.summary
    assert "MODELLED" in texts(finding)
    assert "assumes that no kernel's time grows faster than the batch" in texts(finding)
    assert finding.saving_ns_per_step is None


def test_a_known_batch_is_told_in_sequences() -> None:
    of = recording(
        target=Target(spec="my_script.py:generate", kind="function", batch=4),
        timing=timing([1_860 * US] * 8),
    )
    assert (
        "at least 40 sequences instead of 4" in the_finding(CODE, case(spaced(44 * US), of)).summary
    )


def test_a_host_that_is_hardly_late_leaves_no_room() -> None:
    assert judge(CODE, case(spaced(5 * US), recording())) == Clear()


def test_a_memory_bound_step_has_room_until_its_operations_take_as_long() -> None:
    finding = the_finding(CODE, case(products(VECTOR, 30 * US), recording()))
    assert "up to about 199 × the batch" in finding.summary
    assert "assumes that weights are most of the bytes" in texts(finding)


def test_a_compute_bound_step_has_none() -> None:
    assert judge(CODE, case(products(SQUARE, 200 * US), recording())) == Clear()


def test_without_shapes_a_device_bound_step_does_not_tell() -> None:
    assert isinstance(judge(CODE, case(loop(lambda b, _: busy(b)), recording())), CouldNotTell)


@pytest.mark.parametrize(
    ("recorded", "expected"), [("stage_eager", "about 117"), ("plain_0p6b", "at least 1,024")]
)
def test_a_recording_with_shapes_and_ceilings_foresees_the_batch(
    recorded: str, expected: str
) -> None:
    # At 128 rows with this cache of 512 places, a graph of the step took 25.3 ms on the same kind
    # of device, which is where 24.2 ms launched by the host have become 10 % more.
    found = analyze_path(ROOT / "fixtures" / recorded).diagnosis.findings
    finding = next(each for each in found if each.code == CODE)
    assert f"{expected} sequences instead of 1" in finding.summary
    assert "replayed with more rows" in texts(finding)
