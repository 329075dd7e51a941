from __future__ import annotations

import pytest

from decodeprof.diagnosis.judging import Clear, CouldNotTell
from decodeprof.recording import Allocator
from tests.build import TraceBuilder
from tests.diagnosis.cases import US, busy, case, judge, loop, recording, texts, the_finding

CODE = "allocation-in-loop"
GIB = 2**30


def allocator(**changes: int) -> Allocator:
    figures = {
        "peak_allocated_bytes": 4 * GIB,
        "peak_reserved_bytes": 8 * GIB,
        "device_allocs": 0,
        "device_frees": 0,
        "alloc_retries": 0,
        **changes,
    }
    return Allocator(**figures)


def allocating(*steps: int) -> TraceBuilder:
    def body(b: TraceBuilder, index: int) -> None:
        busy(b)
        if index in steps:
            with b.op("aten::cat"):
                b.call("cudaMalloc", 300 * US)

    return loop(body)


def test_steps_that_allocate_are_counted_with_their_calls_and_ops() -> None:
    finding = the_finding(CODE, case(allocating(2, 4, 6), recording()))
    assert finding.summary == (
        "3 of 8 decode steps allocate or free device memory, 300 µs each in profiled time."
    )
    assert "3 × cudaMalloc in 3 of 8 decode steps, by `aten::cat`" in texts(finding)
    assert finding.saving_ns_per_step is None


def test_one_step_that_allocates_is_warm_up() -> None:
    assert judge(CODE, case(allocating(0), recording())) == Clear()


@pytest.mark.parametrize("counted", ["device_allocs", "alloc_retries"])
def test_an_allocator_that_asked_the_driver_in_an_unprofiled_call_is_found(counted: str) -> None:
    of = recording(allocator=allocator(**{counted: 3}))
    finding = the_finding(CODE, case(allocating(), of))
    assert "3 " in finding.summary
    assert "4.29 GB in use of 8.59 GB held" in texts(finding)


def test_memory_in_leftover_pieces_is_found() -> None:
    of = recording(allocator=allocator(inactive_split_bytes=2 * GIB))
    assert the_finding(CODE, case(allocating(), of)).summary == (
        "2.15 GB of device memory, 25 % of what PyTorch holds, lies in leftover pieces of larger "
        "blocks."
    )


def test_a_few_leftover_pieces_are_normal() -> None:
    for left in (GIB, 2 * GIB - 1):
        of = recording(allocator=allocator(inactive_split_bytes=left))
        assert judge(CODE, case(allocating(), of)) == Clear()
    small = allocator(inactive_split_bytes=100 * 2**20, peak_reserved_bytes=300 * 2**20)
    assert judge(CODE, case(allocating(), recording(allocator=small))) == Clear()


def test_without_api_calls_it_cannot_tell() -> None:
    assert isinstance(judge(CODE, case(allocating(2, 4), without=("calls",))), CouldNotTell)
