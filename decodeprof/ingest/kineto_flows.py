"""Are the arrows of a block, which nothing needs, JSON at all?

They are three of ten events, so that only one of each length is parsed; others differ from it in
digits, and are compared.
"""

from __future__ import annotations

from typing import Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from decodeprof.ingest.number_scan import Text
from decodeprof.ingest.salvage import UNREADABLE
from decodeprof.model.trace import I64

BETWEEN = b",\n  "
"""What stands between two events, and between their lines."""
_ZERO = ord("0")


class NotUnderstoodError(Exception):
    """A block has to be parsed."""


class _Flow(msgspec.Struct, gc=False):
    """An arrow between two events, of which nothing is needed."""

    ph: Literal["s", "f", "t"]


_FLOWS = msgspec.json.Decoder(list[_Flow])


def list_of(text: bytes) -> bytes:
    """Texts of events as a JSON array."""
    return b"[" + text.removesuffix(BETWEEN) + b"]"


def check_flows(text: Text, begin: I64, end: I64) -> None:
    """Of texts that differ in their digits alone the first one is parsed, and each other text.

    Raises:
        NotUnderstoodError: one of them is no JSON of a flow.
    """
    length = end - begin
    parsed: list[bytes] = []
    for size in set(length.tolist()):
        texts = text.rows(begin[length == size], size)
        lowest, span = _as_sound(texts[0])
        alike = texts - lowest <= span
        parsed.append(texts[0].tobytes())
        if not alike.all():
            parsed.append(texts[~alike.all(axis=1)].tobytes())
    try:
        _FLOWS.decode(list_of(b"".join(parsed)))
    except UNREADABLE:
        raise NotUnderstoodError from None


def _as_sound(text: NDArray[np.uint8]) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """The lowest byte at each place, and how far above it others may be, so that JSON stays JSON.

    A digit may be another one, but none gets a zero at its front that it had not.
    """
    lowest, span = text.copy(), np.zeros_like(text)
    digit = text - np.uint8(_ZERO) <= 9
    if not (text == ord("\\")).any():  # Digits behind it may be half of a character.
        lowest[digit], span[digit] = _ZERO, 9
        first = digit.copy()
        first[1:] &= ~digit[:-1] & (text[:-1] != ord("."))
        lowest[first] = np.minimum(text[first], _ZERO + 1)
        span[first] = np.where(text[first] == _ZERO, 0, 8)
    return lowest, span
