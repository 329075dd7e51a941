"""How do rows that arrive one by one become the sorted columns of a `Trace` table?"""

from __future__ import annotations

from dataclasses import fields
from typing import TypeVar

import numpy as np

from decodeprof.model.trace import Table

T = TypeVar("T", bound=Table)


class Names:
    """Interns strings: each distinct one is held once, and a row holds its index."""

    def __init__(self) -> None:
        self._index: dict[str, int] = {}

    def __getitem__(self, text: str) -> int:
        return self._index.setdefault(text, len(self._index))

    def all(self) -> tuple[str, ...]:
        """The strings, in the order of their indices."""
        return tuple(self._index)


def build(table: type[T], rows: list[tuple[int, ...]]) -> T:
    """Build a table from row tuples in the order of its fields, sorted by start, longest first.

    The first two fields must be `start_ns` and `end_ns`. Rows equal in both keep their order.
    """
    if not rows:
        return table.empty()
    dtypes = table.dtypes()
    matrix = np.array(rows, dtype=np.int64)
    order = np.lexsort((-matrix[:, 1], matrix[:, 0]))
    columns = {}
    for position, field in enumerate(fields(table)):
        columns[field.name] = matrix[order, position].astype(dtypes[field.name])
    return table(**columns)
