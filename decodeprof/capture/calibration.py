"""What does a profiler show of the device's own latencies?

Two figures need one: the idle time between nodes of a graph, which is a node's unprofiled time
less its kernel's own, and the time from a launch call's start to its kernel's start on an idle
device. A short profile of nothing but tiny kernels gives both.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import msgspec
import torch

from decodeprof.capture.ceilings import tiny_graph
from decodeprof.capture.hooks import ProfilerWatch
from decodeprof.capture.profiler import exported, new_profiler
from decodeprof.capture.statistics import lower_median
from decodeprof.recording import Ceilings

_LAUNCHES = 100
_GRAPH_LAUNCH = "cudaGraphLaunch"
_NS_PER_US = 1_000


class _Args(msgspec.Struct):
    correlation: int = 0


class _Event(msgspec.Struct):
    cat: str = ""
    name: str = ""
    ts: Decimal = Decimal(0)
    dur: Decimal = Decimal(0)
    args: _Args = msgspec.field(default_factory=_Args)


class _Trace(msgspec.Struct):
    traceEvents: list[_Event]


def calibrate(watch: ProfilerWatch, ceilings: Ceilings) -> Ceilings:
    """Add the node gap and the kernel latency to what was measured without a profiler."""
    graph = tiny_graph()
    one = torch.zeros(1, device="cuda")
    one.add_(1)
    torch.cuda.synchronize()
    profiler: Any = new_profiler(on_device=True)
    watch.ours = True
    try:
        profiler.start()
    finally:
        watch.ours = False
    for _ in range(_LAUNCHES):
        one.add_(1)
        torch.cuda.synchronize()
    graph.replay()
    torch.cuda.synchronize()
    profiler.stop()
    kernel_ns, latencies_ns = read(exported(profiler))
    gap_ns = None
    if kernel_ns is not None and ceilings.graph_node_ns is not None:
        gap_ns = max(0, ceilings.graph_node_ns - kernel_ns)
    latency_ns = floor_ns(latencies_ns)
    return msgspec.structs.replace(ceilings, node_gap_ns=gap_ns, kernel_latency_ns=latency_ns)


def read(trace: bytes) -> tuple[int | None, list[int]]:
    """Median time of a graph's kernels, and the latency of each kernel launched by itself."""
    events = msgspec.json.decode(trace, type=_Trace).traceEvents
    starts: dict[int, int] = {}
    graphs: set[int] = set()
    for event in events:
        if event.cat in ("cuda_runtime", "cuda_driver"):
            starts[event.args.correlation] = _ns(event.ts)
            if event.name == _GRAPH_LAUNCH:
                graphs.add(event.args.correlation)
    kernels = [event for event in events if event.cat == "kernel"]
    durations = [_ns(event.dur) for event in kernels if event.args.correlation in graphs]
    latencies = [
        _ns(event.ts) - starts[event.args.correlation]
        for event in kernels
        if event.args.correlation in starts and event.args.correlation not in graphs
    ]
    return lower_median(durations) if durations else None, latencies


def floor_ns(latencies_ns: Sequence[int]) -> int | None:
    """The first percentile: what remains when nothing is in the way."""
    return sorted(latencies_ns)[len(latencies_ns) // 100] if latencies_ns else None


def _ns(microseconds: Decimal) -> int:
    return int(microseconds * _NS_PER_US)
