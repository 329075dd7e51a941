"""Rows in pieces: as Python objects all of them would need far more memory than as columns."""

from __future__ import annotations

from collections.abc import Iterator

from decodeprof.model.trace import I64

_ROWS = 65_536


def pieces(rows: I64) -> Iterator[I64]:
    """Cut rows into pieces of bounded length."""
    for start in range(0, len(rows), _ROWS):
        yield rows[start : start + _ROWS]
