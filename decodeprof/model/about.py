"""What does a diagnosis say of how its recording was made?"""

from __future__ import annotations

import msgspec


class PassNote(msgspec.Struct, frozen=True, kw_only=True):
    """A capture pass, and what it could not do."""

    name: str
    status: str
    reason: str
    seconds: float


class About(msgspec.Struct, frozen=True, kw_only=True):
    """The recording's context, for the report's last section."""

    target: str | None = None
    arguments: dict[str, str] = {}
    command: str | None = None
    """What records it again, for a shell; null: a trace from elsewhere."""
    device: str | None = None
    environment: dict[str, str] = {}
    passes: list[PassNote] = []
    ceilings: dict[str, float] = {}
    allocator: dict[str, int] = {}
    compile: dict[str, list[str]] = {}
    model: dict[str, int | str] = {}
