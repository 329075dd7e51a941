"""What does a short profile show of a step: kernels, busy time, and how long kernels queue?

The profile holds enough launches to fill the launch queue, and only its later half is read: by
then kernels queue as they do in a long run. Times of the host are not read: a profiler stretches
them.
"""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import torch

from decodeprof.mark import THROWAWAY
from decodeprof.mark import step as mark_step

LAUNCHES_TO_FILL = 4_096
"""Four times what the launch queue holds."""
FEWEST_STEPS, MOST_STEPS = 4, 64
GRAPH_STEPS = 6
_ACTIVITIES = ("kernel", "gpu_memcpy", "gpu_memset")
_CALLS = ("cuda_runtime", "cuda_driver")
_NS_PER_US = 1_000
_NAME_LENGTH = 120
"""Of a kernel's name, which may be as long as a page; what tells kernels apart comes first."""


@dataclass(frozen=True)
class Counts:
    """Per step.

    Attributes:
        activities: kernels, copies and sets.
        kernels: kernels alone.
        busy_ns: the time in which the device ran at least one of them.
        tklqt_ns: kernel start − start of its launch call, summed over kernels launched by
            themselves; none for graphs, whose kernels share one launch.
        settled: whether every profiled step ran the same number of activities.
        by_name: ``[name, blocks, kernels, ns]`` for each kind of kernel, longest first: what grows
            along an axis, and how. 0 blocks: not recorded.
    """

    activities: float
    kernels: float
    busy_ns: int
    tklqt_ns: int | None
    settled: bool
    by_name: list[tuple[str, int, float, int]]


def count(step: Callable[[], None], *, graph: bool) -> Counts:
    """Profile a step that is warmed up, with the device's own activities alone."""
    if graph:
        steps = GRAPH_STEPS
    else:
        launches = len(_device(_profiled(step, 1)))
        wanted = -(-LAUNCHES_TO_FILL // max(launches, 1))
        steps = min(MOST_STEPS, max(FEWEST_STEPS, wanted))
    return read(_profiled(step, steps), steps)


def read(events: list[dict[str, Any]], steps: int) -> Counts:
    """Count in the later half of a trace's events.

    Args:
        events: of a trace of `steps` equal steps, one behind the other on the device.
        steps: how many it holds.
    """
    found = sorted(_device(events), key=lambda event: event["ts"])
    each, rest = divmod(len(found), steps)
    half = steps - steps // 2
    later = found[len(found) - half * each :] if each else found
    per = half if each else steps
    kernels = [event for event in later if event["cat"] == "kernel"]
    starts = {
        event["args"]["correlation"]: event
        for event in events
        if event.get("cat") in _CALLS and "correlation" in event.get("args", {})
    }
    latencies = []
    for event in kernels:
        call = starts.get(event["args"].get("correlation"))
        if call is not None and "GraphLaunch" not in call["name"]:
            latencies.append(event["ts"] - call["ts"])
    return Counts(
        activities=len(later) / per,
        kernels=len(kernels) / per,
        busy_ns=round(_union(later) * _NS_PER_US / per),
        tklqt_ns=round(sum(latencies) * _NS_PER_US / per)
        if latencies and len(latencies) == len(kernels)
        else None,
        settled=rest == 0,
        by_name=_by_name(kernels, per),
    )


def _by_name(kernels: list[dict[str, Any]], steps: int) -> list[tuple[str, int, float, int]]:
    """Kernels of one name and one number of blocks, per step."""
    found: dict[tuple[str, int], list[Decimal]] = {}
    for event in kernels:
        key = event["name"][:_NAME_LENGTH], math.prod(event["args"].get("grid", (0,)))
        found.setdefault(key, []).append(Decimal(event["dur"]))
    rows = [
        (*key, len(durations) / steps, round(sum(durations) * _NS_PER_US / steps))
        for key, durations in found.items()
    ]
    return sorted(rows, key=lambda row: (-row[3], row))


def trace(step: Callable[[], None], steps: int, *, phase: str = "decode") -> bytes:
    """A trace of whole steps, marked as of a phase, and with shapes: torch.profiler's file."""
    cpu, cuda = torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA
    on_device = torch.cuda.is_available()
    activities = [cpu, cuda] if on_device else [cpu]
    if on_device:
        torch.cuda.synchronize()
    with torch.profiler.profile(activities=activities, record_shapes=True) as profiler:
        if on_device:
            with torch.profiler.record_function(THROWAWAY):
                torch.zeros(1, device="cuda")
                torch.cuda.synchronize()
        for _ in range(steps):
            with mark_step(phase=phase):
                step()
        if on_device:
            torch.cuda.synchronize()
    return _exported(profiler)


def _profiled(step: Callable[[], None], steps: int) -> list[dict[str, Any]]:
    torch.cuda.synchronize()
    activities = [torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profiler:
        for _ in range(steps):
            step()
        torch.cuda.synchronize()
    # Timestamps have more digits than a double holds.
    events: list[dict[str, Any]] = json.loads(_exported(profiler), parse_float=Decimal)[
        "traceEvents"
    ]
    return events


def _exported(profiler: Any) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(path))
        # The file holds its own name.
        return path.read_bytes().replace(str(path).encode(), path.name.encode())


def _device(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [event for event in events if event.get("cat") in _ACTIVITIES]


def _union(events: list[dict[str, Any]]) -> Decimal:
    """Time covered by at least one of the events, which are sorted by start, in µs."""
    covered, until = Decimal(0), Decimal("-Infinity")
    for event in events:
        start, end = Decimal(event["ts"]), Decimal(event["ts"]) + Decimal(event["dur"])
        covered += max(end - max(start, until), Decimal(0))
        until = max(until, end)
    return covered
