"""Which rank is each trace of? What the trace says, else its name, else the order of the files."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from decodeprof.model.trace import Member

# Launchers and engines: rank0, rank_12, rank-3; TP-1 (SGLang), dp0_pp0_tp1; worker7, gpu2.
_NAMES = (
    re.compile(r"(?<![a-z])rank[-_ ]?(\d{1,6})(?!\d)", re.IGNORECASE),
    re.compile(r"(?<![a-z])(?:worker|gpu|device)[-_ ]?(\d{1,6})(?!\d)", re.IGNORECASE),
    re.compile(r"(?<![a-z])tp[-_ ]?(\d{1,6})(?!\d)", re.IGNORECASE),
)


@dataclass(frozen=True)
class Numbered:
    """The ranks of some traces, in the traces' order, all different."""

    ranks: tuple[int, ...]
    source: Literal["metadata", "name", "order"]
    caveat: str | None = None


def ranks_of(names: Sequence[str], members: Sequence[Member | None]) -> Numbered:
    """Number the traces by the first source that tells all of them apart.

    Args:
        names: the files' names.
        members: what each trace says of itself.
    """
    said = tuple(member.rank if member is not None else None for member in members)
    told = _all_different(said)
    if told is not None:
        return Numbered(ranks=told, source="metadata")
    for pattern in _NAMES:
        matches = [pattern.search(name) for name in names]
        told = _all_different(tuple(int(m[1]) if m else None for m in matches))
        if told is not None:
            return Numbered(ranks=told, source="name", caveat=_twice(said))
    caveat = "Neither the traces nor their names tell the ranks: they are numbered in order."
    return Numbered(
        ranks=tuple(range(len(names))),
        source="order",
        caveat=_twice(said) or (caveat if len(names) > 1 else None),
    )


def _all_different(ranks: tuple[int | None, ...]) -> tuple[int, ...] | None:
    known = tuple(rank for rank in ranks if rank is not None)
    return known if len(known) == len(ranks) == len(set(known)) else None


def _twice(said: tuple[int | None, ...]) -> str | None:
    known = [rank for rank in said if rank is not None]
    twice = sorted({rank for rank in known if known.count(rank) > 1})
    if not twice:
        return None
    listed = ", ".join(map(str, twice))
    return f"Several traces say that they are of rank {listed}: what they say was not used."
