"""How much do unprofiled step times scatter, and do they drift?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from decodeprof import units
from decodeprof.model.charts import Charts
from decodeprof.model.diagnosis import Diagnosis, Distribution
from decodeprof.report.html.scale import Tick, percent, round_values

BINS = 40
FEWEST = 5
"""Fewer samples than this show no distribution."""
MOST_DOTS = 600
"""Dots of the plot in order; more lie on each other."""
_MARGIN = 0.04


@dataclass(frozen=True)
class BarOf:
    """One bin: where it starts, how high it is, and what it holds; percentages."""

    x: str
    width: str
    y: str
    height: str
    title: str


@dataclass(frozen=True)
class Dot:
    """One sample in order."""

    x: str
    y: str


@dataclass(frozen=True)
class Mark:
    """A quantile's place on the axis."""

    at: str
    label: str
    kind: str


@dataclass(frozen=True)
class Samples:
    """A histogram, and the same samples in the order in which they were taken."""

    bars: tuple[BarOf, ...]
    ticks: tuple[Tick, ...]
    marks: tuple[Mark, ...]
    dots: tuple[Dot, ...]
    runs: tuple[str, ...]
    """Where each call of the target begins in the plot in order."""
    count: int
    left_out: bool
    """The quantiles are of fewer samples than are drawn."""
    beyond: int
    """Samples above the axis' end."""
    low: str
    high: str
    """The ends of the axis, as text."""


def samples(diagnosis: Diagnosis, charts: Charts) -> Samples | None:
    """The distribution of step times; None where single steps were not timed."""
    step = diagnosis.step
    values = np.array([ns for run in charts.runs_step_ns for ns in run], np.int64)
    if step is None or step.unprofiled_ns is None or len(values) < FEWEST:
        return None
    # A first step that took ten times as long would press all others into one bin.
    top = min(int(values.max()), int(np.percentile(values, 99) * 1.1))
    low, high = int(values.min()), top
    pad = max(int((high - low) * _MARGIN), 1)
    low, high = max(0, low - pad), high + pad
    shown = np.minimum(values, high)
    counts, _ = np.histogram(shown, bins=BINS, range=(low, high))
    span = high - low
    return Samples(
        bars=_bars(counts.tolist(), low, span),
        ticks=_ticks(low, high),
        marks=_marks(step.unprofiled_ns, low, span),
        dots=_dots(shown, low, span),
        runs=_runs([len(run) for run in charts.runs_step_ns]),
        count=len(values),
        left_out=step.unprofiled_ns.n < len(values),
        beyond=int((values > high).sum()),
        low=units.time(low),
        high=units.time(high),
    )


def _bars(counts: list[int], low: int, span: int) -> tuple[BarOf, ...]:
    most = max(counts)
    return tuple(
        BarOf(
            x=percent(i / BINS),
            width=percent(1 / BINS),
            y=percent(1 - count / most),
            height=percent(count / most),
            title=f"{units.time(low + span * i / BINS)} – "
            f"{units.time(low + span * (i + 1) / BINS)}: {units.count(count)}",
        )
        for i, count in enumerate(counts)
        if count
    )


def _ticks(low: int, high: int) -> tuple[Tick, ...]:
    apart = round_values(high - low, 5)
    step = apart[1] if len(apart) > 1 else high - low
    first = -(-low // step) * step
    values = [first + step * i for i in range(int((high - first) // step) + 1)]
    return tuple(Tick(percent((v - low) / (high - low)), units.time(v)) for v in values)


def _marks(spread: Distribution, low: int, span: int) -> tuple[Mark, ...]:
    found = (("p10", spread.p10), ("median", spread.median), ("p90", spread.p90))
    return tuple(
        Mark(percent(min(1.0, max(0.0, (ns - low) / span))), f"{name} {units.time(ns)}", name)
        for name, ns in found
        if ns is not None
    )


def _dots(values: NDArray[np.int64], low: int, span: int) -> tuple[Dot, ...]:
    every = -(-len(values) // MOST_DOTS)
    n = len(values)
    return tuple(
        Dot(percent((i + 0.5) / n), percent(1 - (int(values[i]) - low) / span))
        for i in range(0, n, every)
    )


def _runs(lengths: list[int]) -> tuple[str, ...]:
    total, starts, at = sum(lengths), [], 0
    for length in lengths:
        starts.append(percent(at / total))
        at += length
    return tuple(starts[1:])
