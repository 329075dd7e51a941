"""How much of a stretch of time do some intervals cover, exactly?

Everything that is called busy, idle, "inside a call" or "in Python" is a union of intervals, never
a sum of durations: kernels overlap, calls nest.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from decodeprof.model.trace import I64


@dataclass(frozen=True)
class Intervals:
    """Disjoint, sorted half-open intervals in ns, with their running total.

    `starts[i] < ends[i] < starts[i + 1]`; `before[i]` is the length of all intervals before i.
    """

    starts: I64
    ends: I64
    before: I64

    @property
    def total_ns(self) -> int:
        """Length of the union."""
        return int((self.ends - self.starts).sum())

    def until(self, times: I64) -> I64:
        """How much is covered before each time; any times, in any order."""
        if not len(self.starts):
            return np.zeros(len(times), np.int64)
        at = np.searchsorted(self.starts, times, side="right") - 1
        inside = np.minimum(times, self.ends[at]) - self.starts[at]
        return np.where(at < 0, 0, self.before[at] + inside)

    def within(self, starts: I64, ends: I64) -> I64:
        """How much of each [start, end) is covered."""
        return self.until(ends) - self.until(starts)

    def holes(self) -> tuple[I64, I64]:
        """Starts and ends of the stretches between intervals."""
        return self.ends[:-1], self.starts[1:]


def union(starts: I64, ends: I64) -> Intervals:
    """Merge intervals given in any order; touching ones become one, empty ones vanish."""
    kept = ends > starts
    starts, ends = starts[kept], ends[kept]
    if not len(starts):
        nothing = np.empty(0, np.int64)
        return Intervals(starts=nothing, ends=nothing, before=nothing)
    order = np.argsort(starts, kind="stable")
    starts, ends = starts[order], ends[order]
    reach = np.maximum.accumulate(ends)
    opens = np.r_[True, starts[1:] > reach[:-1]]
    first = np.flatnonzero(opens)
    last = np.r_[first[1:] - 1, len(starts) - 1]
    merged_starts, merged_ends = starts[first], reach[last]
    lengths = merged_ends - merged_starts
    return Intervals(starts=merged_starts, ends=merged_ends, before=np.cumsum(lengths) - lengths)
