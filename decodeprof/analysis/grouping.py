"""Which rows hold each value of a column? All groups by one sort, however many there are.

Asking a column once for each value that it holds takes rows × values: a trace of a thousand steps
would be walked a thousand times.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from decodeprof.model.trace import I64


def rows_by_value(values: NDArray[Any]) -> dict[int, I64]:
    """Group the rows of a column of integers.

    Args:
        values: shape (n,).

    Returns:
        For each distinct value, in ascending order, the rows that hold it, ascending.
    """
    order = np.argsort(values, kind="stable").astype(np.int64)
    found, first = np.unique(values[order], return_index=True)
    return dict(zip(found.tolist(), np.split(order, first[1:]), strict=True)) if len(found) else {}
