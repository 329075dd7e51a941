"""How does a decimal text of microseconds become exact integer nanoseconds?

By its digits. A float64 resolves epoch microseconds to 0.25 µs only, and rounding to whole
microseconds turns 0.2 % idle into 4.3 % on a trace of graph replays.
"""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Decimal, InvalidOperation

# Larger than any epoch time in ns by far, and safely inside int64.
_LIMIT_NS = 2**62


def ns_from_us(text: bytes) -> int | None:
    """Convert JSON text of a time in µs to ns; None for null, nothing, NaN, infinity or nonsense.

    A number in quotes is read as the number (one vendor's profiler writes strings). Digits below
    a nanosecond are rounded half to even.
    """
    if text[-4:-3] == b".":
        digits = text[:-4] + text[-3:]
        if digits.isdigit() and len(digits) < 40:
            return _in_range(int(digits))
    elif text.isdigit() and len(text) < 40:
        return _in_range(int(text) * 1000)
    return _by_decimal(text.strip(b'"').strip())


def _by_decimal(text: bytes) -> int | None:
    try:
        value = Decimal(text.decode("ascii"))
    except (InvalidOperation, UnicodeDecodeError):
        return None
    if not value.is_finite() or value.adjusted() > 18:
        return None
    ns = int((value * 1000).to_integral_value(rounding=ROUND_HALF_EVEN))
    return _in_range(ns)


def _in_range(ns: int) -> int | None:
    return ns if abs(ns) < _LIMIT_NS else None
