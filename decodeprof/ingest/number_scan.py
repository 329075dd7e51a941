"""How are the decimal numbers at many places of a text read at once?

Eight bytes of the text are one integer, and the arithmetic on it is that on eight digits: a column
of numbers costs a few operations of numpy, whatever their digits.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
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
# Pieces that are copied together: they fit what the processor holds, and the allocator keeps.
_AT_ONCE = 128
_ZERO, _POINT = ord("0"), ord(".")
# µs of more than this may not fit int64 as ns.
_MOST_US = 2**62 // 1000


def _each(byte: int) -> np.uint64:
    return np.uint64(int.from_bytes(bytes([byte] * _WIDTH), "little"))


_ZEROS, _ONES, _LOW, _CARRY, _HIGH = (_each(b) for b in (_ZERO, 0x01, 0x7F, 0x76, 0x80))
_PAIRS, _FOURS = np.uint64(0x00FF00FF00FF00FF), np.uint64(0x0000FFFF0000FFFF)
_ONE, _SEVEN = np.uint64(1), np.uint64(7)
_TENS = 10 ** np.arange(_WIDTH + 1, dtype=np.int64)
# The low bytes of a word, by their number.
_MASKS = np.array([(1 << (8 * n)) - 1 for n in range(_WIDTH + 1)], np.uint64)


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
        self._held[: self.size] = text
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

    def pieces(self, cuts: I64) -> list[bytes]:
        """What lies between each two of the places, one after the other."""
        found: list[bytes] = []
        with memoryview(self._held) as held:
            for first in range(0, len(cuts) - 1, _AT_ONCE):
                some = cuts[first : first + _AT_ONCE + 1]
                text = bytes(held[int(some[0]) : int(some[-1])])
                found += [text[a:b] for a, b in pairwise((some - some[0]).tolist())]
        return found

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
        length = _leading_count(self.words[end - _WIDTH].byteswap())
        full = np.flatnonzero(length == _WIDTH)
        if len(full):
            length[full] += _leading_count(self.words[end[full] - _MOST_DIGITS].byteswap())
        runs = self.numbers(end - length)
        runs.keep(runs.end == end)
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
        begin, length = runs.begin, runs.length
        filled = _each(byte)
        whole = length >= _WIDTH
        if whole.any():
            first, last = begin[whole], runs.end[whole] - _WIDTH
            self.words[first] = filled
            self.words[last] = filled
            between = last - first > _WIDTH
            if between.any():
                self.words[first[between] + _WIDTH] = filled
        some = np.flatnonzero(~whole & (length > 0))
        if len(some):
            places, masks = begin[some], _MASKS[length[some]]
            self.words[places] = (self.words[places] & ~masks) | (filled & masks)


def _leading_count(words: U64) -> I64:
    """Bytes of each word that are digits, from the text's first one on, before any other."""
    digits = words ^ _ZEROS
    others = (((digits & _LOW) + _CARRY) | digits) & _HIGH
    lowest = others & (~others + _ONE)
    below = ((lowest - _ONE) & _ONES) * _ONES >> np.uint64(56)
    count: I64 = below.astype(np.int64) - (others != 0)
    return count


def _leading(words: U64) -> tuple[I64, I64]:
    """The value of those digits, and how many they are."""
    count = _leading_count(words)
    # Moved to the word's end, so that the last digit is the last byte; zeros come before.
    shift = ((_WIDTH - count) * 8).astype(np.uint64)
    digits = np.where(count > 0, (words ^ _ZEROS) << (shift & np.uint64(63)), np.uint64(0))
    digits = (digits * np.uint64(2561)) >> np.uint64(8)
    digits = ((digits & _PAIRS) * np.uint64(6553601)) >> np.uint64(16)
    digits = ((digits & _FOURS) * np.uint64(42949672960001)) >> np.uint64(32)
    return digits.astype(np.int64), count
