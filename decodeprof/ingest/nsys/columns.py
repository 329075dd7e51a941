"""What is read of an export before it is sorted and joined: columns, names, threads, processes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from decodeprof import units
from decodeprof.ingest.columns import Names
from decodeprof.ingest.nsys.database import Database, Source
from decodeprof.model.trace import I64, NONE


@dataclass
class Part:
    """Columns of equal length, and the process of each row; -1: not told."""

    columns: dict[str, I64]
    pid: I64

    def __len__(self) -> int:
        return len(self.pid)

    def take(self, rows: I64) -> Part:
        """The rows at the given indices."""
        return Part({k: v[rows] for k, v in self.columns.items()}, self.pid[rows])


LATEST_NS = 2**62
"""146 years after the session began: a time beyond that is damage, and differences would overflow.
"""


@dataclass
class Reader:
    """An open export, and what was learned of it while reading."""

    database: Database
    names: Names = field(default_factory=Names)
    threads: Names = field(default_factory=Names)
    caveats: list[str] = field(default_factory=list)

    def named(self, ids: I64, text_of: Callable[[int], str]) -> I64:
        """Interned names for the ids of texts; each distinct one is looked up once."""
        distinct, inverse = np.unique(ids, return_inverse=True)
        interned = [self.names[text_of(number)] for number in distinct.tolist()]
        return np.array(interned, np.int64)[inverse] if len(interned) else ids

    def strings(self, ids: I64) -> dict[int, str]:
        """Texts of StringIds."""
        return self.database.strings(np.unique(ids).tolist())

    def without_text(self, ids: I64, texts: dict[int, str]) -> int:
        """How many of some ids have no text; -1 is no id."""
        return int(((ids != NONE) & ~np.isin(ids, list(texts))).sum())

    def timed(self, part: Part | None, one: str, many: str = "") -> Part | None:
        """The rows whose times mean something; of the others it is said how many there were.

        Args:
            part: the rows.
            one: what one of them is called.
            many: what several are called; empty: `one` and an "s".
        """
        if part is None:
            return None
        start, end = part.columns["start_ns"], part.columns["end_ns"]
        # CUPTI writes 0 for both where it could not collect them; NULL was read as -1.
        absent = ((start == 0) & (end == 0)) | (start == NONE) | (end == NONE)
        # Not by np.abs: the least number of all has no positive counterpart.
        whole = ~absent & (start > -LATEST_NS) & (start <= end) & (end < LATEST_NS)
        lost = int((~whole).sum())
        if not lost:
            return part
        found = units.counted(lost, one, many)
        were = "was" if lost == 1 else "were"
        self.caveats.append(f"{found} with missing or impossible times {were} left out")
        return part.take(np.flatnonzero(whole).astype(np.int64))

    def thread(self, global_tid: I64) -> I64:
        """Interned threads, ``pid/tid``, of packed thread ids."""
        distinct, inverse = np.unique(global_tid, return_inverse=True)
        interned = [
            self.threads[f"{_pid(number)}/{number & 0xFFFFFF}"] for number in distinct.tolist()
        ]
        return np.array(interned, np.int64)[inverse] if len(interned) else global_tid


def _pid(packed: int) -> int:
    return packed >> 24 & 0xFFFFFF


def pids_of(packed: I64) -> I64:
    """Process ids of packed thread or process ids; -1 stays -1."""
    return np.where(packed < 0, NONE, packed >> 24 & 0xFFFFFF)


def optional(source: Source, *names: str) -> str | None:
    """The first of some columns that a table has; None: it has none of them."""
    return next((name for name in names if name in source.columns), None)


def drop_zeroes(columns: dict[str, I64]) -> None:
    """Make a correlation of 0 none: nsys writes 0 for "none", and as a key it joins strangers."""
    columns["correlation"] = np.where(columns["correlation"] > 0, columns["correlation"], NONE)


def keyed(pid: I64, number: I64) -> I64:
    """A key that is unique over processes: numbers are unique within one only."""
    return (pid + 1 << 40) | np.maximum(number, 0)


def lookup(sorted_keys: I64, wanted: I64) -> I64:
    """For each wanted key the position of its first occurrence; -1: none."""
    if not len(sorted_keys):
        return np.full(len(wanted), NONE, np.int64)
    at = np.searchsorted(sorted_keys, wanted)
    at[at == len(sorted_keys)] = 0
    return np.where(sorted_keys[at] == wanted, at, NONE).astype(np.int64)
