"""All groups of a column at once are those that asking for each value gives."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from decodeprof.analysis.grouping import rows_by_value


@given(values=st.lists(st.integers(-2, 6), max_size=60))
def test_each_value_has_the_rows_that_hold_it(values: list[int]) -> None:
    column = np.array(values, np.int32)
    groups = rows_by_value(column)
    assert list(groups) == sorted(set(values))
    for value, rows in groups.items():
        assert rows.dtype == np.int64
        assert rows.tolist() == np.flatnonzero(column == value).tolist()
