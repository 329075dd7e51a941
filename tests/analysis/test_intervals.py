"""Interval unions against sets of single nanoseconds."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from decodeprof.analysis.intervals import union

SPANS = st.lists(st.tuples(st.integers(-20, 60), st.integers(0, 12)), max_size=12)


def columns(spans: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    return (
        np.array([a for a, _ in spans], np.int64),
        np.array([a + n for a, n in spans], np.int64),
    )


def covered(spans: list[tuple[int, int]]) -> set[int]:
    return {t for a, n in spans for t in range(a, a + n)}


@given(spans=SPANS)
def test_a_union_covers_what_its_parts_cover(spans: list[tuple[int, int]]) -> None:
    merged = union(*columns(spans))
    ticks = covered(spans)
    assert merged.total_ns == len(ticks)
    assert {
        t for a, b in zip(merged.starts.tolist(), merged.ends.tolist(), strict=True)
        for t in range(a, b)
    } == ticks  # fmt: skip
    # Disjoint, sorted, never touching: holes are real.
    starts, ends = merged.holes()
    assert (ends > starts).all()
    assert merged.before.tolist() == [len([t for t in ticks if t < a]) for a in merged.starts]


@given(spans=SPANS, windows=SPANS)
def test_cover_within_windows(spans: list[tuple[int, int]], windows: list[tuple[int, int]]) -> None:
    merged, ticks = union(*columns(spans)), covered(spans)
    starts, ends = columns(windows)
    assert merged.within(starts, ends).tolist() == [
        len([t for t in range(a, a + n) if t in ticks]) for a, n in windows
    ]
    assert merged.until(starts).tolist() == [len([t for t in ticks if t < a]) for a, _ in windows]


def test_nothing_and_touching() -> None:
    empty = union(*columns([]))
    assert (empty.total_ns, len(empty.holes()[0])) == (0, 0)
    assert empty.within(*columns([(0, 9)])).tolist() == [0]
    assert union(*columns([(5, 0)])).total_ns == 0
    touching = union(*columns([(5, 5), (0, 5), (12, 1)]))
    assert (touching.starts.tolist(), touching.ends.tolist()) == ([0, 12], [10, 13])
