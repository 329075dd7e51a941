"""What is known of a point that was timed and that no profile counted?

Its graph's step leaves out the host, so it tells the device's own time; its kernels are those of
the points beside it, where these agree. Both are taken only where the counted points bear it out.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from decodeprof import units
from decodeprof.analysis.sweeps.floors import Machine, device_floor_ns, median
from decodeprof.model.sweep import Measured

AGREES_SHARE = 0.1
"""How far a graph's step may lie from the device floor at any counted point to stand in for it at
others: a step is called launch-bound or not by a tenth, too."""


def with_stand_ins(
    points: Sequence[Measured], machine: Machine, axis: str
) -> tuple[list[Measured], list[str]]:
    """Give points that were not counted what the counted ones allow.

    Args:
        points: of one sweep.
        machine: what the device can do.
        axis: the name of what varies.

    Returns:
        The points, and a caveat that names those that were not counted.
    """
    counted = [point for point in points if point.busy_ns is not None]
    bare = [p for p in points if p.busy_ns is None and p.eager_ns and p.failed is None]
    if not counted or not bare:
        return list(points), []
    named = f"no profile counted {axis} {', '.join(f'{point.value:,}' for point in bare)}"
    off = _disagreement(counted, machine)
    activities = {point.activities for point in counted}
    if off is None or off > AGREES_SHARE or len(activities) > 1:
        return list(points), [f"{named}: what needs the kernels is unknown there"]
    filled = [
        msgspec.structs.replace(
            point, device_ns=median(point.graph_ns), activities=counted[0].activities
        )
        if point in bare and point.graph_ns
        else point
        for point in points
    ]
    caveat = (
        f"{named}: the graph's step stands in for the device floor there ({units.share(off)} from "
        "it at most where both are known), and as many kernels are taken as all counted points have"
    )
    return filled, [caveat]


def _disagreement(counted: Sequence[Measured], machine: Machine) -> float | None:
    """The largest distance of a graph's step from the device floor, as a share of the floor."""
    found = []
    for point in counted:
        floor, graph = device_floor_ns(point, machine), median(point.graph_ns)
        if floor and graph:
            found.append(abs(graph / floor - 1))
    return max(found) if found else None
