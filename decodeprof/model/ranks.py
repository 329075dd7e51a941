"""The public contract of several ranks: what `decodeprof analyze A B … --json` prints.

What is unknown is null, never 0. Times are integer nanoseconds; `*_share` is 0 to 1.
`ranks.schema.json` beside this file is generated from these types.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from decodeprof.model.diagnosis import Diagnosis

SCHEMA_VERSION = 1


class Rank(msgspec.Struct, frozen=True, kw_only=True):
    """One rank's stretch of time, split; the four parts sum to it, exactly."""

    rank: int
    rank_from: Literal["metadata", "name", "order"]
    """What says so: the trace itself, the file's name, or nothing (the order of the files)."""
    name: str
    """The file's."""
    stretch: Literal["decode step", "prefill", "window"]
    """What the figures are of; a window is all that was recorded."""
    n: int
    """Stretches that the counts cover; the times are of one real one, the lower-median one."""
    stretch_ns: int
    compute_ns: int
    """The device ran something that is no collective."""
    collective_ns: int
    """It ran collectives alone; with the waiting in them where that is not known."""
    waiting_ns: int | None
    """It ran collectives alone, which waited for other ranks: busy, and no work done."""
    idle_ns: int
    kernels: float | None
    launches: float | None
    graph_launches: float | None
    syncs: float | None
    collectives: float
    """Kernels that are collectives."""
    diagnosis: Diagnosis
    """The rank's own."""


class RankSpread(msgspec.Struct, frozen=True, kw_only=True):
    """One figure over the ranks."""

    low: int
    high: int
    low_rank: int
    high_rank: int
    spread_share: float
    """(high - low) / high."""


class RankDifference(msgspec.Struct, frozen=True, kw_only=True):
    """A count per stretch in which ranks differ, though they run the same program."""

    quantity: str
    usual: float | None
    """What most ranks have; null: no value is that of more than half."""
    odd: dict[int, float | None]
    """By rank: those that have something else; all ranks, where most have nothing in common."""


class FailedRank(msgspec.Struct, frozen=True, kw_only=True):
    """A file that could not be analysed; the others were."""

    name: str
    what: str
    why: str
    hint: str


class RankReport(msgspec.Struct, frozen=True, kw_only=True):
    """All that was concluded from the traces of several ranks."""

    schema_version: int = SCHEMA_VERSION
    sentence: str
    world_size: int | None
    """As the traces say; null: they do not."""
    missing: list[int]
    """Ranks of the world of which there is no trace; the first 16."""
    slowest: int | None
    """The rank that holds the others up; null: none stands out, or stretches differ in kind."""
    slowest_by: Literal["own time", "stretch"] | None
    """What it was told by: the stretch less waiting inside collectives, or the whole of it."""
    stretch_ns: RankSpread | None
    """Null: the ranks' figures are of stretches of different kinds."""
    own_ns: RankSpread | None
    """The stretch less waiting inside collectives."""
    busy_ns: RankSpread | None
    waiting_unknown: str | None
    """Why the waiting inside collectives is not known."""
    differences: list[RankDifference] | None
    """Null: the ranks' figures are of stretches of different kinds."""
    ranks: list[Rank]
    failed: list[FailedRank]
    caveats: list[str]


_PARTS = (Rank, RankSpread, RankDifference, FailedRank)


def json_schema() -> bytes:
    """The JSON Schema of a rank report, indented, as committed beside this module.

    A rank's diagnosis is by reference to the schema of diagnoses, which lies beside it.
    """
    (root,), parts = msgspec.json.schema_components([RankReport], ref_template="#/$defs/{name}")
    own = {name: parts[name] for name in (c.__name__ for c in (RankReport, *_PARTS))}
    encoded = msgspec.json.encode({**root, "$defs": own}, order="deterministic")
    encoded = encoded.replace(b'"#/$defs/Diagnosis"', b'"diagnosis.schema.json"')
    return msgspec.json.format(encoded, indent=1) + b"\n"
