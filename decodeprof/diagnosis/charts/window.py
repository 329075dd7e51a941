"""Which stretch of a trace is drawn? Two steady decode steps in a row, where there are two."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from decodeprof import units
from decodeprof.analysis.steps.found import Steps
from decodeprof.diagnosis.evidence import Evidence
from decodeprof.model.trace import I64

MOST_ACTIVITIES = 9_000
"""Device activities that are drawn: two steps of a plain loop hold about 5,000, and a page with
more than this grows beyond a megabyte."""


@dataclass(frozen=True)
class Window:
    """A stretch of time on one device, and the steps in it."""

    start_ns: int
    end_ns: int
    steps: tuple[int, ...]
    caption: str
    device: int


def window_of(evidence: Evidence) -> Window | None:
    """Choose what is drawn; None: nothing ran on a device."""
    if evidence.device is None:
        return None
    chosen = _steps(evidence)
    if chosen:
        start, end = _span(evidence.steps, chosen)
        caption = _caption(evidence.steps, chosen)
    else:
        mine = evidence.trace.device.device == evidence.device
        start = int(evidence.trace.device.start_ns[mine].min())
        end = int(evidence.trace.device.end_ns[mine].max())
        caption = "the whole trace, since no step was found in it"
    return _bounded(evidence, start, end, steps=chosen, caption=caption, device=evidence.device)


def _steps(evidence: Evidence) -> tuple[int, ...]:
    """The step whose times are reported, and a neighbour: a steady one, else the most alike."""
    figures = evidence.decode or evidence.prefill
    if figures is None:
        known = np.flatnonzero(evidence.steps.device_start_ns >= 0).tolist()
        return (int(known[0]),) if known else ()
    shown, steps = figures.shown, evidence.steps
    if evidence.decode is None:
        return (shown,)
    near = [
        other
        for other in (shown + 1, shown - 1)
        if 0 <= other < steps.count and steps.measured[other] and steps.phases[other] == "decode"
    ]
    if not near:
        return (shown,)
    usual = int(steps.window_ns[shown])
    best = min(near, key=lambda i: (not steps.steady[i], abs(int(steps.window_ns[i]) - usual)))
    return tuple(sorted((shown, best)))


def _span(steps: Steps, chosen: tuple[int, ...]) -> tuple[int, int]:
    return int(steps.device_start_ns[chosen[0]]), int(steps.device_end_ns[chosen[-1]])


def _caption(steps: Steps, chosen: tuple[int, ...]) -> str:
    kind = "prefill" if steps.phases[chosen[0]] == "prefill" else "decode step"
    if len(chosen) == 1:
        steady = "" if steps.steady[chosen[0]] or kind == "prefill" else ", which is not steady"
        return f"one {kind}{steady}"
    if all(steps.steady[step] for step in chosen):
        return f"two steady {kind}s in a row"
    return f"two {kind}s in a row, not both steady"


def _bounded(
    evidence: Evidence, start: int, end: int, *, steps: tuple[int, ...], caption: str, device: int
) -> Window:
    """The window, cut where it holds more than a page can draw; that it is cut is said."""
    table = evidence.trace.device
    inside: I64 = np.flatnonzero(
        (table.device == device) & (table.start_ns < end) & (table.end_ns > start)
    ).astype(np.int64)
    if len(inside) > MOST_ACTIVITIES:
        end = int(table.end_ns[inside[:MOST_ACTIVITIES]].max())
        caption += (
            f"; only its first {units.time(end - start)} are drawn, which hold "
            f"{units.count(MOST_ACTIVITIES)} of "
            f"{units.counted(len(inside), 'device activity', 'device activities')}"
        )
    return Window(start_ns=start, end_ns=end, steps=steps, caption=caption, device=device)
