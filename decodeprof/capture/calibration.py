"""What does a profiler show of the device's own latencies?

Two figures need one. The time from a launch call's start to its kernel's start on an idle device.
And the node gap: what a step pays for each activity once it is one graph. That is the unprofiled
time of a graph less the times that a profile shows of the same kernels launched one by one, which
is how a prediction is made: it adds gaps to the busy time of an ordinary run. The graph's kernels
alternate as a decoder's do (normalise, project, activate): in a row of one tiny kernel the gap
comes out at half of what a real step pays, since each finds its code and data at hand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
_LAYER_REPEATS = 5
"""Rounds of the layers under the profiler."""
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
    layers = small_layers()
    graph_ns = device_ns(capture(layers).replay)
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
    for _ in range(_LAYER_REPEATS):
        layers()
        torch.cuda.synchronize()
    profiler.stop()
    durations_ns, latencies_ns = read(exported(profiler))
    return msgspec.structs.replace(
        ceilings,
        node_gap_ns=gap_ns(graph_ns, durations_ns[_LAUNCHES:]),
        kernel_latency_ns=floor_ns(latencies_ns[:_LAUNCHES]),
    )


def small_layers() -> Callable[[], object]:
    """A forward of a few small layers with weights of their own, as kernels of a decode step."""
    width, hidden = 1024, 3072
    options = {"device": "cuda", "dtype": torch.bfloat16}
    layers = [
        (
            torch.ones(width, **options),  # type: ignore[call-overload]
            torch.randn(hidden, width, **options) / width,  # type: ignore[call-overload]
            torch.randn(width, hidden, **options) / hidden,  # type: ignore[call-overload]
        )
        for _ in range(_LAYERS)
    ]
    start = torch.randn(1, 1, width, **options)  # type: ignore[call-overload]

    def forward() -> object:
        hidden_state = start
        for scale, up, down in layers:
            wide = hidden_state.float()
            normed = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
            inner = torch.nn.functional.linear(normed.to(torch.bfloat16) * scale, up)
            hidden_state = hidden_state + torch.nn.functional.linear(
                torch.nn.functional.silu(inner) * inner, down
            )
        return hidden_state

    return forward


def gap_ns(graph_ns: int, durations_ns: Sequence[int]) -> int | None:
    """The node gap: a graph's unprofiled time less its kernels' own, for each kernel.

    Args:
        graph_ns: unprofiled time of one replay.
        durations_ns: durations of the same kernels, launched one by one, in `_LAYER_REPEATS`
            rounds of which the first still warms up.
    """
    nodes = len(durations_ns) // _LAYER_REPEATS
    if not nodes:
        return None
    rounds = [sum(durations_ns[nodes * r : nodes * (r + 1)]) for r in range(1, _LAYER_REPEATS)]
    return max(0, round((graph_ns - lower_median(rounds)) / nodes))


def read(trace: bytes) -> tuple[list[int], list[int]]:
    """Durations and launch latencies of the kernels launched by themselves, in order of time."""
    events = msgspec.json.decode(trace, type=_Trace).traceEvents
    starts = {
        event.args.correlation: _ns(event.ts)
        for event in events
        if event.cat in ("cuda_runtime", "cuda_driver")
    }
    kernels = sorted(
        (e for e in events if e.cat == "kernel" and e.args.correlation in starts),
        key=lambda event: event.ts,
    )
    latencies = [_ns(event.ts) - starts[event.args.correlation] for event in kernels]
    return [_ns(event.dur) for event in kernels], latencies


def floor_ns(latencies_ns: Sequence[int]) -> int | None:
    """The first percentile: what remains when nothing is in the way."""
    return sorted(latencies_ns)[len(latencies_ns) // 100] if latencies_ns else None


def _ns(microseconds: Decimal) -> int:
    return int(microseconds * _NS_PER_US)
