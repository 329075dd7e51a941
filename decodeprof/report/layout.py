"""How is a width shared out? In whole cells, so that a bar's parts and a table's columns fit."""

from __future__ import annotations

from collections.abc import Sequence

NARROWEST_COLUMN = 8
"""A text column is not cut below this; narrower, no name can be told from another."""


def apportioned(values: Sequence[int], cells: int) -> list[int]:
    """Share cells out in proportion to positive values, by largest remainder.

    Each value gets at least one cell, so that a small part is seen; the sum is `cells`, or the
    number of values where there are more of them.
    """
    if not values:
        return []
    total = sum(values)
    spare = max(0, cells - len(values))
    shares = [value * spare for value in values]
    given = [share // total for share in shares]
    left = spare - sum(given)
    # Ties go to the earlier part: the order of the parts is fixed.
    for index in sorted(range(len(values)), key=lambda i: (-(shares[i] % total), i))[:left]:
        given[index] += 1
    return [1 + cells_given for cells_given in given]


def column_widths(needed: Sequence[int], *, shrinkable: Sequence[bool], room: int) -> list[int]:
    """Widths of columns that fit into `room` cells, as far as shrinkable columns allow.

    The widest shrinkable column gives way first, one cell at a time: no narrow column is cut while
    a wide one has room.
    """
    widths = list(needed)
    while sum(widths) > room:
        candidates = [i for i, may in enumerate(shrinkable) if may and widths[i] > NARROWEST_COLUMN]
        if not candidates:
            break
        widths[max(candidates, key=lambda i: (widths[i], -i))] -= 1
    return widths
