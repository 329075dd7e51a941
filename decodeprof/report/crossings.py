"""How are a sweep's crossings told: where, by which rule, and as foreseen from its first point?"""

from __future__ import annotations

import bisect

from decodeprof import units
from decodeprof.model.sweep import Crossing, Prediction, Sweep
from decodeprof.report.blocks import Block, Fact, Facts, Note, Paragraph, Span, line

HOST_SHARE = 0.1
"""A host that was off by less at the first point is not to blame for a miss."""
_TITLES = {
    "floors": ("device floor reaches the host's time", "device = host"),
    "plateau": ("eager step leaves its plateau", "eager = 1.1 × host"),
    "roof": ("kernels reach the roof", "bytes or FLOPs floor = 0.6 × busy (a graph's, if known)"),
    "graph_gain": ("a graph stops paying", "eager = 1.1 × graph"),
}
_FORESEEN_FROM = {
    "floors": "its device floor and what the others must read and compute beyond it",
    "replay": "its recorded step replayed with kernels that grow by their bytes, FLOPs, elements "
    "and blocks",
}


def crossing_blocks(sweep: Sweep) -> tuple[Block, ...]:
    """Each crossing, and the rule by which a reader finds it again."""
    reasons = {crossing.reason for crossing in sweep.crossings}
    if len(reasons) == 1 and all(crossing.answer == "unknown" for crossing in sweep.crossings):
        return (Note("unknown", line(f"none can be told: {reasons.pop()}")),)
    facts = []
    for crossing in sweep.crossings:
        name, how = _TITLES[crossing.kind]
        facts.append(Fact(name, line(_answer(crossing, sweep.axis)), line(Span(how, "muted"))))
    return (Facts(tuple(facts)), *_how_found(sweep))


def _how_found(sweep: Sweep) -> tuple[Block, ...]:
    """By which rule a reader finds the same crossings from the points."""
    if all(crossing.answer != "at" for crossing in sweep.crossings):
        return ()
    notes = [
        "Between two points a curve is a straight line on logarithmic axes. In parentheses: with "
        "the lowest and the highest cost of a launch; for a step's own curve, which bends, both "
        "points at least."
    ]
    notes += [_stand_in(sweep, found) for found in sweep.crossings if found.stand_in_ns is not None]
    return tuple(Note("hint", line(text)) for text in notes)


def _stand_in(sweep: Sweep, crossing: Crossing) -> str:
    """What was taken for the eager step at the last point of its plateau, and why."""
    low, high = crossing.between or (0, 0)
    before, after = (
        next(point for point in sweep.points if point.value == value) for value in (low, high)
    )
    text = f"The eager step bends between its last point on the plateau, {low:,}, and {high:,}: "
    if crossing.stand_in_ns == before.host_ns:
        return f"{text}at {low:,} it waits for its host, whose time is taken in its place."
    ratio = (after.eager_ns or 0) / (after.device_ns or 1)
    return (
        f"{text}for {low:,}, {units.time(crossing.stand_in_ns)} is taken, its device floor × "
        f"{ratio:.2f}, which is eager ÷ device at {high:,}."
    )


def _answer(crossing: Crossing, axis: str) -> str:
    between = crossing.between or (0, 0)
    if crossing.answer == "none":
        return f"none up to {axis} {between[1]:,}"
    if crossing.answer == "before":
        return f"before {axis} {between[0]:,}"
    if crossing.answer == "unknown":
        return f"unknown: {crossing.reason}"
    low, high = _number(crossing.low), _number(crossing.high)
    # Without a spread that is known, the points on either side are all that can be said.
    interval = "" if low == high else f" ({low} to {high})"
    return (
        f"{axis} {_number(crossing.at)}{interval}, between points {between[0]:,} and {between[1]:,}"
    )


def prediction_blocks(sweep: Sweep) -> tuple[Block, ...]:
    """What was foreseen from the first point alone, and by how much it missed."""
    prediction = sweep.prediction
    if prediction is None:
        return ()
    first, last = sweep.points[0].value, sweep.points[-1].value
    seen = f"the floors were foreseen not to cross up to {sweep.axis} {last:,}"
    if prediction.at is not None:
        seen = f"the floors were foreseen to cross at {sweep.axis} {_number(prediction.at)}"
        seen += _off(prediction.error_share)
    if prediction.plateau_at is not None:
        seen += f", and the eager step to leave its plateau at {_number(prediction.plateau_at)}"
        seen += _off(prediction.plateau_error_share)
    how = _FORESEEN_FROM[prediction.method]
    text = f"From {sweep.axis} {first:,} alone, that is, {how}, {seen}."
    measured = sweep.crossings[0]
    good = [point for point in sweep.points if point.failed is None]
    if prediction.at is None and measured.at is not None:
        index = bisect.bisect_left([point.value for point in good], measured.at)
        foreseen, point = prediction.device_ns[index], good[index]
        text += (
            f" That misses: at {sweep.axis} {point.value:,} the device was to need "
            f"{units.time(foreseen)} and takes {units.time(point.device_ns)}. "
            "Its kernels move more than the least, or more slowly."
        )
    return (Paragraph(line(text)), *_steady(sweep, prediction))


def _steady(sweep: Sweep, prediction: Prediction) -> tuple[Block, ...]:
    """What of a miss is the host's, which was not as fast at the first point as at others."""
    share = prediction.first_host_share or 0
    if abs(share) <= HOST_SHARE or prediction.steady_at is None:
        return ()
    text = (
        f"At {sweep.axis} {sweep.points[0].value:,} the host took {units.share(abs(share))} "
        f"{'longer' if share > 0 else 'less'} than over the launch-bound points together. With its "
        f"time over all of them the floors would have been foreseen to cross at "
        f"{_number(prediction.steady_at)}{_off(prediction.steady_error_share)}."
    )
    return (Paragraph(line(text)),)


def _off(error_share: float | None) -> str:
    if error_share is None:
        return ""
    sign = "above" if error_share > 0 else "below"
    return f", {units.share(abs(error_share))} {sign} what was measured"


def _number(value: float | None) -> str:
    return units.UNKNOWN if value is None else units.count(float(f"{value:.2g}"))
