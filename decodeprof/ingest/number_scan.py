"""How are the decimal numbers at many places of a text read at once?

Eight bytes of the text are one integer, and the arithmetic on it is that on eight digits: a column
of numbers costs a few operations of numpy, whatever their digits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decodeprof.model.trace import I64, Bool

U64 = NDArray[np.uint64]

_WIDTH = 8
_MOST_DIGITS = 2 * _WIDTH
_PLACES = 3
# So that eight bytes can be taken behind any place.
_PADDING = bytes(4 * _WIDTH)
_ZERO, _POINT = ord("0"), ord(".")
# µs of more than this may not fit int64 as ns.
_MOST_US = 2**62 // 1000


def _each(byte: int) -> np.uint64:
    return np.uint64(int.from_bytes(bytes([byte] * _WIDTH), "little"))


_ZEROS, _ONES, _LOW, _CARRY, _HIGH = (_each(b) for b in (_ZERO, 0x01, 0x7F, 0x76, 0x80))
_PAIRS, _FOURS = np.uint64(0x00FF00FF00FF00FF), np.uint64(0x0000FFFF0000FFFF)
_ONE, _SEVEN, _TOP = np.uint64(1), np.uint64(7), np.uint64(56)
_TENS = 10 ** np.arange(_WIDTH + 1, dtype=np.int64)
# Moves so many low bytes of a word to its top; and those that are there already.
_UP = np.array([256 ** (_WIDTH - n) % 2**64 for n in range(_WIDTH + 1)], np.uint64)
_AT_TOP = np.array([2**64 - 256 ** (_WIDTH - n) for n in range(_WIDTH + 1)], np.uint64)


@dataclass
class Runs:
    """Digits at many places of a text, one run for each; a run of length 0 is none."""

    begin: I64
    length: I64
    value: I64

    @property
    def end(self) -> I64:
        """Behind each run."""
        return self.begin + self.length

    def keep(self, which: Bool) -> None:
        """Make the others runs of length 0."""
        self.length = self.length * which


class Text:
    """A copy of a text, whose numbers can be read and blanked.

    Texts that are held one after the other reuse their memory: that of a block is as large as what
    the allocator gives back to the system, and fetching it anew takes longer than filling it.
    """

    def __init__(self) -> None:
        self.size = 0
        self._held = bytearray()
        self.hold(memoryview(b""))

    def hold(self, text: memoryview) -> None:
        """Copy a text, in place of the one before."""
        self.size = len(text)
        if self.size + len(_PADDING) > len(self._held):
            self._held = bytearray(self.size + len(_PADDING))
            self._found = np.empty(len(self._held), np.bool_)
        with memoryview(self._held) as held:  # A bytearray would copy the text once more.
            held[: self.size] = text
        self._held[self.size : self.size + len(_PADDING)] = _PADDING
        self.data = np.frombuffer(self._held, np.uint8, self.size + len(_PADDING))
        words: Any = np.ndarray((self.size + len(_PADDING) - _WIDTH + 1,), "<u8", self._held,
                                strides=(1,))  # fmt: skip
        self.words: U64 = words

    def places(self, byte: int) -> I64:
        """Where a byte is in the text."""
        found = self._found[: self.size]
        np.equal(self.data[: self.size], byte, out=found)
        return np.flatnonzero(found)

    def pieces(self, begin: I64, end: I64) -> list[bytes]:
        """What lies between each two places."""
        with memoryview(self._held) as held:
            ends = end.tolist()
            return [held[a:b].tobytes() for a, b in zip(begin.tolist(), ends, strict=True)]

    def rows(self, begin: I64, size: int) -> NDArray[np.uint8]:
        """The bytes from each place on, a row of `size` for each; they lie in the text."""
        found: NDArray[np.uint8] = self._windows(size)[begin].view(np.uint8).reshape(-1, size)
        return found

    def _windows(self, size: int) -> Any:
        """The `size` bytes from every place on, each as one value."""
        return np.ndarray((self.size - size + 1,), f"V{size}", self._held, strides=(1,))

    def numbers(self, begin: I64) -> Runs:
        """The digits from each place on: up to 16, without a zero before others."""
        value, length = _leading(self.words[begin])
        full = np.flatnonzero(length == _WIDTH)
        if len(full):
            more, digits = _leading(self.words[begin[full] + _WIDTH])
            value[full] = value[full] * _TENS[digits] + more
            length[full] += digits
        good = (self.data[begin + length] - np.uint8(_ZERO) > 9) & (
            (self.data[begin] != _ZERO) | (length == 1)
        )
        runs = Runs(begin, length, value)
        runs.keep(good)
        return runs

    def numbers_before(self, end: I64) -> Runs:
        """The digits up to each place, counted back: up to 16; places must be at 16 or later."""
        value, length = _trailing(self.words[end - _WIDTH])
        full = np.flatnonzero(length == _WIDTH)
        if len(full):
            more, digits = _trailing(self.words[end[full] - _MOST_DIGITS])
            value[full] += more * _TENS[_WIDTH]
            length[full] += digits
        runs = Runs(end - length, length, value)
        runs.keep((self.data[runs.begin] != _ZERO) | (length == 1))
        return runs

    def times(self, begin: I64) -> Runs:
        """Read µs with three decimal places, or none, as ns; a run is the whole text of a time."""
        runs = self.numbers(begin)
        point = (self.data[runs.end] == _POINT) & (runs.length > 0)
        value = runs.value * 1000
        good = runs.value <= _MOST_US
        if point.any():
            decimals, places = _leading(self.words[runs.end + 1])
            value += np.where(point, decimals, 0)
            good &= ~point | (places == _PLACES)
        runs.value = value
        runs.length = np.where(point, runs.length + 1 + _PLACES, runs.length)
        runs.keep(good)
        return runs

    def blank(self, runs: Runs, byte: int) -> None:
        """Write one byte all over each run."""
        for size in np.flatnonzero(np.bincount(runs.length)).tolist():
            if size:
                which = runs.length == size
                self._windows(size)[runs.begin[which]] = np.void(bytes([byte]) * size)


def _leading(words: U64) -> tuple[I64, I64]:
    """The value of each word's digits, from the text's first one on, and how many they are."""
    digits = words ^ _ZEROS
    count = _digits_below(digits)
    # Moved to the word's end, so that the last digit is the last byte; zeros come before.
    digits *= _UP[count]
    return _value(digits), count


def _trailing(words: U64) -> tuple[I64, I64]:
    """The same of the digits up to each word's end."""
    digits = words ^ _ZEROS
    count = _digits_below(digits.byteswap())
    digits &= _AT_TOP[count]
    return _value(digits), count


def _digits_below(digits: U64) -> I64:
    """Bytes of each word, from its lowest one on, before any that is above 9."""
    others = digits & _LOW
    others += _CARRY
    others |= digits
    others &= _HIGH
    # Each bit below the lowest of them, then one bit for each whole byte of those.
    below = others - _ONE
    below &= ~others
    below >>= _SEVEN
    below &= _ONES
    below *= _ONES
    below >>= _TOP
    return below.view(np.int64)


def _value(digits: U64) -> I64:
    """The number that each word's eight digits are."""
    value = digits * np.uint64(2561)
    value >>= np.uint64(8)
    value &= _PAIRS
    value *= np.uint64(6553601)
    value >>= np.uint64(16)
    value &= _FOURS
    value *= np.uint64(42949672960001)
    value >>= np.uint64(32)
    return value.view(np.int64)
