"""Is this file JSON of something else: a configuration, notes, that lie in a folder of traces?"""

from __future__ import annotations

from pathlib import Path

import msgspec

from decodeprof.errors import InputError
from decodeprof.ingest.blocks import BYTE_ORDER_MARK
from decodeprof.ingest.byte_source import open_source
from decodeprof.ingest.kineto_events import JSON, LIST
from decodeprof.ingest.salvage import UNREADABLE

LARGEST_BYTES = 16 << 20
"""Unpacked; what is larger is taken for a trace and read as one, which tells as well."""
_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])


def is_other_json(path: Path) -> bool:
    """Whether a small file is sound JSON in which no trace's events can be.

    Damaged and empty files are none of these: each may be what is left of a trace.
    """
    try:
        text = _read(path)
        if not text:
            return False
        if text[:1] == b"{":
            return "traceEvents" not in _OBJECT.decode(text)
        if text[:1] == b"[":
            items = LIST.decode(text)
            return bool(items) and not any(bytes(item)[:1] == b"{" for item in items)
        JSON.decode(text)
    except (*UNREADABLE, InputError, OSError):
        return False
    return True


def _read(path: Path) -> bytes:
    """All of a file, unpacked; nothing where it is too large or cut short."""
    if not path.is_file() or path.stat().st_size > LARGEST_BYTES:
        return b""
    source = open_source(path)
    try:
        buffer, size = bytearray(LARGEST_BYTES + 1), 0
        while size < len(buffer) and (count := source.readinto(memoryview(buffer)[size:])):
            size += count
        whole = size <= LARGEST_BYTES and not source.damage
        return bytes(buffer[:size]).removeprefix(BYTE_ORDER_MARK).strip() if whole else b""
    finally:
        source.close()
