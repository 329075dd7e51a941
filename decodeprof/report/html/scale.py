"""Where does a value stand on an axis, and which values get a tick?"""

from __future__ import annotations

import math
from dataclasses import dataclass

_STEPS = (1, 2, 5, 10)


@dataclass(frozen=True)
class Tick:
    """A labelled place on an axis; `at` is a percentage of its length."""

    at: str
    label: str


def percent(share: float) -> str:
    """A share of a length as SVG and CSS write it; short, since a page holds thousands."""
    return f"{round(100 * share, 3):g}%"


def round_values(largest: float, most: int) -> list[float]:
    """Round values from 0 up to at most `largest`: 1, 2 or 5 times a power of ten apart."""
    if largest <= 0 or not math.isfinite(largest):
        return [0.0]
    raw = largest / most
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * s for s in _STEPS if power * s >= raw * (1 - 1e-9))
    return [step * i for i in range(math.floor(largest / step + 1e-9) + 1)]


def decades(low: float, high: float) -> list[float]:
    """Powers of ten from `low` to `high`, both among them."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    return [10.0**exponent for exponent in range(first, last + 1)]


def log_share(value: float, low: float, high: float) -> float:
    """Where a value stands between two powers, 0 to 1, on a logarithmic axis."""
    share = (math.log10(value) - math.log10(low)) / (math.log10(high) - math.log10(low))
    return min(1.0, max(0.0, share))
