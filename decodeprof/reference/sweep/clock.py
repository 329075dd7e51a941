"""How long does a step take when nothing watches, and the first run of it pays for nobody?

Steps are launched one behind the other with one wait at the end, so that the time is the larger of
the host's and the device's, as in a loop that never waits. A new shape makes libraries choose
kernels and memory grow: runs before the first sample are thrown away until they have settled. Then
the device is kept at work until its clocks are those of a long run, and what is compared is sampled
in turn, so that all of it is measured in one state.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext

import torch

from decodeprof.reference.graphs import capture

SAMPLES = 7
"""The median of so few is known to a few percent where the host is quiet."""
FEWEST_SAMPLES = 3
SAMPLE_SECONDS = 0.1
"""A sample's steps last this long: the wait at its end, some 20 µs, is lost in it."""
MOST_STEPS = 4_096
BUDGET_SECONDS = 4.0
"""For one point's samples: no more after it."""
LOAD_SECONDS = 1.2
"""A device at full load lowers its clocks within a second: a sample before that would be faster
than the loop for which it stands."""
SETTLED = 1.1
"""A warm-up run that is no faster than the next one by this factor has nothing to pay for."""
MOST_WARM_UPS = 8
LAUNCHES = 200
"""Far fewer than the launch queue holds: none of them waits."""
NODES, NODE_RUNS = 1_000, 5
"""Enough of both for the time of a node to 1 %, in 20 ms."""


def samples_ns(step: Callable[[], None], *, on_device: bool) -> list[int]:
    """Times of a step, each the mean over one run of several steps, in ns."""
    return samples_in_turn([step], on_device=on_device)[0]


def samples_in_turn(steps: Sequence[Callable[[], None]], *, on_device: bool) -> list[list[int]]:
    """Times of several kinds of step, sampled in turn; the last of them loads the device before.

    Args:
        steps: each is run by itself, one behind the other.
        on_device: whether a device is at work, which has to be waited for and loaded.

    Returns:
        For each kind its samples, each the mean over one run of several steps, in ns.
    """
    counts = [_steps_a_sample(_settled_s(step, on_device=on_device)) for step in steps]
    if on_device:
        load(steps[-1], counts[-1])
    began = time.perf_counter()
    found: list[list[int]] = [[] for _ in steps]
    while len(found[0]) < SAMPLES:
        for step, count, samples in zip(steps, counts, found, strict=True):
            samples.append(round(_seconds(step, count, on_device=on_device) / count * 1e9))
        if len(found[0]) >= FEWEST_SAMPLES and time.perf_counter() - began > BUDGET_SECONDS:
            break
    return found


def load(step: Callable[[], None], steps: int = 1, *, seconds: float = LOAD_SECONDS) -> None:
    """Keep the device at work until its clocks are those of a long run.

    Args:
        step: what it runs.
        steps: between two looks at the clock.
        seconds: how long.
    """
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        _seconds(step, steps, on_device=True)


def _settled_s(step: Callable[[], None], *, on_device: bool) -> float:
    """How long a step takes, about, once nothing has to be paid for."""
    last = _seconds(step, 1, on_device=on_device)
    for _ in range(MOST_WARM_UPS):
        before, last = last, _seconds(step, 2, on_device=on_device) / 2
        if before < SETTLED * last and last < SETTLED * before:
            break
    return last


def _steps_a_sample(step_s: float) -> int:
    return min(MOST_STEPS, max(2, int(SAMPLE_SECONDS / max(step_s, 1e-9)) + 1))


def launch_ns() -> int:
    """Host time of launching one tiny kernel: how fast this host is at this moment."""
    one = torch.zeros(1, device="cuda")
    one.add_(1)
    torch.cuda.synchronize()
    began = time.perf_counter_ns()
    for _ in range(LAUNCHES):
        one.add_(1)
    took = time.perf_counter_ns() - began
    torch.cuda.synchronize()
    return took // LAUNCHES


class Speed:
    """The speed that the device has at a moment, told by a graph of tiny kernels.

    Its clocks move by a sixth and more, for seconds or minutes, with what it and its neighbours do;
    the time of a node of always the same graph tells by how much.
    """

    def __init__(self) -> None:
        one = torch.zeros(1, device="cuda")

        def adds() -> None:
            for _ in range(NODES):
                one.add_(1)

        self._graph = capture(
            adds,
            pool=torch.cuda.graph_pool_handle(),
            generator=torch.Generator("cuda"),
            kept=nullcontext(),
        )

    def node_ns(self) -> int:
        """Time of a node, its kernel and the gap to the next one included."""
        runs = [_seconds(self._graph.replay, 1, on_device=True) for _ in range(NODE_RUNS)]
        return round(statistics.median(runs) / NODES * 1e9)


def _seconds(step: Callable[[], None], steps: int, *, on_device: bool) -> float:
    if on_device:
        torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(steps):
        step()
    if on_device:
        torch.cuda.synchronize()
    return time.perf_counter() - began
