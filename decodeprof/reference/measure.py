"""How is a stage measured, so that the prompt, the warm-up and the profiler stay out of it?

By slopes. A call that makes `many` tokens is set against one that makes `few`: what the two share,
the prompt pass and the bookkeeping around a call, cancels, and the rest is decode steps. Times come
from runs without a profiler; counts from short profiled runs after them, since a profiler doubles
the host's share of a launch-bound step.
"""

from __future__ import annotations

import re
import statistics
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

Generate = Callable[[int], list[int]]
"""Continues a fixed prompt by so many tokens."""

FEW = 17
"""Tokens of the shorter call: the prompt's, and 16 steps, a whole check period."""
PERIOD = 16
"""Steps of a whole check period; calls differ by a whole number of these."""
REPEATS = 5
"""Slopes of which the median is taken …"""
SLOW_REPEATS = 3
"""… and of a step that takes more than `SLOW_STEP_SECONDS`: each lasts seconds, and varies less."""
SLOW_STEP_SECONDS = 0.02
LEAST_SECONDS = 0.1
"""The steps between the two calls should last this long: host clocks jitter by some 100 µs."""

_LAUNCH = re.compile(r"cudaLaunch(Cooperative)?Kernel(ExC)?|cuLaunchKernel(Ex)?")
_GRAPH_LAUNCH = re.compile(r"cudaGraphLaunch|cuGraphLaunch")
_SYNC = re.compile(r"(cuda|cu)(Stream|Event|Device|Ctx)Synchronize")
_NO_ACTIVITY = re.compile(r"decodeprof\.|Activity Buffer|ProfilerStep")
"""Marks stand among the device's events, too, and last as long as what they hold."""
_NO_KERNEL = re.compile(r"Mem(cpy|set)\b")


@dataclass(frozen=True)
class KernelRow:
    """One kernel's share of a step."""

    name: str
    count_per_step: float
    time_ns_per_step: float


@dataclass(frozen=True)
class StepCounts:
    """Per decode step, from a profile."""

    kernels: float
    launches: float
    graph_launches: float
    syncs: float
    rows: tuple[KernelRow, ...]
    """By time, largest first."""


def step_ns(generate: Generate, *, most_tokens: int, least_seconds: float = LEAST_SECONDS) -> int:
    """Median time of a decode step, without a profiler.

    Args:
        generate: already warmed up.
        most_tokens: that one call may make.
        least_seconds: the steps between the two calls should last; a prompt's time varies, too.
    """
    first = min(_timed(generate, FEW) for _ in range(2)) / FEW
    periods = int(least_seconds / max(first, 1e-9) / PERIOD) + 1
    steps = min(periods, (most_tokens - FEW) // PERIOD) * PERIOD
    slopes = [
        (_timed(generate, FEW + steps) - _timed(generate, FEW)) / steps
        for _ in range(REPEATS if first < SLOW_STEP_SECONDS else SLOW_REPEATS)
    ]
    return round(statistics.median(slopes) * 1e9)


def step_counts(generate: Generate) -> StepCounts:
    """What a decode step launches, runs and waits for, and its kernels by time."""
    few_counts, few_times = _profiled(generate, FEW)
    many_counts, many_times = _profiled(generate, FEW + PERIOD)

    def per_step(many: int, few: int) -> float:
        return (many - few) / PERIOD

    def calls(pattern: re.Pattern[str]) -> float:
        found = [name for name in many_counts if pattern.fullmatch(name)]
        return sum(per_step(many_counts[name], few_counts[name]) for name in found)

    rows = [
        KernelRow(
            name=name,
            count_per_step=per_step(many_counts[name], few_counts[name]),
            time_ns_per_step=per_step(many_times[name], few_times[name]),
        )
        for name in many_times
        if many_counts[name] > few_counts[name] and not _NO_ACTIVITY.match(name)
    ]
    kernels = [row for row in rows if not _NO_KERNEL.match(row.name)]
    return StepCounts(
        kernels=sum(row.count_per_step for row in kernels),
        launches=calls(_LAUNCH),
        graph_launches=calls(_GRAPH_LAUNCH),
        syncs=calls(_SYNC),
        rows=tuple(sorted(rows, key=lambda row: -row.time_ns_per_step)),
    )


def _timed(generate: Generate, new_tokens: int) -> float:
    _wait()
    start = time.perf_counter()
    generate(new_tokens)
    _wait()
    return time.perf_counter() - start


def _wait() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def _profiled(generate: Generate, new_tokens: int) -> tuple[Counter[str], Counter[str]]:
    """How often each event occurred, and how long each kind of device activity took, by name."""
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    _wait()
    with torch.profiler.profile(activities=activities) as profiler:
        generate(new_tokens)
        _wait()
    counts: Counter[str] = Counter()
    times: Counter[str] = Counter()
    # The raw events: building torch's tree of 100,000 of them takes longer than all runs together.
    raw: Any = profiler.profiler
    for event in raw.kineto_results.events():
        name = event.name()
        counts[name] += 1
        if event.device_type().name == "CUDA":
            times[name] += event.duration_ns()
    return counts, times
