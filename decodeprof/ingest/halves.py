"""Where may a large file be cut in two, and how is each part read?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from decodeprof.ingest import kineto_events as kineto
from decodeprof.ingest.blocks import (
    BLOCK_BYTES,
    BlockReader,
    Buffer,
    Surroundings,
    UnknownLayoutError,
    decode,
    find_events,
    last_block,
    learn,
    whole_blocks,
)
from decodeprof.ingest.byte_source import SliceSource
from decodeprof.ingest.salvage import Separator


@dataclass(frozen=True)
class Plan:
    """A cut between two events; offsets are in the file."""

    head: bytes
    """What precedes the list of events."""
    separator: Separator
    events_at: int
    end: int
    """Behind the last event of the first part."""
    next_at: int
    """Where the second part's first event begins."""
    size: int


def plan_halves(path: Path, *, share: float) -> Plan:
    """Cut a file where about `share` of it lies before.

    Raises:
        UnknownLayoutError: its layout is not one of those that profilers write.
        OSError: it cannot be read.
    """
    size = path.stat().st_size
    start = SliceSource(path, 0, size)
    try:
        buffer = Buffer(start, BLOCK_BYTES)
        head = find_events(buffer)
        surroundings = Surroundings()
        separator = learn(buffer, surroundings.losses)
        events_at = buffer.offset + buffer.start - 1
    finally:
        start.close()
    middle = max(int(size * share), events_at)
    window = SliceSource(path, middle, size)
    try:
        around = Buffer(window, BLOCK_BYTES)
    finally:
        window.close()
    cut = around.data.find(separator.text, around.start, around.stop)
    if cut < 0 or surroundings.losses.any():
        raise UnknownLayoutError
    at = middle + cut - 1
    return Plan(
        head=head,
        separator=separator,
        events_at=events_at,
        end=at + 1,
        next_at=at + separator.next_at,
        size=size,
    )


def read_first_half(
    path: Path, plan: Plan, surroundings: Surroundings, reader: BlockReader
) -> Iterator[list[kineto.Event]]:
    """The events before the cut.

    Raises:
        UnknownLayoutError: they are not sound to the last byte.
    """
    source = SliceSource(path, plan.events_at, plan.end)
    try:
        buffer = Buffer(source, BLOCK_BYTES)
        yield from whole_blocks(buffer, plan.separator, surroundings.losses, reader)
        events = decode(buffer, buffer.stop)
    finally:
        source.close()
    if events is None:
        raise UnknownLayoutError
    yield events


def read_second_half(
    path: Path, plan: Plan, surroundings: Surroundings, reader: BlockReader
) -> Iterator[list[kineto.Event]]:
    """The events behind the cut, and what follows them.

    Raises:
        UnknownLayoutError: what surrounds the events is not sound.
    """
    source = SliceSource(path, plan.next_at, plan.size)
    try:
        buffer = Buffer(source, BLOCK_BYTES)
        yield from whole_blocks(buffer, plan.separator, surroundings.losses, reader)
        yield from last_block(buffer, plan.separator, plan.head, surroundings)
    finally:
        source.close()
