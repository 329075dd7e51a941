"""Which rank is a torch.profiler trace of? Reads `distributedInfo`, which any program may fill."""

from __future__ import annotations

import msgspec

from decodeprof.ingest.kineto_events import Number, whole
from decodeprof.model.trace import Member

# Groups of thousands of ranks are listed in full, many times over; what is compared is a few.
_MOST_GROUPS = 256


class _Group(msgspec.Struct):
    ranks: list[Number] = []


class _Info(msgspec.Struct):
    rank: Number = None
    world_size: Number = None
    pg_config: msgspec.Raw = msgspec.Raw(b"[]")


MOST_RANKS = 1 << 20
"""No program has more, by far: such a number is damage, and every rank of a world is counted."""
_INFO = msgspec.json.Decoder(_Info)
_GROUPS = msgspec.json.Decoder(list[_Group])


def member_of(text: bytes) -> Member | None:
    """The rank, the number of ranks and their groups; None where the text names none of them.

    Args:
        text: the value of `distributedInfo`; empty where the file has none.
    """
    if not text:
        return None
    try:
        info = _INFO.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    rank, size = whole(info.rank), whole(info.world_size)
    if not 0 <= rank < (size if size > 0 else MOST_RANKS) <= MOST_RANKS:
        return None
    return Member(rank=rank, world_size=size if size > 0 else None, groups=_groups(info.pg_config))


def _groups(text: msgspec.Raw) -> tuple[tuple[int, ...], ...]:
    """Groups of more than one rank; older profilers wrote no list of ranks."""
    try:
        listed = _GROUPS.decode(bytes(text))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ()
    found = {tuple(sorted({whole(rank) for rank in group.ranks})) for group in listed}
    return tuple(sorted(ranks for ranks in found if len(ranks) > 1 and ranks[0] >= 0))[
        :_MOST_GROUPS
    ]
