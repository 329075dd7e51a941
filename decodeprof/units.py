"""How a number with a unit is written for a person: one place, so that all reports agree.

Times enter as integer nanoseconds. Three significant digits are shown, since host times repeat to
about a percent at best.
"""

from __future__ import annotations

import math

UNKNOWN = "unknown"

_TIME_UNITS = ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "µs"), (1, "ns"))
_BYTE_UNITS = ((10**12, "TB"), (10**9, "GB"), (10**6, "MB"), (10**3, "kB"), (1, "B"))


def _three_digits(value: float) -> str:
    magnitude = abs(value)
    if magnitude >= 100 or value == int(value):
        return f"{value:,.0f}"
    if magnitude >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}"


def time(ns: float | None) -> str:
    """Write a time given in nanoseconds, e.g. ``33.7 ms``; None is "unknown"."""
    if ns is None:
        return UNKNOWN
    if ns == 0:
        return "0"
    for size, unit in _TIME_UNITS:
        if abs(ns) >= size:
            return f"{_three_digits(ns / size)} {unit}"
    return f"{ns:.2f} ns"


def bytes_(count: float | None) -> str:
    """Write a number of bytes in decimal units, as memory bandwidths are quoted."""
    if count is None:
        return UNKNOWN
    for size, unit in _BYTE_UNITS:
        if abs(count) >= size:
            return f"{_three_digits(count / size)} {unit}"
    return "0 B"


def bandwidth(bytes_per_s: float | None) -> str:
    """Write a bandwidth given in bytes a second, e.g. ``4.27 TB/s``."""
    return UNKNOWN if bytes_per_s is None else f"{bytes_(bytes_per_s)}/s"


def flops(flops_per_s: float | None) -> str:
    """Write an arithmetic rate given in operations a second, e.g. ``733 TFLOP/s``."""
    return UNKNOWN if flops_per_s is None else f"{_three_digits(flops_per_s / 1e12)} TFLOP/s"


def count(value: float | None) -> str:
    """Write a count, which may be a mean per step: whole numbers have no decimals."""
    if value is None:
        return UNKNOWN
    if value == int(value):
        return f"{int(value):,}"
    return f"{value:,.1f}" if abs(value) >= 100 else f"{value:.3g}"


def counted(value: float | None, one: str, many: str = "") -> str:
    """Write a count with its noun: ``1 kernel``, ``2,508 kernels``, ``unknown kernels``.

    Args:
        value: the count, which may be a mean per step.
        one: what one of them is called; a verb may follow it.
        many: what several are called; empty: `one` and an "s".
    """
    number = count(value)
    return f"{number} {one if number == '1' else many or f'{one}s'}"


def at_least(value: float) -> str:
    """Write a share (0 to 1) that is a lower bound, which no rounding may raise."""
    percent = round(100 * value, 9)
    # As many digits as `share` shows; a tiny bound keeps the first of its own.
    digits = 1 if 0 < percent < 10 or 99.5 <= percent < 100 else 0
    if 0 < percent < 0.1:
        digits = -math.floor(math.log10(percent))
    return f"at least {math.floor(percent * 10**digits) / 10**digits:.{digits}f} %"


def share(value: float | None) -> str:
    """Write a share (0 to 1) as a percentage; never rounds a remainder away to 100 % or 0 %."""
    if value is None:
        return UNKNOWN
    percent = 100 * value
    if 0 < percent < 0.1:
        return "< 0.1 %"
    if 99.9 < percent < 100:
        return "> 99.9 %"
    if 99.5 <= percent < 100:
        return f"{percent:.1f} %"
    return f"{percent:.0f} %" if percent >= 10 or percent == 0 else f"{percent:.1f} %"


def ratio(value: float | None) -> str:
    """Write a ratio, e.g. ``1.25 ×``."""
    return UNKNOWN if value is None else f"{_three_digits(value)} ×"
