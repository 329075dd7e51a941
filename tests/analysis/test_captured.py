"""Launches into a graph that is being captured run nothing, and are no lost kernels."""

from __future__ import annotations

from decodeprof.analysis.launches import captured_into_graphs
from tests.build import TraceBuilder
from tests.reading import trace_of


def test_launches_between_begin_and_end_on_the_same_thread() -> None:
    b = TraceBuilder()
    b.launch("eager", 1_000)
    b.call("cudaStreamBeginCapture")
    b.call("cudaLaunchKernel")
    b.call("cudaStreamEndCapture")
    b.call("cudaLaunchKernel")
    b.on("430")
    b.now_ns["430"] = 3_500
    b.call("cudaLaunchKernelExC")
    trace = trace_of(b.build())
    inside = captured_into_graphs(trace)
    named = [trace.names[i] for i in trace.calls.name[inside].tolist()]
    assert named == ["cudaStreamBeginCapture", "cudaLaunchKernel"]


def test_without_captures_none_is_inside() -> None:
    b = TraceBuilder()
    b.launch("eager", 1_000)
    assert not captured_into_graphs(trace_of(b.build())).any()
