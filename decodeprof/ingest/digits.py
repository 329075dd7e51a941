"""How does a decimal text of microseconds become exact integer nanoseconds?

By its digits. A float64 resolves epoch microseconds to 0.25 µs only, and rounding to whole
microseconds turns 0.2 % idle into 4.3 % on a trace of graph replays.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_HALF_EVEN, Decimal, InvalidOperation

import msgspec
import numpy as np
from numpy.typing import NDArray

from decodeprof.model.trace import I64, Bool

MISSING = int(np.iinfo(np.int64).min)
"""Stands in a column of ns for a text that is no time."""

# Larger than any epoch time in ns by far, and safely inside int64.
_LIMIT_NS = 2**62
# So many digits of ns are below the limit whatever they are.
_SAFE_DIGITS = 18
_COMMA, _POINT, _ZERO = ord(","), ord("."), ord("0")


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


def ns_from_texts(texts: Sequence[msgspec.Raw]) -> I64:
    """Convert a column of times as `ns_from_us` does, with `MISSING` in place of None.

    Profilers write plain digits with three places, or none. A column that has them throughout is
    converted at once, else texts of one length are, place by place. Anything else goes through
    `ns_from_us`, one by one.
    """
    text = b",".join(texts)
    plain = _with_three_places(text, len(texts))
    if plain is not None:
        return plain
    ns = np.full(len(texts), MISSING, np.int64)
    joined = np.frombuffer(text, np.uint8)
    ends = np.append(np.flatnonzero(joined == _COMMA), len(joined))
    odd = np.ones(len(texts), np.bool_)
    if len(ends) == len(texts):  # No comma in a text.
        starts = np.concatenate((ends[:0], [0], ends[:-1] + 1))[: len(texts)]
        lengths = ends - starts
        for length in np.unique(lengths).tolist():
            rows = np.flatnonzero(lengths == length)
            ns[rows], good = _of_one_length(joined, starts[rows], length)
            odd[rows] = ~good
    for row in np.flatnonzero(odd).tolist():
        value = ns_from_us(bytes(texts[row]))
        ns[row] = MISSING if value is None else value
    return ns


def _with_three_places(joined: bytes, count: int) -> I64 | None:
    """The values of texts that are all plain digits with three places; None if one is not."""
    text = np.frombuffer(joined, np.uint8)
    # Wraps to 10 and more for what is below a digit.
    others = np.flatnonzero(text - np.uint8(_ZERO) > 9)
    if not count or len(others) != 2 * count - 1:
        return None
    points, commas = others[::2], others[1::2]
    starts, ends = np.append(0, commas + 1), np.append(commas, len(text))
    sound = (
        (text[points] == _POINT).all()
        and (text[commas] == _COMMA).all()
        and (ends - points == len(".000")).all()
        and (points > starts).all()
        and (ends - starts <= _SAFE_DIGITS + len(".")).all()
    )
    # Without their points they are whole ns, which fit int64: nothing is rounded.
    return np.fromstring(joined.replace(b".", b""), np.int64, sep=",") if sound else None


def _of_one_length(text: NDArray[np.uint8], starts: I64, length: int) -> tuple[I64, Bool]:
    """The values of texts of `length` bytes, and which of them are plain digits."""
    point = length - 4
    decimal = point > 0 and bool((text[starts + point] == ord(".")).all())
    places = [k for k in range(length) if not (decimal and k == point)]
    ns = np.zeros(len(starts), np.int64)
    if not places or len(places) + (0 if decimal else 3) > _SAFE_DIGITS:
        return ns, np.zeros(len(starts), np.bool_)
    good = np.ones(len(starts), np.bool_)
    for place in places:
        digit = text[starts + place] - np.uint8(_ZERO)  # Wraps to 10 and more for other bytes.
        good &= digit <= 9
        ns *= 10
        ns += digit
    return (ns if decimal else ns * 1000), good
