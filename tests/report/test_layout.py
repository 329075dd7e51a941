from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from decodeprof.report.layout import NARROWEST_COLUMN, apportioned, column_widths


@given(st.lists(st.integers(1, 10**12), min_size=1, max_size=8), st.integers(0, 200))
def test_apportioned_fills_the_cells_and_shows_every_part(values: list[int], cells: int) -> None:
    given_cells = apportioned(values, cells)
    assert sum(given_cells) == max(cells, len(values))
    assert min(given_cells) >= 1
    order = sorted(range(len(values)), key=values.__getitem__)
    ordered = [given_cells[i] for i in order]
    # A larger part is never drawn shorter, but for the one cell by which rounding decides a tie.
    assert all(a <= b + 1 for a, b in itertools.pairwise(ordered))


def test_apportioned_by_hand() -> None:
    assert apportioned([1, 1], 10) == [5, 5]
    assert apportioned([1, 99], 102) == [2, 100]
    assert apportioned([], 10) == []


def test_the_widest_text_column_gives_way_first() -> None:
    widths = column_widths([40, 20, 10], shrinkable=[True, True, False], room=50)
    assert widths == [20, 20, 10]


def test_figures_are_never_cut() -> None:
    assert column_widths([40, 30], shrinkable=[True, False], room=10) == [NARROWEST_COLUMN, 30]
