"""What can be read of a stretch of events that is damaged, or that holds values of odd types?

Event by event: one that is sound is kept as it is, one that can be mended is mended and said, and
what is left is counted, in bytes. Each step is tried only where the one before it failed.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise

import msgspec

from decodeprof.ingest import kineto_events as kineto
from decodeprof.ingest.mend import escape_quotes, mend, without_log_lines

UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What msgspec raises for a text that is no JSON, or JSON of another shape."""

NO_EVENT = "that are no events"
BAD_ARGS = "with arguments that could not be read"
# The first fields that profilers and those who filter their files write.
_EVENT_START = re.compile(rb'\{\s*"(?:ph|name|cat|pid|ts)"\s*:')
# An argument that holds objects may hold the separator: so many pieces are tried as one event.
_MOST_JOINED = 4


@dataclass
class Losses:
    """What was changed and lost while reading."""

    changes: Counter[str] = field(default_factory=Counter)
    """How often each sort of change was made."""
    dropped: Counter[str] = field(default_factory=Counter)
    """Events and arguments left out, by reason."""
    lost_bytes: int = 0
    lost_places: int = 0

    def any(self) -> bool:
        """Whether the file was not read as it stands."""
        return bool(self.changes or self.dropped or self.lost_places)


@dataclass(frozen=True)
class Separator:
    """The bytes between two events, from the brace that ends one to the next one's first quote."""

    text: bytes

    @property
    def next_at(self) -> int:
        """Where the next event begins in it."""
        return self.text.rindex(b"{")


def salvage(block: bytes, separator: Separator, losses: Losses) -> list[kineto.Event]:
    """Read the events of a block that could not be read in one piece.

    Args:
        block: events, with separators between them; the last may be cut short.
        separator: what to split at.
        losses: what is changed or lost is added to it.
    """
    opening, between = separator.text[separator.next_at :], separator.text[1 : separator.next_at]
    parts = block.split(separator.text)
    last = len(parts) - 1
    pieces = [
        (opening if i else b"") + part + (b"}" if i < last else b"") for i, part in enumerate(parts)
    ]
    events: list[kineto.Event] = []
    at = 0
    while at < len(pieces):
        for count in range(1, _MOST_JOINED + 1):
            found = events_of(between.join(pieces[at : at + count]), losses)
            if found is not None:
                break
        else:
            count, found = 1, _mended(pieces[at], losses)
        events += found
        at += count
    return events


def events_of(text: bytes, losses: Losses) -> list[kineto.Event] | None:
    """The events in a text of sound JSON, whatever the types of their values; None if it is none.

    Args:
        text: one event, or several with commas between them.
        losses: what had to be left out is added to it.
    """
    whole = b"[" + text + b"]"
    try:
        return kineto.EVENTS.decode(whole)
    except msgspec.ValidationError:
        pass
    except UNREADABLE:
        return None
    try:
        return [event for raw in kineto.LIST.decode(whole) if (event := _loose(raw, losses))]
    except UNREADABLE:
        return None


def _loose(raw: msgspec.Raw, losses: Losses) -> kineto.Event | None:
    """An event with values of unexpected types; None for what is none."""
    try:
        loose = kineto.LOOSE_EVENT.decode(raw)
    except UNREADABLE:
        losses.dropped[NO_EVENT] += 1
        return None
    if not isinstance(loose.ph, str) or not isinstance(loose.cat, str):
        losses.dropped[NO_EVENT] += 1
        return None
    args = None
    if bytes(loose.args) not in (b"", b"null"):
        try:
            args = kineto.ARGS.decode(loose.args)
        except UNREADABLE:
            losses.dropped[BAD_ARGS] += 1
    return kineto.Event(
        ph=loose.ph,
        cat=loose.cat,
        name=_name(loose.name),
        pid=loose.pid,
        tid=loose.tid,
        ts=loose.ts,
        dur=loose.dur,
        args=args,
    )


def _name(value: object) -> str:
    """What stands in a name's place, as text; lists and objects as the JSON that they are."""
    if isinstance(value, list | dict):
        return msgspec.json.encode(value).decode("utf-8", "replace")
    return str(value)


def _mended(piece: bytes, losses: Losses) -> list[kineto.Event]:
    """The events of a piece that is no JSON as it stands."""
    found = _mended_whole(piece, losses)
    if found is not None:
        return found
    # Something lies between events, or an event lacks its end: try from each event's beginning.
    starts = [match.start() for match in _EVENT_START.finditer(piece)]
    events: list[kineto.Event] = []
    read_bytes = 0
    for start, end in pairwise([*starts, len(piece)]):
        part = piece[start : piece.rfind(b"}", start, end) + 1]
        found = _mended_whole(part, losses) if b'"ph"' in part else None
        if found:
            events += found
            read_bytes += len(part)
    losses.lost_bytes += len(piece) - read_bytes
    losses.lost_places += 1
    return events


def _mended_whole(piece: bytes, losses: Losses) -> list[kineto.Event] | None:
    """The events of a piece, changed no more than needed; None if no change makes it JSON."""
    plain, logs = without_log_lines(piece)
    for ways in ((), (mend,), (escape_quotes, mend)):
        text, changes = plain, Counter(logs)
        for way in ways:
            text, more = way(text)
            changes += more
        found = events_of(text, losses)
        if found is not None:
            losses.changes += changes
            return found
    return None
