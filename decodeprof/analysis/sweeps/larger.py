"""Where would a step of more rows leave the host's time, as replayed from a step of few?

Its kernels grow as `growth` says; the host does what it did. Replay then says how long the step is,
and the device floor is what it is everywhere: busy time and a node gap for each activity.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from decodeprof.analysis.replay.program import Program
from decodeprof.analysis.replay.run import replay
from decodeprof.analysis.replay.what_if import device_floor_ns
from decodeprof.analysis.sweeps.crossing import Ratio, crossing
from decodeprof.analysis.sweeps.growth import Growth, Rates
from decodeprof.model.sweep import Crossing, Prediction

LEFT_PLATEAU = 1.1
"""A step this much longer than the recorded one has left the host's time, as for a measured one."""
MOST_UNKNOWN_SHARE = 0.1
"""Of a step's device time may be in kernels that are not known to grow: the threshold of verdicts.
With more of them the foreseen device floor would be one of other kernels."""


FINER = 8
"""Steps replayed between two points where a curve crosses: one that bends there, as the step does
that leaves the host's time, is then known to a few percent."""


@dataclass(frozen=True)
class Larger:
    """A step of so many rows, replayed."""

    value: int
    step_ns: int
    device_ns: int


def larger_steps(
    program: Program, growth: Growth, values: Sequence[int], *, rates: Rates, node_gap_ns: int
) -> list[Larger]:
    """Replay a step at other numbers of rows.

    Args:
        program: of the recorded step, its host work in unprofiled time.
        growth: of the program's activities, row by row.
        values: the numbers of rows, rising; the first is the recorded one.
        rates: what the device does at best.
        node_gap_ns: between the nodes of a graph.

    Returns:
        The steps at these, and some more where a curve crosses.
    """

    def at(value: int) -> Larger:
        grown = replace(program, duration_ns=growth.at(value, rates))
        return Larger(value, replay(grown).step_ns, device_floor_ns(grown, node_gap_ns))

    found = [at(value) for value in values]
    finer: set[int] = set()
    for left, right in pairwise(found):
        for curve, level in (("device_ns", 1.0), ("step_ns", LEFT_PLATEAU)):
            wanted = level * found[0].step_ns
            if getattr(left, curve) < wanted <= getattr(right, curve):
                finer |= set(_between(left.value, right.value))
    return sorted([*found, *map(at, finer)], key=lambda step: step.value)


def _between(low: int, high: int) -> list[int]:
    """Some whole numbers between two, evenly spaced by their logarithms."""
    steps = [low * (high / low) ** (index / FINER) for index in range(1, FINER)]
    return sorted({round(step) for step in steps} - {low, high})


def foreseen_by_replay(
    steps: Sequence[Larger], values: Sequence[int], *, floors: Crossing, plateau: Crossing
) -> Prediction | None:
    """Foresee both crossings.

    Args:
        steps: by rising value; the first is the recorded one.
        values: of the sweep's points.
        floors: the crossing of the floors as it was measured.
        plateau: where the eager step left its plateau, as it was measured.

    Returns:
        None where the recorded step is not launch-bound: its host's time is then unknown.
    """
    if len(steps) < 2 or steps[0].device_ns >= steps[0].step_ns:
        return None
    host_ns = steps[0].step_ns

    def cross(values: Sequence[float], threshold: float) -> float | None:
        ratios = [
            Ratio(step.value, value / host_ns, value / host_ns, value / host_ns)
            for step, value in zip(steps, values, strict=True)
        ]
        return crossing("floors", ratios, threshold=threshold).at

    at = cross([step.device_ns for step in steps], 1.0)
    plateau_at = cross([step.step_ns for step in steps], LEFT_PLATEAU)
    return Prediction(
        method="replay",
        at=at,
        error_share=_error(at, floors.at),
        plateau_at=plateau_at,
        plateau_error_share=_error(plateau_at, plateau.at),
        device_ns=[step.device_ns for step in steps if step.value in values],
        eager_ns=[step.step_ns for step in steps if step.value in values],
        reason="" if at is not None else "not up to the last point",
    )


def _error(foreseen: float | None, measured: float | None) -> float | None:
    return foreseen / measured - 1 if foreseen is not None and measured else None
