"""What does a whole sweep say: where are the crossings, and which side is today's workload on?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import msgspec

from decodeprof import units
from decodeprof.analysis.sweeps.crossing import Ratio, crossing
from decodeprof.analysis.sweeps.floors import (
    LAUNCH_BOUND,
    Machine,
    launch_cost_ns,
    median,
    point_of,
)
from decodeprof.analysis.sweeps.foresee import foreseen, with_steady_host
from decodeprof.analysis.sweeps.larger import Larger, foreseen_by_replay
from decodeprof.analysis.sweeps.uncounted import with_stand_ins
from decodeprof.model.diagnosis import Range
from decodeprof.model.sweep import BucketPlan, Crossing, Measured, Point, Sweep

PLATEAU = 1.1
"""The eager curve has left its plateau when it stands this far above the host's time."""
GRAPH_WORTH = 1.1
"""A graph that gains less than a tenth is not worth its memory and its capture."""
ROOF_SHARE = 0.6
"""Of busy time that the larger of both roofs explains; the verdict's own threshold."""
DRIFT_SHARE = 0.05
"""A host that moved by more while it was measured blurs every crossing."""
SPREAD_SHARE = 0.2
"""A host that takes so much longer than at other points was slow there."""
NO_GPU = (
    "this ran on a CPU, which has no launch queue: it runs each operation when it is called, so "
    "there is no device to wait for the host, and nothing to cross"
)
NOT_COUNTED = "no profile has counted the points' kernels and their time"
NO_GAP = "the device's node gap was not measured"
NO_ROOF = "the device's bandwidth and arithmetic rate were not measured"
NO_GRAPH = "no graph was run"


@dataclass(frozen=True)
class Swept:
    """A sweep as it was measured.

    Attributes:
        again_ns: eager samples of the first point, measured again at the end.
        today: the value at which the reader's workload stands.
        larger: the first point's recorded step, replayed at each of the points that did not fail.
    """

    subject: str
    axis: str
    device: str | None
    torch: str
    points: Sequence[Measured]
    machine: Machine
    today: int
    again_ns: Sequence[int] = ()
    plans: Sequence[BucketPlan] = ()
    caveats: Sequence[str] = field(default_factory=tuple)
    larger: Sequence[Larger] = ()


def judge(swept: Swept) -> Sweep:
    """Derive every point's floors and find the crossings."""
    measured = sorted(swept.points, key=lambda point: point.value)
    measured, uncounted = with_stand_ins(measured, swept.machine, swept.axis)
    cost = launch_cost_ns(measured, swept.machine)
    points = [point_of(point, swept.machine, cost) for point in measured]
    crossings = _crossings(swept, points, cost)
    drift = _drift(measured, swept.again_ns)
    prediction = foreseen_by_replay(
        swept.larger,
        [point.value for point in points if point.failed is None],
        floors=crossings[0],
        plateau=crossings[1],
    ) or foreseen(points, crossings[0])
    return Sweep(
        subject=swept.subject,
        axis=swept.axis,
        device=swept.device,
        torch=swept.torch,
        node_gap_ns=swept.machine.node_gap_ns,
        bandwidth_bytes_per_s=swept.machine.bandwidth_bytes_per_s,
        flops_per_s=swept.machine.flops_per_s,
        launch_cost_ns=cost,
        drift_share=drift,
        today=swept.today,
        points=points,
        crossings=crossings,
        sentence=sentence(swept, points, crossings[0]),
        prediction=with_steady_host(prediction, points, crossings[0]) if prediction else None,
        plans=list(swept.plans),
        caveats=[
            *swept.caveats,
            *uncounted,
            *_caveats(drift),
            *_slow(points, swept.axis),
            *_clocks(measured),
        ],
    )


def _crossings(swept: Swept, points: Sequence[Point], cost: Range | None) -> list[Crossing]:
    on_gpu = swept.device is not None
    floors = NOT_COUNTED if all(p.busy_ns is None for p in points) else NO_GAP

    def spread(ratio: Callable[[Point], float | None]) -> list[Ratio]:
        """A ratio to the host's time, in the range of what a launch costs."""
        found = []
        for point in points:
            value = ratio(point)
            if value is None:
                continue
            low = high = value
            if cost is not None and cost.low:
                low, high = value * cost.expected / cost.high, value * cost.expected / cost.low
            found.append(Ratio(point.value, value, low, high))
        return found

    def exact(ratio: Callable[[Point], float | None]) -> list[Ratio]:
        values = [(point.value, ratio(point)) for point in points]
        return [Ratio(at, value, value, value) for at, value in values if value is not None]

    why_no_host = floors if cost is None and any(p.device_ns is None for p in points) else ""
    host_bound = spread(lambda p: _over(p.device_ns, p.host_ns))
    if not host_bound and cost is None and any(p.device_ns is not None for p in points):
        # No point waits for its host: the device decides from the first one on.
        host_bound = [Ratio(p.value, 2.0, 2.0, 2.0) for p in points if p.device_ns is not None]
    return [
        crossing("floors", host_bound, why_unknown=why_no_host or floors if on_gpu else NO_GPU),
        _plateau(points, spread, why_unknown=floors if on_gpu else NO_GPU),
        crossing(
            "roof",
            # Where nothing was counted, the device floor: a little more than the busy time.
            exact(lambda p: _over(_roof(p), p.graph_busy_ns or p.busy_ns or p.device_ns)),
            threshold=ROOF_SHARE,
            why_unknown=(NO_ROOF if all(_roof(p) is None for p in points) else NOT_COUNTED)
            if on_gpu
            else NO_GPU,
        ),
        crossing(
            "graph_gain",
            exact(lambda p: _over(p.graph_ns, p.eager_ns)),
            threshold=1 / GRAPH_WORTH,
            bends=True,
            why_unknown=NO_GRAPH if on_gpu else NO_GPU,
        ),
    ]


def _plateau(
    points: Sequence[Point],
    spread: Callable[[Callable[[Point], float | None]], list[Ratio]],
    *,
    why_unknown: str,
) -> Crossing:
    """Where the eager step leaves the host's time; one that waits for its host is no longer."""
    unbent = _unbent(points)
    waiting = {point.value for point in points if _waits(point)}
    ratios = [
        Ratio(r.value, *(min(share, 1.0) for share in (r.expected, r.low, r.high)))
        if r.value in waiting
        else r
        for r in spread(lambda p: _over(unbent.get(p.value, p.eager_ns), p.host_ns))
    ]
    found = crossing("plateau", ratios, threshold=PLATEAU, bends=True, why_unknown=why_unknown)
    if found.answer != "at" or found.between is None:
        return found
    before = next(point for point in points if point.value == found.between[0])
    share = next(ratio.expected for ratio in ratios if ratio.value == before.value)
    taken = round(share * (before.host_ns or 0))
    # The ratio of a measured step gives it back but for its rounding.
    same = before.eager_ns is not None and abs(taken - before.eager_ns) <= 1
    return found if same else msgspec.structs.replace(found, stand_in_ns=taken)


def _waits(point: Point) -> bool:
    """Whether the eager step waits for its host beyond doubt, however slow that was just then."""
    return bool(
        point.eager_ns and point.device_ns and point.eager_ns > LAUNCH_BOUND * point.device_ns
    )


def _unbent(points: Sequence[Point]) -> dict[int, int]:
    """The eager step at the last point on its plateau, had the device alone decided it.

    The measured curve bends between that point and the next: it is flat up to where the device's
    time reaches the host's, and follows the device from there. Beyond the bend it is as much longer
    than the device floor as at the next point.
    """
    known = [p for p in points if p.eager_ns and p.host_ns and p.device_ns]
    flat = [
        i
        for i, p in enumerate(known)
        if _waits(p) or (p.eager_ns or 0) < PLATEAU * (p.host_ns or 0)
    ]
    if not flat or flat[-1] == len(known) - 1:
        return {}
    last, after = known[flat[-1]], known[flat[-1] + 1]
    eager = round((last.device_ns or 0) * (after.eager_ns or 0) / (after.device_ns or 1))
    return {last.value: eager} if eager < (last.eager_ns or 0) else {}


def sentence(swept: Swept, points: Sequence[Point], floors: Crossing) -> str:
    """Which side today is on, and where the device's floor reaches the host's time."""
    if floors.answer == "unknown":
        return f"Cannot tell where launch-bound ends: {floors.reason}."
    axis = swept.axis
    today = next((point for point in points if point.value == swept.today), None)
    side = _side(today, axis) if today is not None else ""
    if floors.answer == "none":
        last = floors.between[1] if floors.between else swept.today
        return f"{side}The device does not reach the host's time up to {axis} {last:,}."
    if floors.answer == "before":
        first = floors.between[0] if floors.between else swept.today
        return f"{side}The device takes longer than the host from {axis} {first:,} on."
    assert floors.at is not None
    return (
        f"{side}The device needs as long as the host from {axis} {_rounded(floors.at)} on"
        f"{_interval(floors)}."
    )


def _side(point: Point, axis: str) -> str:
    if point.eager_ns is None or point.device_ns is None:
        return ""
    bound = point.host_ns is not None and point.device_ns < point.host_ns
    return (
        f"At {axis} {point.value:,} the eager step is "
        f"{'launch-bound' if bound else 'device-bound'}: {units.time(point.eager_ns)}, of which "
        f"the device needs {units.time(min(point.device_ns, point.eager_ns))}. "
    )


def _interval(found: Crossing) -> str:
    """In parentheses; nothing where no spread is known, which is no certainty."""
    low, high = _rounded(found.low), _rounded(found.high)
    return "" if low == high else f" ({low} to {high})"


def _rounded(value: float | None) -> str:
    """Two digits: a crossing is not known better."""
    if value is None:
        return units.UNKNOWN
    digits = max(len(str(int(value))) - 2, 0)
    return f"{round(value, -digits):,.0f}" if value >= 10 else f"{value:.2g}"


def _over(numerator: int | None, denominator: int | None) -> float | None:
    return None if numerator is None or not denominator else numerator / denominator


def _roof(point: Point) -> int | None:
    known = [time for time in (point.bytes_ns, point.flops_ns) if time is not None]
    return max(known) if known else None


def _drift(points: Sequence[Measured], again_ns: Sequence[int]) -> float | None:
    first = median(points[0].eager_ns) if points else None
    again = median(again_ns)
    return None if not first or again is None else again / first - 1


def host_was_slow(point: Point) -> bool:
    """Whether the eager step waits for a host that took longer than over all such points."""
    return bool(
        _waits(point)
        and point.eager_ns
        and point.host_ns
        and point.eager_ns > (1 + SPREAD_SHARE) * point.host_ns
    )


def _slow(points: Sequence[Point], axis: str) -> list[str]:
    """Points that wait for a host that was slow all the while, which their own samples hide."""
    slow = [
        f"{point.value:,} ({units.share(point.eager_ns / point.host_ns - 1)})"
        for point in points
        if host_was_slow(point) and point.eager_ns and point.host_ns
    ]
    if not slow:
        return []
    return [
        f"the eager step waits for its host at {axis} {_and(slow)} and takes so much longer than "
        "the host's time over all launch-bound points: the host was slow there"
    ]


def _and(parts: Sequence[str]) -> str:
    return " and ".join([", ".join(parts[:-1]), parts[-1]]) if len(parts) > 1 else parts[0]


def _clocks(points: Sequence[Measured]) -> list[str]:
    """That the device was not equally fast at all points, told by a graph of tiny kernels."""
    known = {point.value: point.node_ns for point in points if point.node_ns}
    if not known or max(known.values()) <= (1 + DRIFT_SHARE) * min(known.values()):
        return []
    slow, fast = max(known, key=known.__getitem__), min(known, key=known.__getitem__)
    return [
        "the device's clocks moved: a node of the same graph took "
        f"{units.time(known[slow])} beside point {slow:,} and {units.time(known[fast])} beside "
        f"{fast:,}, so that times of points compare to "
        f"{units.share(known[slow] / known[fast] - 1)} only; eager and graph of one point were "
        "sampled in turn"
    ]


def _caveats(drift: float | None) -> list[str]:
    if drift is None or abs(drift) <= DRIFT_SHARE:
        return []
    return [
        f"the first point took {units.share(abs(drift))} {'longer' if drift > 0 else 'less'} when "
        "it was measured again at the end: the host's speed moved"
    ]
