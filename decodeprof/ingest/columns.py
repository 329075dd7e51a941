"""How do events that arrive block by block become the sorted columns of a `Trace` table?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from decodeprof.model.trace import I64, Bool, Table

T = TypeVar("T", bound=Table)
K = TypeVar("K")
V = TypeVar("V")
_FIRST_ROWS = 1024


class Names:
    """Interns strings: each distinct one is held once, and a row holds its index."""

    def __init__(self) -> None:
        self._index: dict[str, int] = {}

    def __getitem__(self, text: str) -> int:
        return self._index.setdefault(text, len(self._index))

    def all(self) -> tuple[str, ...]:
        """The strings, in the order of their indices."""
        return tuple(self._index)

    def column(self, texts: list[str]) -> NDArray[np.int32]:
        """The index of each text."""
        index = self._index
        known = index.setdefault
        return np.array([known(text, len(index)) for text in texts], np.int32)


class Computed(dict[K, V]):
    """Holds what was computed for each key; a new key's value is computed when it is asked for.

    Most keys of a column are known already: one look-up for each of them is all that is done.
    """

    def __init__(self, compute: Callable[[K], V]) -> None:
        super().__init__()
        self._compute = compute

    def __missing__(self, key: K) -> V:
        value = self[key] = self._compute(key)
        return value


class Columns(Generic[T]):
    """Collects a table's columns, one chunk for each block of the file.

    The first two columns must be `start_ns` and `end_ns`.
    """

    def __init__(self, table: type[T]) -> None:
        self.table = table
        self._chunks: list[list[NDArray[Any]]] = [[] for _ in fields(table)]

    def __len__(self) -> int:
        return sum(map(len, self._chunks[0]))

    def add(self, **columns: NDArray[Any]) -> None:
        """Append rows: one array for each field, all of one length."""
        dtypes = self.table.dtypes()
        for field, chunks in zip(fields(self.table), self._chunks, strict=True):
            chunks.append(columns[field.name].astype(dtypes[field.name], copy=False))

    def take(self) -> Iterator[NDArray[Any]]:
        """Each column in the order of the fields; each is given up as the next one is asked for."""
        dtypes = self.table.dtypes()
        for field, chunks in zip(fields(self.table), self._chunks, strict=True):
            column = _joined(chunks, dtypes[field.name])
            chunks.clear()
            yield column

    def starts(self) -> I64:
        """Start times of all rows, in the order in which they were added."""
        self._chunks[0] = [_joined(self._chunks[0], np.dtype(np.int64))]
        first: I64 = self._chunks[0][0]
        return first

    def keep(self, rows: Bool) -> None:
        """Drop the rows that are not marked."""
        dtypes = self.table.dtypes()
        for field, chunks in zip(fields(self.table), self._chunks, strict=True):
            chunks[:] = [_joined(chunks, dtypes[field.name])[rows]]

    def build(self, *, origin_ns: int) -> T:
        """The table, times counted from `origin_ns`, sorted by start, longest first.

        Rows equal in both keep their order. The chunks are given up on the way: a trace of
        gigabytes must not be held twice.
        """
        dtypes = self.table.dtypes()
        columns: dict[str, NDArray[Any]] = {}
        for field, chunks in zip(fields(self.table), self._chunks, strict=True):
            columns[field.name] = _joined(chunks, dtypes[field.name])
            chunks.clear()
        start, end = columns["start_ns"], columns["end_ns"]
        start -= origin_ns
        end -= origin_ns
        in_order = start[1:] > start[:-1]
        in_order |= (start[1:] == start[:-1]) & (end[1:] <= end[:-1])
        if not in_order.all():
            order = np.lexsort((-end, start))
            for name in columns:
                columns[name] = columns[name][order]
        return self.table(**columns)


def _joined(chunks: list[NDArray[Any]], dtype: np.dtype[Any]) -> NDArray[Any]:
    if len(chunks) == 1:
        return np.ascontiguousarray(chunks[0])
    return np.concatenate(chunks) if chunks else np.empty(0, dtype)


class Grown:
    """A column that grows at its end, and that rows can be taken from at any time."""

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self._array: NDArray[Any] = np.empty(_FIRST_ROWS, dtype)
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def extend(self, values: NDArray[Any]) -> None:
        """Append values."""
        needed = self._size + len(values)
        if needed > len(self._array):
            larger = np.empty(max(2 * len(self._array), needed), self._array.dtype)
            larger[: self._size] = self._array[: self._size]
            self._array = larger
        self._array[self._size : needed] = values
        self._size = needed

    def rows(self, rows: I64) -> NDArray[Any]:
        """The values of some rows."""
        return self._array[rows]
