"""What does a gate ask of a recording, and what did it find?"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from decodeprof.model.diagnosis import SyncSite

Answer = Literal["held", "failed", "unknown"]
Count = Annotated[float, msgspec.Meta(ge=0)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]

BASELINE_VERSION = 1


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What a decode step may hold at most, and how well it must use the memory; null: no limit."""

    max_syncs: Count | None = None
    max_launches: Count | None = None
    """Kernel launches and graph launches together: each is one call of the host."""
    max_kernels: Count | None = None
    min_mbu: Share | None = None


class KnownSite(msgspec.Struct, frozen=True, kw_only=True):
    """A blocking call that a baseline knows. Never by its line: an edit above it moves that."""

    phase: Literal["decode", "prefill"]
    file: str | None
    """Null: the source line was not recorded, and only the op tells the call."""
    function: str | None
    code: str | None
    """The line's text."""
    op: str | None
    """Null: seen without a trace; it agrees with any op."""
    places: int = 1
    """Lines of this text in this function."""
    calls_per_step: float | None = None
    """Only of a call without a source line, where nothing else tells one from two."""


class Baseline(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The blocking calls that were there when it was written."""

    decodeprof_baseline: int
    """Version of this format."""
    syncs: list[KnownSite]


class GateResult(msgspec.Struct, frozen=True, kw_only=True):
    """One limit, and whether it holds."""

    name: Literal["max-syncs", "max-launches", "max-kernels", "min-mbu", "no-new-syncs"]
    answer: Answer
    limit: float | None
    found: float | None
    """Null: not known."""
    text: str
    """What was found, or why it cannot be told, in one sentence."""
    capture: str | None = None
    """What to capture so that it can be told."""
    sites: list[SyncSite] = []
    """The blocking calls that are too many, or new."""


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """All limits; the gate holds only where each does."""

    source: str
    answer: Answer
    """`failed` where one failed; else `unknown` where one could not be told."""
    results: list[GateResult]
