"""What is the least that a point's step can take, on this host and on this device?

The host's floor cannot be read off a device-bound step, which hides it. Launching takes the same
for each kernel whatever its size, so the cost of one activity is taken from the points that are
launch-bound beyond doubt, and multiplied with each point's number of activities.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from decodeprof.model.diagnosis import Range
from decodeprof.model.sweep import Measured, Point

LAUNCH_BOUND = 1.25
"""An eager step this much longer than the device floor waits for its host: a tenth would be the
threshold of a verdict, and points near it would blur the cost of a launch."""


@dataclass(frozen=True)
class Machine:
    """What the device can do at best; None: not measured."""

    node_gap_ns: int | None
    bandwidth_bytes_per_s: float | None
    flops_per_s: float | None


def device_floor_ns(measured: Measured, machine: Machine) -> int | None:
    """Busy time and one node gap for each activity; or what stands in for it."""
    if measured.busy_ns is None and measured.device_ns is not None:
        return measured.device_ns
    if measured.busy_ns is None or measured.activities is None or machine.node_gap_ns is None:
        return None
    return measured.busy_ns + round(measured.activities * machine.node_gap_ns)


def launch_cost_ns(points: Sequence[Measured], machine: Machine) -> Range | None:
    """Host time for each activity: lowest, median and highest over the launch-bound points.

    None: no point is launch-bound, or nothing was counted.
    """
    costs = []
    for point in points:
        floor = device_floor_ns(point, machine)
        if floor is None or not point.activities or not point.eager_ns:
            continue
        eager = statistics.median(point.eager_ns)
        if eager > LAUNCH_BOUND * floor:
            costs.append(eager / point.activities)
    if not costs:
        return None
    return Range(
        low=round(min(costs)), expected=round(statistics.median(costs)), high=round(max(costs))
    )


def host_ns(measured: Measured, cost_ns: float | None) -> float | None:
    """The host's floor at a point."""
    if measured.host_ns is not None:
        return measured.host_ns
    if cost_ns is None or measured.activities is None:
        return None
    return cost_ns * measured.activities


def point_of(measured: Measured, machine: Machine, cost: Range | None) -> Point:
    """Derive a point's figures."""
    eager, graph = median(measured.eager_ns), median(measured.graph_ns)
    known = [time for time in (eager, graph) if time is not None]
    best = min(known) if known else None
    device = device_floor_ns(measured, machine)
    host = host_ns(measured, cost.expected if cost else None)
    eager_low, eager_high = eager_range_ns(measured) or (None, None)
    graph_low, graph_high = range_ns(measured.graph_ns) or (None, None)
    return Point(
        value=measured.value,
        eager_ns=eager,
        eager_p10_ns=eager_low,
        eager_p90_ns=eager_high,
        graph_ns=graph,
        graph_p10_ns=graph_low,
        graph_p90_ns=graph_high,
        predicted_graph_ns=measured.predicted_graph_ns,
        kernels=measured.kernels,
        busy_ns=measured.busy_ns,
        graph_busy_ns=measured.graph_busy_ns,
        tklqt_ns=measured.tklqt_ns,
        host_ns=None if host is None else round(host),
        device_ns=device,
        bytes_ns=_time_ns(measured.bytes, machine.bandwidth_bytes_per_s),
        flops_ns=_time_ns(measured.flops, machine.flops_per_s),
        exposed_launch_share=None if device is None or not eager else max(0.0, 1 - device / eager),
        mbu_share=_share(measured.bytes, best, machine.bandwidth_bytes_per_s),
        mfu_share=_share(measured.flops, best, machine.flops_per_s),
        graph_gain=eager / graph if eager and graph else None,
        tokens_per_s=measured.tokens * 1e9 / best if measured.tokens and best else None,
        failed=measured.failed,
    )


def median(samples: Sequence[int]) -> int | None:
    """The median, None of nothing."""
    return round(statistics.median(samples)) if samples else None


def eager_range_ns(measured: Measured) -> tuple[int, int] | None:
    """p10 and p90 of a point's eager step; None where there is no more than one sample."""
    return measured.eager_range_ns or range_ns(measured.eager_ns)


def range_ns(samples: Sequence[int]) -> tuple[int, int] | None:
    """p10 and p90, each a sample, rounded outwards; None of fewer than two."""
    if len(samples) < 2:
        return None
    ordered, last = sorted(samples), len(samples) - 1
    return ordered[last // 10], ordered[-(-9 * last // 10)]


def _time_ns(amount: int | None, per_s: float | None) -> int | None:
    return None if amount is None or not per_s else round(amount / per_s * 1e9)


def _share(amount: int | None, step_ns: int | None, per_s: float | None) -> float | None:
    if amount is None or not step_ns or not per_s:
        return None
    return amount / (step_ns / 1e9) / per_s
