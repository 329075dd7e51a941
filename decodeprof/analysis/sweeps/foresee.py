"""Where would the floors cross, as seen from the first point alone?

The device floor of the first point grows by what the others must read or compute beyond it, at the
device's rates; the host's time stays. This knows nothing of what kernels move beyond the least.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

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


def with_steady_host(
    prediction: Prediction, points: Sequence[Point], measured: Crossing
) -> Prediction:
    """Add where the foreseen device floor reaches the host's time of the whole sweep.

    The first point's host may have been slower or faster than usual for as long as it was measured.
    That moves the crossing foreseen from it, and says nothing of how the device was foreseen.

    Args:
        prediction: of the points that did not fail.
        points: of the sweep.
        measured: the crossing of the floors as it was found.
    """
    good = [point for point in points if point.failed is None]
    if not good or not good[0].eager_ns or any(not point.host_ns for point in good):
        return prediction
    ratios = []
    for point, floor in zip(good, prediction.device_ns, strict=True):
        ratio = floor / (point.host_ns or 1)
        ratios.append(Ratio(point.value, ratio, ratio, ratio))
    at = crossing("floors", ratios).at
    return msgspec.structs.replace(
        prediction,
        steady_at=at,
        steady_error_share=at / measured.at - 1 if at and measured.at else None,
        first_host_share=good[0].eager_ns / (good[0].host_ns or 1) - 1,
    )
