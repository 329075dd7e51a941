"""How are curves drawn with characters: both axes logarithmic, one letter a curve?"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from decodeprof import units

HEIGHT = 14
NARROWEST, WIDEST = 24, 200
"""Cells between the axis and the right end; a wider terminal shows no more of ten points."""


@dataclass(frozen=True)
class Curve:
    """Points of one kind; those with an unknown y are left out.

    Attributes:
        mark: one character, another for each curve.
        points: x and y, both above 0.
    """

    mark: str
    name: str
    points: tuple[tuple[int, float | None], ...]

    def known(self) -> list[tuple[int, float]]:
        """The points that can be drawn."""
        return [(x, y) for x, y in self.points if y is not None and y > 0 and x > 0]


def drawn(curves: Sequence[Curve], *, x_name: str, width: int) -> list[str]:
    """Draw times over an axis; y is in ns. Empty where fewer than two points are known.

    Args:
        curves: where several share a cell, their letters stand in turn.
        x_name: of the axis below.
        width: that no line is to exceed, in cells; a picture is at most 200 wide and its axis.
    """
    known = [point for curve in curves for point in curve.known()]
    xs, ys = [x for x, _ in known], [y for _, y in known]
    if len(set(xs)) < 2:
        return []
    ticks = _ticks(min(ys), max(ys))
    gutter = max(len(units.time(tick)) for tick in ticks) + 2
    columns = min(max(width - gutter, NARROWEST), WIDEST)
    low, high = math.log(ticks[0]), math.log(ticks[-1])
    cells: list[list[str]] = [[""] * columns for _ in range(HEIGHT)]
    for curve in curves:
        for x, y in _line(curve, columns=columns, left=min(xs), right=max(xs)):
            row = round((math.log(y) - low) / (high - low) * (HEIGHT - 1))
            if curve.mark not in cells[HEIGHT - 1 - row][x]:
                cells[HEIGHT - 1 - row][x] += curve.mark
    at_row = {
        HEIGHT - 1 - round((math.log(tick) - low) / (high - low) * (HEIGHT - 1)): tick
        for tick in ticks
    }
    lines = []
    for row, line in enumerate(cells):
        label = units.time(at_row[row]) if row in at_row else ""
        lines.append(f"{label:>{gutter - 2}} ┤{_letters(line)}".rstrip())
    left, right = f"{min(xs):,}", f"{max(xs):,}"
    between = x_name.center(max(columns - len(left) - len(right), len(x_name) + 2))
    lines.append(f"{'':>{gutter - 1}}└{'─' * columns}")
    lines.append(f"{'':>{gutter}}{left}{between}{right}")
    return [*lines, *_legend(curves, width)]


def _legend(curves: Sequence[Curve], width: int) -> list[str]:
    """The letters and their curves, as many on a line as fit."""
    lines = [""]
    for curve in curves:
        if curve.known():
            told = f"{curve.mark} {curve.name}"
            longer = f"{lines[-1]}   {told}" if lines[-1] else told
            if len(longer) > width and lines[-1]:
                lines.append(told)
            else:
                lines[-1] = longer
    return lines


def _letters(line: Sequence[str]) -> str:
    """A row of cells: one that several curves share shows now one and now another."""
    return "".join(marks[x % len(marks)] if marks else " " for x, marks in enumerate(line))


def _line(curve: Curve, *, columns: int, left: int, right: int) -> list[tuple[int, float]]:
    """Column and height of a curve, straight between its points on logarithmic axes."""
    span = math.log(right / left)

    def column(x: int) -> int:
        return round(math.log(x / left) / span * (columns - 1))

    points = sorted(curve.known())
    found = [(column(x), y) for x, y in points[:1]]
    for (x0, y0), (x1, y1) in itertools.pairwise(points):
        first, last = column(x0), column(x1)
        for at in range(first + 1, last + 1):
            share = (at - first) / (last - first)
            found.append((at, y0 * (y1 / y0) ** share))
    return found


def _ticks(low: float, high: float) -> list[float]:
    """Round values, 1, 2 or 5 times a power of ten, from below the lowest to above the highest."""
    steps = [1.0, 2.0, 5.0] if high / low < 2_000 else [1.0]
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    every = [step * 10.0**power for power in range(first, last + 1) for step in steps]
    below = max(tick for tick in every if tick <= low)
    above = min(tick for tick in every if tick >= high and tick > below)
    return [tick for tick in every if below <= tick <= above]
