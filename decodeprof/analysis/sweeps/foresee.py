"""Where would the floors cross, as seen from the first point alone?

The device floor of the first point grows by what the others must read or compute beyond it, at the
device's rates; the host's time stays. This knows nothing of what kernels move beyond the least.
"""

from __future__ import annotations

from collections.abc import Sequence

from decodeprof.analysis.sweeps.crossing import Ratio, crossing
from decodeprof.model.sweep import Crossing, Point, Prediction


def foreseen(points: Sequence[Point], measured: Crossing) -> Prediction | None:
    """Foresee the crossing of the floors from the first point's floor, bytes and FLOPs.

    Args:
        points: by rising value; of those behind the first only bytes and FLOPs are used.
        measured: the crossing of the floors as it was found.

    Returns:
        None where the first point has no device floor, is not launch-bound, or has no roof.
    """
    good = [point for point in points if point.failed is None]
    if len(good) < 2:
        return None
    first = good[0]
    roofs = [max(point.bytes_ns or 0, point.flops_ns or 0) for point in good]
    if first.device_ns is None or not first.eager_ns or not all(roofs):
        return None
    if first.device_ns >= first.eager_ns:
        return None
    device = [first.device_ns + max(0, roof - roofs[0]) for roof in roofs]
    ratios = []
    for point, floor in zip(good, device, strict=True):
        ratio = floor / first.eager_ns
        ratios.append(Ratio(point.value, ratio, ratio, ratio))
    found = crossing("floors", ratios)
    if found.at is None:
        return Prediction(
            at=None, error_share=None, device_ns=device, reason="not up to the last point"
        )
    error = found.at / measured.at - 1 if measured.at else None
    return Prediction(at=found.at, error_share=error, device_ns=device)
