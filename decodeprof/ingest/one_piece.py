"""What does a file hold whose events do not lie as profilers write them, or that is no trace?

Such a file is read whole, strictly, and mended as a whole where that is needed. It is small nearly
always: a trace that someone wrote by hand, or a file of something else.
"""

from __future__ import annotations

from collections import Counter

import msgspec

from decodeprof.errors import InputError
from decodeprof.ingest import kineto_events as kineto
from decodeprof.ingest.blocks import BYTE_ORDER_MARK, Surroundings
from decodeprof.ingest.byte_source import Source
from decodeprof.ingest.mend import mend, without_log_lines
from decodeprof.ingest.salvage import UNREADABLE, events_of

# A file of unknown layout takes several times its size in memory.
_LARGEST_BYTES = 512 << 20
_PIECE_BYTES = 4 << 20
_HINT = "was the program that wrote it ended while writing? export it again"


def read_in_one_piece(
    source: Source, surroundings: Surroundings, *, name: str
) -> list[kineto.Event]:
    """The events of a file of unknown layout.

    Raises:
        InputError: it is empty, too large, no JSON, or JSON of something else.
    """
    text = _read(source, name).removeprefix(BYTE_ORDER_MARK).strip()
    surroundings.total_bytes = len(text)
    if not text and source.damage:
        raise InputError(f"`{name}` cannot be unpacked", why=source.damage, hint=_HINT)
    if not text:
        raise InputError(f"`{name}` is empty")
    whole, changes = _sound(text, name, damage=source.damage)
    surroundings.losses.changes += changes
    events = whole if whole[:1] == b"[" else _top(whole, surroundings, name)
    found = events_of(events.strip()[1:-1], surroundings.losses)
    if found is None or (surroundings.losses.dropped and not found):
        raise _no_trace(name, "its list of events holds something else")
    return found


def _read(source: Source, name: str) -> bytes:
    text, piece = bytearray(), bytearray(_PIECE_BYTES)
    while count := source.readinto(memoryview(piece)):
        text += memoryview(piece)[:count]
        if len(text) > _LARGEST_BYTES:
            raise InputError(
                f"`{name}` is no trace that can be read",
                why="its events do not lie in it as torch.profiler writes them, and it is larger "
                f"than {_LARGEST_BYTES >> 20} MB, which is the limit for such files",
            )
    return bytes(text)


def _sound(text: bytes, name: str, *, damage: str) -> tuple[bytes, Counter[str]]:
    """The text as sound JSON, and what was changed for that."""
    try:
        kineto.JSON.decode(text)
    except UNREADABLE as error:
        plain, changes = without_log_lines(text)
        mended, more = mend(plain)
        changes += more
        try:
            if not changes:
                raise
            kineto.JSON.decode(mended)
        except UNREADABLE:
            raise InputError(
                f"`{name}` is no trace that can be read",
                why=damage or f"it is not valid JSON: {error}",
                hint=_HINT,
            ) from None
        return mended, changes
    return text, Counter()


def _top(text: bytes, surroundings: Surroundings, name: str) -> bytes:
    """Reads the top level; its list of events."""
    try:
        surroundings.top = kineto.TOP.decode(text)
    except UNREADABLE as error:
        raise _no_trace(name, str(error)) from None
    events = surroundings.top.events
    if events is msgspec.UNSET:
        raise _no_trace(name, "it has no `traceEvents`")
    text = bytes(events)
    if text[:1] != b"[":
        raise _no_trace(name, "its `traceEvents` is no list")
    return text


def _no_trace(name: str, why: str) -> InputError:
    return InputError(
        f"`{name}` is JSON, but no torch.profiler trace",
        why=why,
        hint="a trace is what `prof.export_chrome_trace(path)` writes",
    )
