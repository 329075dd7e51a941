"""What is read off a profile, on events whose times are known."""

from __future__ import annotations

import tempfile
from decimal import Decimal
from typing import Any

import pytest
import torch

from decodeprof.reference.model import TINY, random_model
from decodeprof.reference.sweep.counts import read, trace
from decodeprof.reference.sweep.subjects import decode_step

Event = dict[str, Any]


def launched(correlation: int, *, call: str, start: str, duration: str = "2.000") -> list[Event]:
    """A launch call and its kernel, in µs."""
    return [
        {
            "cat": "cuda_runtime",
            "name": "cudaLaunchKernel",
            "ts": Decimal(call),
            "dur": Decimal(1),
            "args": {"correlation": correlation},
        },
        kernel(correlation, start=start, duration=duration),
    ]


def kernel(correlation: int, *, start: str, duration: str) -> Event:
    return {
        "cat": "kernel",
        "name": "k",
        "ts": Decimal(start),
        "dur": Decimal(duration),
        "args": {"correlation": correlation, "grid": [4, 2, 1]},
    }


def test_the_later_half_alone_is_read() -> None:
    # Two steps of two kernels; those of the first last longer and are no part of the answer.
    events = [
        *launched(1, call="0", start="10", duration="9"),
        *launched(2, call="1", start="20", duration="9"),
        *launched(3, call="2.5", start="30.001"),
        *launched(4, call="4", start="40.002"),
        {"ph": "M", "name": "process_name"},
    ]
    counts = read(events, 2)
    assert counts.kernels == counts.activities == 2
    assert counts.busy_ns == 4_000
    assert counts.by_name == [("k", 8, 2, 4_000)]
    assert counts.tklqt_ns == 27_501 + 36_002
    assert counts.settled


def test_overlapping_kernels_keep_the_device_busy_once() -> None:
    events = [
        *launched(1, call="0", start="10.000", duration="5.500"),
        *launched(2, call="1", start="12.000", duration="1.000"),
        *launched(3, call="2", start="10.000", duration="6.250"),
        *launched(4, call="3", start="20.000", duration="1.000"),
    ]
    assert read(events, 1).busy_ns == 7_250


def test_copies_are_busy_time_and_no_kernels() -> None:
    copy = {**kernel(7, start="50", duration="3"), "cat": "gpu_memcpy"}
    counts = read([*launched(1, call="0", start="10"), copy], 1)
    assert (counts.activities, counts.kernels, counts.busy_ns) == (2, 1, 5_000)


def test_kernels_of_a_graph_have_no_queueing_time() -> None:
    call = {
        "cat": "cuda_runtime",
        "name": "cudaGraphLaunch",
        "ts": Decimal(0),
        "dur": Decimal(9),
        "args": {"correlation": 1},
    }
    events = [call, kernel(1, start="10", duration="2"), kernel(1, start="13", duration="2")]
    counts = read(events, 1)
    assert (counts.kernels, counts.tklqt_ns) == (2, None)


def test_steps_that_differ_are_said_to() -> None:
    events = [*launched(1, call="0", start="10"), *launched(2, call="1", start="20")]
    more = launched(3, call="2", start="30")
    assert not read([*events, *more], 2).settled


@pytest.mark.filterwarnings("ignore:.*Profiler clears events.*:UserWarning")
def test_a_trace_holds_marked_steps_with_shapes() -> None:
    step = decode_step(random_model(TINY), 1, 8, fused=False).step
    written = trace(step, 2)
    assert written.count(b'"decodeprof.step phase=decode"') == 2
    assert b"Input Dims" in written
    assert tempfile.gettempdir().encode() not in written
    assert torch.__version__
