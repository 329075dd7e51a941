"""Numbers that are read eight digits at once are those that `int` reads, one by one."""

from __future__ import annotations

import re

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from decodeprof.ingest.digits import ns_from_us
from decodeprof.ingest.number_scan import Text

FRONT = b"x" * 16
whole = st.integers(0, 10**16 - 1)
after = st.sampled_from([b",", b" ", b"}", b"\xff", b"/", b":", b"\n", b"e"])


def held(joined: bytes) -> Text:
    text = Text()
    text.hold(memoryview(b"1" * 1000))  # What was held before leaves nothing behind.
    text.hold(memoryview(joined))
    return text


def laid_out(texts: list[bytes], ends: list[bytes]) -> tuple[bytes, np.ndarray]:
    """The texts with something behind each of them, and where they begin."""
    joined, begin = FRONT, []
    for text, end in zip(texts, ends, strict=True):
        begin.append(len(joined))
        joined += text + end
    return joined, np.array(begin, np.int64)


@given(st.lists(st.tuples(whole, after), min_size=1, max_size=40))
def test_whole_numbers_from_both_ends(cases: list[tuple[int, bytes]]) -> None:
    values = [value for value, _ in cases]
    joined, begin = laid_out([b"%d" % value for value in values], [end for _, end in cases])
    text = held(joined)
    runs = text.numbers(begin)
    assert runs.value.tolist() == values
    assert runs.length.tolist() == [len(str(value)) for value in values]
    back = text.numbers_before(runs.end)
    assert (back.begin.tolist(), back.value.tolist()) == (begin.tolist(), values)
    text.blank(runs, 1)
    assert text.data[: text.size].tobytes() == re.sub(rb"\d", b"\x01", joined)


@given(st.lists(st.tuples(st.integers(0, 4 * 10**18), st.booleans()), min_size=1, max_size=40))
def test_times(cases: list[tuple[int, bool]]) -> None:
    texts = [
        b"%d.%03d" % divmod(ns, 1000) if point else b"%d" % (ns // 1000) for ns, point in cases
    ]
    joined, begin = laid_out(texts, [b", "] * len(texts))
    runs = held(joined).times(begin)
    assert runs.length.tolist() == list(map(len, texts))
    assert runs.value.tolist() == list(map(ns_from_us, texts))


@given(st.binary(max_size=3000), st.integers(0, 255))
def test_places_and_pieces(joined: bytes, byte: int) -> None:
    text = held(joined)
    places = text.places(byte)
    assert places.tolist() == [i for i, b in enumerate(joined) if b == byte]
    cuts = np.concatenate(([0], places, [len(joined)]))
    pieces = text.pieces(cuts[:-1], cuts[1:])
    assert b"".join(pieces) == joined
    assert pieces[1:] == [bytes([byte]) + t for t in joined.split(bytes([byte]))[1:]]


def test_rows_are_the_bytes_from_each_place() -> None:
    rows = held(b"abcdefgh").rows(np.array([0, 5, 2]), 3)
    assert [row.tobytes() for row in rows] == [b"abc", b"fgh", b"cde"]


@given(st.lists(st.binary(max_size=24), min_size=1, max_size=20))
def test_what_is_no_such_number_is_none(texts: list[bytes]) -> None:
    joined, begin = laid_out(texts, [b","] * len(texts))
    text = held(joined)
    number = rb"0|[1-9]\d{0,15}(?!\d)"
    time = rb"(?:0|[1-9]\d{0,15})(?:\.\d{3}(?!\d)|(?![.\d]))"
    for found, expected in ((text.numbers(begin), number), (text.times(begin), time)):
        for at, length in zip(begin.tolist(), found.length.tolist(), strict=True):
            match = re.compile(expected).match(joined, at)
            assert length in (0, len(match[0]) if match else 0)
