"""What does a profiler show of the device's own latencies?

Two figures need one. The time from a launch call's start to its kernel's start on an idle device.
And the node gap: what a step pays for each activity once it is one graph. That is the unprofiled
time of a graph less the times that a profile shows of the same kernels launched one by one, which
is how a prediction is made: it adds gaps to the busy time of an ordinary run. The graph's kernels
alternate as a decoder's do (normalise, project, activate): in a row of one tiny kernel the gap
comes out at half of what a real step pays, since each finds its code and data at hand. Kernels of
many blocks hide most of their gap behind the previous one's last blocks (on an H200 some 0.1 of
0.42 µs remain), so they have a figure of their own. So have memsets and copies, which other units
of the device run: it stops between them and kernels, for 4 µs in all beside a memset.

The gap is not a constant of the device. On one H200 whole graphs took 14 % less for some seconds,
and then what they took before, with the same clocks, power and temperature, and kernels that a
profile showed to last the same. So it is measured again and again while recording.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import msgspec
import torch

from decodeprof.capture.ceilings import capture, device_ns
from decodeprof.capture.hooks import ProfilerWatch
from decodeprof.capture.profiler import exported, new_profiler
from decodeprof.capture.statistics import lower_median
from decodeprof.recording import Ceilings

_LAUNCHES = 100
_LAYERS = 24
_NODES_PER_LAYER = 13
"""Kernels of one layer; one more where cuBLAS splits a product."""
_LAYER_REPEATS = 5
"""Rounds of the layers under the profiler."""
_OTHERS = 64
"""Memsets or copies in a graph, each beside a kernel."""
_REDUCED = 1 << 20
"""Elements whose sum takes many blocks, for which torch sets a counter to 0 first."""
_COPIED_BYTES = 1 << 14
UNSTEADY_NS = 100
"""Gaps further apart than this are two speeds of the device; they else spread by some 20 ns."""
_PROBE_WIDTH, _PROBE_HIDDEN = 256, 512
"""Of the layers that stay in memory while recording: 13 MB."""
_LARGE_ROWS = 512
"""Rows for which each kernel of a layer has far more blocks than `LARGEST_SMALL_GRID`."""
LARGEST_SMALL_GRID = 32
"""Blocks; the boundary between the two node gaps."""
_NS_PER_US = 1_000
_ON_DEVICE = ("kernel", "gpu_memset", "gpu_memcpy")


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


def calibrate(watch: ProfilerWatch, ceilings: Ceilings) -> Ceilings:
    """Add the node gaps and the kernel latency to what was measured without a profiler."""
    small, large = layers(rows=1), layers(rows=_LARGE_ROWS)
    small_ns, large_ns = (device_ns(capture(each).replay) for each in (small, large))
    one = torch.zeros(1, device="cuda")
    launched = _profiled(watch, lambda: one.add_(1), times=_LAUNCHES)
    others = [(each, device_ns(capture(each).replay)) for each in (sets(), copies())]
    gap_ns, gap_large_ns = node_gaps_ns(
        small_ns,
        _profiled(watch, small, times=_LAYER_REPEATS),
        large_ns,
        _profiled(watch, large, times=_LAYER_REPEATS),
    )
    set_ns, copy_ns = (
        gap_of_others_ns(
            graph_ns,
            _profiled(watch, each, times=_LAYER_REPEATS),
            gap_ns=gap_ns,
            gap_large_ns=gap_large_ns,
        )
        for each, graph_ns in others
    )
    return msgspec.structs.replace(
        ceilings,
        node_gap_ns=gap_ns,
        node_gap_large_ns=gap_large_ns,
        node_gap_set_ns=set_ns,
        node_gap_copy_ns=copy_ns,
        kernel_latency_ns=floor_ns([kernel.latency_ns for kernel in launched]),
    )


def _profiled(watch: ProfilerWatch, run: Callable[[], object], *, times: int) -> list[Kernel]:
    """The kernels of so many runs, each on an idle device."""
    run()
    torch.cuda.synchronize()
    profiler: Any = new_profiler(on_device=True)
    watch.ours = True
    try:
        profiler.start()
    finally:
        watch.ours = False
    for _ in range(times):
        run()
        torch.cuda.synchronize()
    profiler.stop()
    return read(exported(profiler))


class GapProbe:
    """Small layers as a graph, whose time per node shows how the node gap has changed."""

    def __init__(self) -> None:
        """Build and capture it."""
        forward = layers(rows=1, width=_PROBE_WIDTH, hidden=_PROBE_HIDDEN)
        self._graph = capture(forward)
        self._first_ns = self._graph_ns()
        self._nodes = _LAYERS * _NODES_PER_LAYER
        self.samples_ns: list[int] = [0]
        """Against the first sample, per node."""

    def sample(self) -> None:
        """Measure once more."""
        self.samples_ns.append(round((self._graph_ns() - self._first_ns) / self._nodes))

    def _graph_ns(self) -> int:
        return device_ns(self._graph.replay)


def with_samples(ceilings: Ceilings, samples_ns: Sequence[int], *, reference: int) -> Ceilings:
    """The same with the node gap at every sample.

    Args:
        ceilings: with the gap that was measured at one of the samples.
        samples_ns: how much longer a node took at each, against any one of them.
        reference: index of the sample at which the gap was measured.
    """
    gap_ns = ceilings.node_gap_ns
    if gap_ns is None:
        return ceilings
    gaps = [max(0, gap_ns + each - samples_ns[reference]) for each in samples_ns]
    return msgspec.structs.replace(ceilings, node_gap_samples_ns=gaps)


def sets() -> Callable[[], object]:
    """Sums that each take a memset and a kernel."""
    values = torch.zeros(_REDUCED, dtype=torch.float32, device="cuda")
    return lambda: [values.sum() for _ in range(_OTHERS)]


def copies() -> Callable[[], object]:
    """Kernels with a copy within the device after each."""
    source = torch.zeros(_COPIED_BYTES // 4, dtype=torch.float32, device="cuda")
    target = torch.empty_like(source)
    return lambda: [target.copy_(source.add_(1)) for _ in range(_OTHERS)]


def layers(*, rows: int, width: int = 1024, hidden: int = 3072) -> Callable[[], object]:
    """A forward of a few small layers with weights of their own, as kernels of a decode step."""
    options = {"device": "cuda", "dtype": torch.bfloat16}
    weights = [
        (
            torch.ones(width, **options),  # type: ignore[call-overload]
            torch.randn(hidden, width, **options) / width,  # type: ignore[call-overload]
            torch.randn(width, hidden, **options) / hidden,  # type: ignore[call-overload]
        )
        for _ in range(_LAYERS)
    ]
    start = torch.randn(1, rows, width, **options)  # type: ignore[call-overload]

    def forward() -> object:
        hidden_state = start
        for scale, up, down in weights:
            wide = hidden_state.float()
            normed = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
            inner = torch.nn.functional.linear(normed.to(torch.bfloat16) * scale, up)
            hidden_state = hidden_state + torch.nn.functional.linear(
                torch.nn.functional.silu(inner) * inner, down
            )
        return hidden_state

    return forward


@dataclass(frozen=True)
class Kernel:
    """One kernel, memset or copy that was launched by itself."""

    duration_ns: int
    latency_ns: int
    blocks: int
    """0: it is no kernel."""


def node_gaps_ns(
    small_ns: int, small: Sequence[Kernel], large_ns: int, large: Sequence[Kernel]
) -> tuple[int | None, int | None]:
    """The gaps before kernels of few blocks and of many, from the graphs of two sets of layers.

    A graph's unprofiled time is its kernels' own durations and their gaps: two graphs of different
    mixtures are two equations.

    Args:
        small_ns: unprofiled time of one replay of the graph with mostly small kernels.
        small: its kernels launched one by one, in `_LAYER_REPEATS` rounds of which the first still
            warms up.
        large_ns: the same for the graph with mostly large ones.
        large: its kernels.
    """
    gaps = [_gaps(small_ns, small), _gaps(large_ns, large)]
    if None in gaps:
        return None, None
    (few, many, rest), (few_large, many_large, rest_large) = gaps  # type: ignore[misc]
    both = few * many_large - few_large * many
    if abs(both) < few * many_large / 2:
        # Mixtures too alike to tell one from the other.
        return max(0, round(rest / max(few + many, 1))), None
    gap = (rest * many_large - rest_large * many) / both
    gap_large = (few * rest_large - few_large * rest) / both
    # Below 0 where kernels run faster in a row than one by one: that is theirs, too.
    return max(0, round(gap)), round(gap_large)


def _gaps(graph_ns: int, kernels: Sequence[Kernel]) -> tuple[int, int, int] | None:
    """Small kernels, large ones, and the time of all gaps, of one round."""
    nodes = len(kernels) // _LAYER_REPEATS
    if not nodes:
        return None
    rounds = [kernels[nodes * r : nodes * (r + 1)] for r in range(1, _LAYER_REPEATS)]
    busy_ns = lower_median([sum(kernel.duration_ns for kernel in each) for each in rounds])
    few = sum(0 < kernel.blocks <= LARGEST_SMALL_GRID for kernel in rounds[0])
    many = sum(kernel.blocks > LARGEST_SMALL_GRID for kernel in rounds[0])
    return few, many, graph_ns - busy_ns


def gap_of_others_ns(
    graph_ns: int, activities: Sequence[Kernel], *, gap_ns: int | None, gap_large_ns: int | None
) -> int | None:
    """What each memset or copy of a graph costs beside its duration and the gaps of its kernels.

    Args:
        graph_ns: unprofiled time of one replay.
        activities: launched one by one, in `_LAYER_REPEATS` rounds of which the first warms up.
        gap_ns: of small kernels; None: not known, and then nothing is.
        gap_large_ns: of large ones; None: as of small ones.
    """
    found = _gaps(graph_ns, activities)
    if found is None or gap_ns is None:
        return None
    few, many, rest = found
    others = len(activities) // _LAYER_REPEATS - few - many
    if not others:
        return None
    large_ns = gap_ns if gap_large_ns is None else gap_large_ns
    return max(0, round((rest - few * gap_ns - many * large_ns) / others))


def read(trace: bytes) -> list[Kernel]:
    """The kernels, memsets and copies that were launched by themselves, in order of time."""
    events = msgspec.json.decode(trace, type=_Trace).traceEvents
    starts = {
        event.args.correlation: _ns(event.ts)
        for event in events
        if event.cat in ("cuda_runtime", "cuda_driver")
    }
    kernels = sorted(
        (e for e in events if e.cat in _ON_DEVICE and e.args.correlation in starts),
        key=lambda event: event.ts,
    )
    return [
        Kernel(
            duration_ns=_ns(event.dur),
            latency_ns=_ns(event.ts) - starts[event.args.correlation],
            blocks=math.prod(event.args.grid) if event.cat == "kernel" else 0,
        )
        for event in kernels
    ]


def floor_ns(latencies_ns: Sequence[int]) -> int | None:
    """The first percentile: what remains when nothing is in the way."""
    return sorted(latencies_ns)[len(latencies_ns) // 100] if latencies_ns else None


def _ns(microseconds: Decimal) -> int:
    return int(microseconds * _NS_PER_US)
