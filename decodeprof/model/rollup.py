"""The public contract of a rollup: what `decodeprof rollup … --json` prints."""

from __future__ import annotations

import msgspec

SCHEMA_VERSION = 1


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a rollup is."""

    done: int
    of: int


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """What a rollup did; what `--json` prints."""

    schema_version: int = SCHEMA_VERSION
    table_schema_version: int
    """Of the rows that were written; the table's first partition."""
    out: str
    found: int
    """Traces that the patterns name."""
    already: int
    """Not read again: the table has them, under the same name and unchanged."""
    same: int
    """Read, and the table has the same bytes under another name."""
    ok: int
    bad: int
    """A row with the error; not tried again until the bytes change."""
    failed: int
    """Could not be read or analysed; a row with the error, and tried again by the next run."""
    steps: int
    """Rows of steps."""
    bound_by: dict[str, int]
    """Of the traces that are new and ok."""
    errors: list[str]
    """The first few, each with its URL."""
    seconds: float
