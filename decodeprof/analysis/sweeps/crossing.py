"""Where does one curve overtake another, and how well is that known?

Between two points both curves are taken for straight lines on logarithmic axes: what grows like a
power of the axis is one. A curve that has not overtaken at the last point is an answer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from decodeprof.model.sweep import Crossing


@dataclass(frozen=True)
class Ratio:
    """One curve over another at each point, with the range in which the truth may lie."""

    value: int
    expected: float
    low: float
    high: float


def crossing(
    kind: str,
    ratios: Sequence[Ratio],
    *,
    threshold: float = 1.0,
    bends: bool = False,
    why_unknown: str = "",
) -> Crossing:
    """Find where a ratio rises to a threshold and stays there.

    Args:
        kind: as in `Crossing`.
        ratios: by rising value; points that failed are left out.
        threshold: what is to be reached.
        bends: the curve is no power of the axis where it crosses, as the larger of two curves is
            none where they meet: the interval is then no finer than the points.
        why_unknown: the reason where there are no ratios.
    """
    ratios = sorted(ratios, key=lambda ratio: ratio.value)
    if not ratios:
        return Crossing(kind=kind, answer="unknown", reason=why_unknown)  # type: ignore[arg-type]
    above = [ratio.expected >= threshold for ratio in ratios]
    if not above[-1]:
        last = ratios[-1].value
        return Crossing(kind=kind, answer="none", between=(last, last))  # type: ignore[arg-type]
    if all(above):
        first = ratios[0].value
        return Crossing(kind=kind, answer="before", between=(first, first))  # type: ignore[arg-type]
    # A curve may touch the threshold in noise: the last rise is the one after which it stays.
    below = max(index for index, reached in enumerate(above) if not reached)
    at = _between(ratios, below, [r.expected for r in ratios], threshold)
    early = _rise(ratios, [r.high for r in ratios], threshold)
    late = _rise(ratios, [r.low for r in ratios], threshold)
    low = min(at, early if early is not None else ratios[0].value)
    high = max(at, late if late is not None else ratios[-1].value)
    if bends:
        low, high = min(low, ratios[below].value), max(high, ratios[below + 1].value)
    return Crossing(
        kind=kind,  # type: ignore[arg-type]
        answer="at",
        at=at,
        low=low,
        high=high,
        between=(ratios[below].value, ratios[below + 1].value),
    )


def _rise(ratios: Sequence[Ratio], curve: Sequence[float], threshold: float) -> float | None:
    """Where a curve rises to the threshold for good; None: it does not within the points."""
    below = [index for index, ratio in enumerate(curve) if ratio < threshold]
    if not below or below[-1] == len(curve) - 1:
        return None
    return _between(ratios, below[-1], curve, threshold)


def _between(
    ratios: Sequence[Ratio], index: int, curve: Sequence[float], threshold: float
) -> float:
    left, right = ratios[index].value, ratios[index + 1].value
    low, high = math.log(max(curve[index], 1e-12)), math.log(curve[index + 1])
    share = (math.log(threshold) - low) / (high - low)
    return math.exp(math.log(left) + share * (math.log(right) - math.log(left)))
