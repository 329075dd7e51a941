"""How near to the roof is each kernel? Achieved bandwidth over arithmetic intensity."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

from decodeprof import units
from decodeprof.model.charts import Charts, RoofPoint
from decodeprof.report.html.labels import Circle, Label, placed
from decodeprof.report.html.scale import Tick, decades, log_share, percent
from decodeprof.report.names import cleaned, short_kernel_name

NS_PER_S = 1_000_000_000
LARGEST_RADIUS = 22.0
SMALLEST_RADIUS = 3.0
HEIGHT = 296
"""Of the plot, in pixels, as the page draws it."""
WIDTH = 600
"""Of the plot, in pixels: between a telephone's and a screen's, to place numbers by."""
LEAST_KNOWN = 0.05
"""Share of the kernel time below which a picture would show what does not matter: the copies and
sets around a graph whose kernels are not known."""
_NEEDS = (
    "unknown: it takes the bytes of a step's kernels and the device's bandwidth, "
    "and not both are known"
)
LABELLED = 8
"""Points with a number in the picture and a row below it: what they leave takes little time."""
LOWEST_BYTES_PER_S = 1e9
"""The axis ends here: what moves less than this hardly reads memory at all."""
_NO_FLOPS_ROOM = 0.22
"""Share of the width for kernels whose arithmetic is not counted."""
_SPREAD = (0.5, 0.14, 0.86, 0.32, 0.68)
"""Where in that room they stand: beside each other, since they have no place on the axis."""


@dataclass(frozen=True)
class RoofDot:
    """One kernel name."""

    x: str
    y: str
    radius: str
    family: str
    number: int | None
    """Its row below the picture; None: not among the longest."""
    label: Label | None
    """Where its number stands; None: it has none."""
    title: str


@dataclass(frozen=True)
class RoofRow:
    """A labelled point's figures, as text."""

    number: int
    name: str
    family: str
    count: str
    time: str
    achieved: str
    share: str


@dataclass(frozen=True)
class RoofPicture:
    """Everything in percentages of the picture."""

    dots: tuple[RoofDot, ...]
    rows: tuple[RoofRow, ...]
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    roof_y: str
    roof_label: str
    slope: tuple[str, str, str, str] | None
    """The falling part of the roof, x1 y1 x2 y2; None: the arithmetic rate is not known."""
    ridge_label: str
    left_room: str
    known: str


@dataclass(frozen=True)
class RoofUnknown:
    """There were kernels, and hardly one's bytes are known."""

    text: str


def roofline(charts: Charts) -> RoofPicture | RoofUnknown | None:
    """The picture, or why there is none; None where no kernel was recorded."""
    found = charts.roofline
    if found is None:
        return RoofUnknown(_NEEDS) if charts.timeline else None
    if found.known_time_share < LEAST_KNOWN:
        left = units.share(1 - found.known_time_share)
        return RoofUnknown(f"unknown: the bytes of {left} of the step's kernel time are not known")
    axes = _Axes.of(found.points, found.bandwidth_bytes_per_s, found.flops_per_s)
    points = _merged(found.points)
    longest = points[0].time_ns
    beside = itertools.cycle(_NO_FLOPS_ROOM * share for share in _SPREAD)
    # The longest first: the small lie on top, where they can be seen.
    places = [
        (axes.x(_intensity(p)) if p.flops else next(beside), axes.y(_rate(p)), _radius(p, longest))
        for p in points
    ]
    labels = placed([Circle(x * WIDTH, y * HEIGHT, r) for x, y, r in places[:LABELLED]])
    dots = [
        RoofDot(
            x=percent(x),
            y=percent(y),
            radius=f"{radius:.1f}",
            family=point.family,
            number=i + 1 if i < LABELLED else None,
            label=labels[i] if i < LABELLED else None,
            title=f"{point.name}: {units.bandwidth(_rate(point))}, "
            f"{units.time(point.time_ns)} a step",
        )
        for i, (point, (x, y, radius)) in enumerate(zip(points, places, strict=True))
    ]
    return RoofPicture(
        dots=tuple(dots),
        rows=tuple(
            _row(i, point, found.bandwidth_bytes_per_s)
            for i, point in enumerate(points[:LABELLED], 1)
        ),
        x_ticks=axes.x_ticks(),
        y_ticks=axes.y_ticks(),
        roof_y=percent(axes.y(found.bandwidth_bytes_per_s)),
        roof_label=units.bandwidth(found.bandwidth_bytes_per_s),
        slope=axes.slope(found.bandwidth_bytes_per_s, found.flops_per_s),
        ridge_label="" if found.flops_per_s is None else f"{found.flops_per_s / 1e12:,.3g} TFLOP/s",
        left_room=percent(_NO_FLOPS_ROOM),
        known=units.share(found.known_time_share),
    )


def _merged(points: list[RoofPoint]) -> list[RoofPoint]:
    """Points of one short name as one, longest time first: instances of one template."""
    groups: dict[tuple[str, str], list[RoofPoint]] = {}
    for point in points:
        groups.setdefault((point.family, short_kernel_name(cleaned(point.name))), []).append(point)
    merged = [
        RoofPoint(
            family=family,
            name=name,
            count=sum(p.count for p in group),
            time_ns=sum(p.time_ns for p in group),
            bytes=sum(p.bytes for p in group),
            flops=sum(p.flops for p in group),
        )
        for (family, name), group in groups.items()
    ]
    return sorted(merged, key=lambda p: (-p.time_ns, p.name))


def _intensity(point: RoofPoint) -> float:
    return point.flops / point.bytes


def _rate(point: RoofPoint) -> float:
    return point.bytes * NS_PER_S / point.time_ns


def _radius(point: RoofPoint, longest_ns: int) -> float:
    """Area is proportional to time, so that two half as long look like one."""
    return max(SMALLEST_RADIUS, LARGEST_RADIUS * math.sqrt(point.time_ns / longest_ns))


def _row(number: int, point: RoofPoint, bandwidth: float) -> RoofRow:
    return RoofRow(
        number=number,
        name=point.name,
        family=point.family,
        count=units.count(point.count),
        time=units.time(point.time_ns),
        achieved=units.bandwidth(_rate(point)),
        share=units.share(_rate(point) / bandwidth),
    )


@dataclass(frozen=True)
class _Axes:
    """Two logarithmic axes; `x` leaves room on the left for what has no intensity."""

    x_low: float
    x_high: float
    y_low: float
    y_high: float

    @staticmethod
    def of(points: list[RoofPoint], bandwidth: float, flops: float | None) -> _Axes:
        rates = [max(LOWEST_BYTES_PER_S, _rate(p)) for p in points]
        intensities = [_intensity(p) for p in points if p.flops > 0] or [1.0]
        ridge = flops / bandwidth if flops else 1.0
        x = decades(min(0.1, *intensities), max(10.0, 2 * ridge, *intensities))
        y = decades(min(1e10, *rates), max(bandwidth * 1.2, *rates))
        return _Axes(x[0], x[-1], y[0], y[-1])

    def x(self, intensity: float) -> float:
        share = log_share(intensity, self.x_low, self.x_high)
        return _NO_FLOPS_ROOM + (1 - _NO_FLOPS_ROOM) * share

    def y(self, bytes_per_s: float) -> float:
        return 1 - log_share(max(bytes_per_s, self.y_low), self.y_low, self.y_high)

    def x_ticks(self) -> tuple[Tick, ...]:
        return tuple(
            Tick(percent(self.x(v)), f"{v:,.12g}") for v in decades(self.x_low, self.x_high)
        )

    def y_ticks(self) -> tuple[Tick, ...]:
        return tuple(
            Tick(percent(self.y(v)), units.bandwidth(v)) for v in decades(self.y_low, self.y_high)
        )

    def slope(self, bandwidth: float, flops: float | None) -> tuple[str, str, str, str] | None:
        if not flops:
            return None
        ridge = flops / bandwidth
        return (
            percent(self.x(ridge)),
            percent(self.y(bandwidth)),
            percent(self.x(self.x_high)),
            percent(self.y(flops / self.x_high)),
        )
