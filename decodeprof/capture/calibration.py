"""What does a profiler show of the device's own latencies?

Two figures need one. The time from a launch call's start to its kernel's start on an idle device.
And what a step pays for each activity once it is one graph (`decodeprof.model.graph_nodes`): that
is the unprofiled time of a graph less the times that a profile shows of the same kernels launched
one by one, which is how a prediction is made. Five graphs of different mixtures (`node_graphs`) are
five equations for the costs, and two graphs of one tiny kernel tell what a graph takes to start.

The gap is not a constant of the device. An H200 has two speeds and changes from one to the other by
itself, in the middle of a row of replays, for seconds at a time: with the same clocks, power and
temperature, kernels that a profile shows to last the same, and whatever the process does meanwhile.
At the fast one every node of a real step takes 0.34 µs less, be its kernel large or small (a row of
tiny kernels loses 0.17). So all graphs are measured until two rows of times agree and a graph of
layers took as long before as after them. That graph is timed again and again while recording, and
what counts is the speed of the timing, with which predictions are compared.

What no calibration tells: some matrix-vector kernels take up to 30 % longer where their input lies
within 8 KB than where it crosses such a border, and a captured step has its tensors elsewhere.
"""

from __future__ import annotations

import bisect
import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Any

import msgspec
import numpy as np
import torch

from decodeprof.capture.ceilings import NODES, capture, device_ns, tiny_graph
from decodeprof.capture.hooks import ProfilerWatch
from decodeprof.capture.node_graphs import (
    LAYERS,
    NODES_PER_LAYER,
    Run,
    build,
    one_kernel,
)
from decodeprof.capture.node_graphs import probe as probe_layers
from decodeprof.capture.profiler import exported, new_profiler
from decodeprof.capture.statistics import lower_median
from decodeprof.model.ceilings import Ceilings
from decodeprof.model.graph_nodes import NodeCosts, fitted, mixture, whole_gap
from decodeprof.model.trace import ActivityKind

_LAUNCHES = 100
_ROUNDS = 5
"""Of a graph's kernels under the profiler, launched one by one; the first still warms up."""
_REPLAYS = 10
_PLACINGS = 3
"""Captures of each graph: where its tensors lie moves its time by a percent."""
_MOVES = (1_000, 400_000)
"""Floats that are taken before each round, so that the next tensors lie elsewhere."""
_MARK = "decodeprof.calibration."
_ALIKE_SHARE = 0.03
"""Two times of a graph further apart than this are two speeds of the device, not noise."""
_MOST_ROWS = 8
"""Of times of all graphs: half a second."""
UNSTEADY_NS = 100
"""Gaps further apart than this are two speeds of the device; they else spread by some 20 ns."""
_KINDS_OF_COSTS = 5
_TINY_NODES = (100, NODES)
_MOST_TRIES = 4
_NS_PER_US = 1_000
_PS_PER_NS = 1_000
_KINDS = {
    "kernel": ActivityKind.KERNEL,
    "gpu_memset": ActivityKind.SET,
    "gpu_memcpy": ActivityKind.COPY,
}


class _Args(msgspec.Struct):
    correlation: int = 0
    grid: list[int] = []


class _Event(msgspec.Struct):
    cat: str = ""
    name: str = ""
    ts: Decimal = Decimal(0)
    dur: Decimal = Decimal(0)
    args: _Args = msgspec.field(default_factory=_Args)


class _Trace(msgspec.Struct):
    traceEvents: list[_Event]


def calibrate(watch: ProfilerWatch, ceilings: Ceilings, probe: GapProbe) -> Ceilings:
    """Add what nodes cost and the kernel latency to what was measured without a profiler.

    Raises:
        RuntimeError: CUDA's errors, too little memory among them, and the profiler's.
    """
    functions = build()
    graphs = [[capture(each) for _ in range(_PLACINGS)] for each in functions]
    rows = [[tiny_graph(nodes)] for nodes in _TINY_NODES]
    times, reference = steady(probe, [partial(_mean_ns, each) for each in [*rows, *graphs]])
    launched, *rounds = _profiled(
        watch, [one_kernel(), *functions], times=[_LAUNCHES, *[_ROUNDS] * len(functions)]
    )
    found = msgspec.structs.replace(
        ceilings, kernel_latency_ns=floor_ns([kernel.latency_ns for kernel in launched])
    )
    start_ns = start_of_graphs_ns(*times[: len(rows)])
    costs = node_costs(times[len(rows) :], rounds, start_ns=start_ns)
    if costs is None:
        return found
    found = msgspec.structs.replace(
        found,
        node_gap_ns=round(costs.few_ns),
        node_gap_large_ns=round(costs.many_ns),
        node_gap_set_ns=round(costs.set_ns),
        node_gap_copy_ns=round(costs.copy_ns),
        profiled_block_ps=round(costs.block_ns * _PS_PER_NS, 1),
        graph_start_ns=round(costs.start_ns),
    )
    return with_samples(at_first_sample(found, probe.samples_ns[reference]), probe.samples_ns)


def steady(probe: GapProbe, times: Sequence[Callable[[], int]]) -> tuple[list[int], int]:
    """One time of each at one speed of the device, and the index of the probe's sample of it."""
    for _ in range(_MOST_TRIES):
        before = probe.sample()
        row = alike(times)
        after = probe.sample()
        if abs(after - before) <= UNSTEADY_NS // 2:
            break
    return row, len(probe.samples_ns) - 1


def start_of_graphs_ns(few_ns: int, many_ns: int) -> int:
    """What two graphs of `_TINY_NODES` of the same kernel take before their first node.

    A graph of one kernel does not tell: its replays wait for the host.
    """
    few, many = _TINY_NODES
    return max(0, round(few_ns - few * (many_ns - few_ns) / (many - few)))


def at_first_sample(ceilings: Ceilings, sample_ns: int) -> Ceilings:
    """The costs at the speed of the first sample, which is that of the timing.

    Args:
        ceilings: with the costs as they were measured.
        sample_ns: how much longer a node took then than at the first sample; all kinds do alike.
    """
    if ceilings.node_gap_ns is None:
        return ceilings

    def shifted(cost_ns: int | None) -> int | None:
        return None if cost_ns is None else cost_ns - sample_ns

    return msgspec.structs.replace(
        ceilings,
        node_gap_ns=max(0, ceilings.node_gap_ns - sample_ns),
        node_gap_large_ns=shifted(ceilings.node_gap_large_ns),
        node_gap_set_ns=shifted(ceilings.node_gap_set_ns),
        node_gap_copy_ns=shifted(ceilings.node_gap_copy_ns),
    )


def _mean_ns(graphs: Sequence[Any]) -> int:
    return round(statistics.fmean(device_ns(each.replay, repeats=_REPLAYS) for each in graphs))


def alike(times: Sequence[Callable[[], int]]) -> list[int]:
    """One time of each, all taken while the device had one speed, as far as `_MOST_ROWS` tell."""
    row = [time() for time in times]
    for _ in range(_MOST_ROWS):
        before, row = row, [time() for time in times]
        if all(abs(a - b) <= _ALIKE_SHARE * a for a, b in zip(before, row, strict=True)):
            break
    return row


def _profiled(
    watch: ProfilerWatch, functions: Sequence[Run], *, times: Sequence[int]
) -> list[list[Kernel]]:
    """The kernels of so many runs of each, every run on an idle device and with its tensors moved.

    One profile holds them all: to start one, and to write it, takes a second.
    """
    for each in functions:
        each()
    torch.cuda.synchronize()
    profiler: Any = new_profiler(on_device=True)
    watch.ours = True
    try:
        profiler.start()
    finally:
        watch.ours = False
    held = []
    try:
        for index, each in enumerate(functions):
            for turn in range(times[index]):
                if turn < _ROUNDS:
                    held += [torch.empty(size * (turn + 1), device="cuda") for size in _MOVES]
                with torch.profiler.record_function(f"{_MARK}{index}"):
                    each()
                torch.cuda.synchronize()
    finally:
        profiler.stop()
    return read(exported(profiler), functions=len(functions))


class GapProbe:
    """Layers as a graph, whose time per node shows how the node gap has changed."""

    def __init__(self) -> None:
        """Build and capture it."""
        self._graph = capture(probe_layers())
        self._first_ns = self._graph_ns()
        self._nodes = LAYERS * NODES_PER_LAYER
        self.samples_ns: list[int] = [0]
        """Against the first sample, per node."""

    def sample(self) -> int:
        """Measure once more; how much longer a node took than at the first sample."""
        self.samples_ns.append(round((self._graph_ns() - self._first_ns) / self._nodes))
        return self.samples_ns[-1]

    def _graph_ns(self) -> int:
        return device_ns(self._graph.replay)


def with_samples(ceilings: Ceilings, samples_ns: Sequence[int]) -> Ceilings:
    """The same with the node gap at every sample.

    Args:
        ceilings: with the gap at the first sample.
        samples_ns: how much longer a node took at each than at the first one.
    """
    gap_ns = ceilings.node_gap_ns
    if gap_ns is None:
        return ceilings
    return msgspec.structs.replace(
        ceilings, node_gap_samples_ns=[gap_ns + each for each in samples_ns]
    )


@dataclass(frozen=True)
class Kernel:
    """One kernel, memset or copy that was launched by itself."""

    duration_ns: int
    latency_ns: int
    blocks: int = 0
    """0: it is no kernel."""
    name: str = ""
    kind: ActivityKind = ActivityKind.KERNEL


def node_costs(
    graphs_ns: Sequence[int], launched: Sequence[Sequence[Kernel]], *, start_ns: int
) -> NodeCosts | None:
    """What each activity of a graph costs beside its duration.

    Args:
        graphs_ns: unprofiled time of one replay of each graph.
        launched: of each graph the same activities one by one, in `_ROUNDS` rounds of which the
            first still warms up.
        start_ns: what a graph takes before its first node.
    """
    # Nothing but a start: an empty graph.
    mixtures, beside_ns = [np.zeros(_KINDS_OF_COSTS)], [start_ns]
    for graph_ns, activities in zip(graphs_ns, launched, strict=True):
        nodes = len(activities) // _ROUNDS
        rounds = [activities[nodes * r : nodes * (r + 1)] for r in range(1, _ROUNDS)]
        busy_ns = lower_median([sum(each.duration_ns for each in one) for one in rounds])
        one = rounds[0]
        mixed = mixture(
            kind=np.array([each.kind for each in one], np.int8),
            blocks=np.array([each.blocks for each in one], np.int64),
            whole=whole_gap([each.name for each in one]),
        )
        mixtures.append(mixed.sum(axis=0))
        beside_ns.append(graph_ns - busy_ns)
    return fitted(mixtures, beside_ns)


def read(trace: bytes, *, functions: int) -> list[list[Kernel]]:
    """The kernels, memsets and copies of each function, in order of time.

    Args:
        trace: of torch's profiler, in which each run of a function is marked with its number.
        functions: how many there are.
    """
    events = msgspec.json.decode(trace, type=_Trace).traceEvents
    starts = {
        event.args.correlation: _ns(event.ts)
        for event in events
        if event.cat in ("cuda_runtime", "cuda_driver")
    }
    runs = sorted(
        (_ns(event.ts), int(event.name.removeprefix(_MARK)))
        for event in events
        if event.cat == "user_annotation" and event.name.startswith(_MARK)
    )
    begins = [begin for begin, _ in runs]
    found: list[list[Kernel]] = [[] for _ in range(functions)]
    for event in sorted(events, key=lambda event: event.ts):
        launched = starts.get(event.args.correlation) if event.cat in _KINDS else None
        if launched is None or not begins or launched < begins[0]:
            continue
        kernel = Kernel(
            duration_ns=_ns(event.dur),
            latency_ns=_ns(event.ts) - launched,
            blocks=math.prod(event.args.grid) if event.cat == "kernel" else 0,
            name=event.name,
            kind=_KINDS[event.cat],
        )
        found[runs[bisect.bisect_right(begins, launched) - 1][1]].append(kernel)
    return found


def floor_ns(latencies_ns: Sequence[int]) -> int | None:
    """The first percentile: what remains when nothing is in the way."""
    return sorted(latencies_ns)[len(latencies_ns) // 100] if latencies_ns else None


def _ns(microseconds: Decimal) -> int:
    return int(microseconds * _NS_PER_US)
