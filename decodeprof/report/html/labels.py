"""Where does a circle's number stand so that it can be read? Inside it, or beside it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

ROOM_INSIDE = 8.0
"""Smallest radius, in pixels, that holds a digit of the picture's size."""
LETTER = 13.0
"""Two numbers' centres nearer than this, in pixels, run into each other."""
BESIDE = 7.0
"""Pixels from a circle's edge to the centre of a number beside it."""


@dataclass(frozen=True)
class Circle:
    """A numbered circle, in pixels."""

    x: float
    y: float
    radius: float


@dataclass(frozen=True)
class Label:
    """Where a circle's number goes, in pixels from its centre."""

    dx: float
    dy: float
    where: Literal["inside", "beside"]


def placed(circles: list[Circle]) -> list[Label]:
    """One label for each circle, in the order given: the first have the first choice.

    A number stands inside its circle where no smaller circle lies over it and no other number is
    near; else right, left, below or above; right again where all of these are taken.
    """
    taken: list[tuple[float, float]] = []
    labels = []
    for own, circle in enumerate(circles):
        choices = _choices(circle)
        free = (label for label in choices if _is_free(label, own, circles, taken))
        label = next(free, choices[1])
        taken.append((circle.x + label.dx, circle.y + label.dy))
        labels.append(label)
    return labels


def _choices(circle: Circle) -> tuple[Label, ...]:
    away = circle.radius + BESIDE
    return (
        Label(0, 0, "inside"),
        Label(away, 0, "beside"),
        Label(-away, 0, "beside"),
        Label(0, away, "beside"),
        Label(0, -away, "beside"),
    )


def _is_free(
    label: Label, own: int, circles: list[Circle], taken: list[tuple[float, float]]
) -> bool:
    circle = circles[own]
    if label.where == "inside" and circle.radius < ROOM_INSIDE:
        return False
    x, y = circle.x + label.dx, circle.y + label.dy
    if any(math.hypot(x - a, y - b) < LETTER for a, b in taken):
        return False
    # Smaller circles are drawn over larger ones, so that a larger one hides no number inside it.
    return not any(
        math.hypot(x - other.x, y - other.y) < other.radius + LETTER / 3
        for i, other in enumerate(circles)
        if i != own and (label.where == "beside" or other.radius <= circle.radius)
    )
