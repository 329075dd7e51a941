"""On which lane of a track group does a slice lie, so that Perfetto loses none?

Perfetto closes slices of one track in the order of a stack: two that overlap without one lying
inside the other are cut or dropped. So there is one lane for each depth of overlap. Slices must be
placed in order of their starts, of equal starts the longest first, as all tables are sorted.
"""

from __future__ import annotations

from dataclasses import dataclass, field

# Perfetto drops slices that lie more than 512 deep; recursion in Python goes to 1,000.
MOST_DEPTH = 500


@dataclass
class Apart:
    """Lanes on which slices follow each other: for what runs at the same time, as kernels do."""

    _ends: list[int] = field(default_factory=list)

    def place(self, start_ns: int, end_ns: int) -> int:
        """The first lane that is free at the slice's start."""
        for lane, end in enumerate(self._ends):
            if end <= start_ns:
                self._ends[lane] = end_ns
                return lane
        self._ends.append(end_ns)
        return len(self._ends) - 1


@dataclass
class Nested:
    """Lanes on which slices may lie inside each other: for what calls each other, as ops do."""

    _open: list[list[int]] = field(default_factory=list)
    """For each lane the ends of the slices that are open on it, outermost first."""

    def place(self, start_ns: int, end_ns: int) -> tuple[int, list[tuple[int, int]]]:
        """The first lane on which the slice lies inside what is open, or after all of it.

        Returns:
            The lane, and the (lane, end) of each slice that ends before this one begins.
        """
        closed = []
        for lane, ends in enumerate(self._open):
            while ends and ends[-1] <= start_ns:
                closed.append((lane, ends.pop()))
            if not ends or (ends[-1] >= end_ns and len(ends) < MOST_DEPTH):
                ends.append(end_ns)
                return lane, closed
        self._open.append([end_ns])
        return len(self._open) - 1, closed

    def rest(self) -> list[tuple[int, int]]:
        """The (lane, end) of each slice that is still open, innermost first."""
        return [(lane, end) for lane, ends in enumerate(self._open) for end in reversed(ends)]
