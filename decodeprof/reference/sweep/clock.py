"""How long does a step take when nothing watches, and the first run of it pays for nobody?

Steps are launched one behind the other with one wait at the end, so that the time is the larger of
the host's and the device's, as in a loop that never waits. A new shape makes libraries choose
kernels and memory grow: runs before the first sample are thrown away until they have settled.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

SAMPLES = 7
"""The median of so few is known to a few percent where the host is quiet."""
FEWEST_SAMPLES = 3
SAMPLE_SECONDS = 0.06
"""A sample's steps last this long: the wait at its end, some 20 µs, is lost in it."""
MOST_STEPS = 4_096
BUDGET_SECONDS = 2.0
"""For one point: no more samples after it."""
SETTLED = 1.1
"""A warm-up run that is no faster than the next one by this factor has nothing to pay for."""
MOST_WARM_UPS = 8
LAUNCHES = 200
"""Far fewer than the launch queue holds: none of them waits."""


def samples_ns(step: Callable[[], None], *, on_device: bool) -> list[int]:
    """Times of a step, each the mean over one run of several steps, in ns."""
    began = time.perf_counter()
    last = _seconds(step, 1, on_device=on_device)
    for _ in range(MOST_WARM_UPS):
        before, last = last, _seconds(step, 2, on_device=on_device) / 2
        if before < SETTLED * last and last < SETTLED * before:
            break
    steps = min(MOST_STEPS, max(2, int(SAMPLE_SECONDS / max(last, 1e-9)) + 1))
    found: list[int] = []
    while len(found) < SAMPLES:
        found.append(round(_seconds(step, steps, on_device=on_device) / steps * 1e9))
        if len(found) >= FEWEST_SAMPLES and time.perf_counter() - began > BUDGET_SECONDS:
            break
    return found


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


def _seconds(step: Callable[[], None], steps: int, *, on_device: bool) -> float:
    if on_device:
        torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(steps):
        step()
    if on_device:
        torch.cuda.synchronize()
    return time.perf_counter() - began
