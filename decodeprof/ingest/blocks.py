"""How is a trace of gigabytes read in little memory, and fast?

In blocks, each read into the same buffer and cut where an event ends. What lies between two events
is learnt from the file's first ones, since it differs between versions and tools. A cut is never
taken on trust: both sides must be sound JSON by themselves, and what lies before and after the
events must be a sound top level around them. Where that fails the block is read event by event,
and a file of no known layout is left to those who read it in one piece.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from decodeprof.ingest import kineto_events as kineto
from decodeprof.ingest.byte_source import Source
from decodeprof.ingest.mend import mend, without_log_lines
from decodeprof.ingest.salvage import UNREADABLE, Losses, Separator, events_of, salvage

BLOCK_BYTES = 1 << 20
"""Large enough that the cost of a block is that of its events (some 3,000), small enough that they
are still in the processor's cache when their columns are made."""
# An event, or what precedes the events, that is longer than this is no profiler's.
_LARGEST_BLOCK_BYTES = 128 << 20
# The separator is the most frequent one in the file's first bytes.
_LEARN_BYTES = 256 << 10
# Fewer events than this in a block: it may be too small for one.
_FEW = 16
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_BLANK = b" \t\r\n"
_LIST = re.compile(rb'"traceEvents"\s*:\s*(?=\[)')
_SEPARATOR = re.compile(rb'\}\s*,\s*\{\s*"')
_LIST_END = re.compile(rb"\}\s*(?=\])")
# Strings as a whole, so that brackets inside them do not count, and many at once. One that does not
# end goes to the text's end: tried again from each quote in it, it takes hours.
_BRACKET = re.compile(rb'(?:"(?:[^"\\]|\\.)*+"?[^"\[\]{}]*+)++|[\[\]{}]', re.DOTALL)
# Stands for the events while what surrounds them is checked.
_PLACEHOLDER = b"[0]"


class UnknownLayoutError(Exception):
    """The events do not lie in the file as any profiler writes them."""


@dataclass
class Surroundings:
    """What there is besides the events, known once they are read."""

    top: kineto.Top = field(default_factory=kineto.Top)
    losses: Losses = field(default_factory=Losses)
    cut_short: bool = False
    """The file ends before its list of events does."""
    tail: bytes = b""
    """What follows the list of events."""
    tail_lost_bytes: int = 0
    """Bytes after the events that could not be read."""
    total_bytes: int = 0
    """Bytes read, unpacked."""


class BlockReader(Protocol):
    """Reads blocks of a layout that it knows, faster than they can be parsed."""

    separator: bytes
    """What lies between the events of that layout."""

    def take(self, block: memoryview, /) -> bool:
        """Take the events of a block, which a separator ends; False: it has to be parsed."""
        ...


class Buffer:
    """A window on the source: `data[start:stop]` is unread. One byte before `start` is spare."""

    def __init__(self, source: Source, size: int) -> None:
        self.data = bytearray(size)
        self.start = self.stop = 1
        self.ended = False
        self.total_bytes = 0
        self.offset = 0
        """Where `data[1]` lies among the source's bytes."""
        self._source = source
        self.fill()

    def fill(self) -> None:
        """Move what is unread to the front, and read until the buffer is full or all is read."""
        unread = self.stop - self.start
        if self.start > 1:
            self.data[1 : 1 + unread] = self.data[self.start : self.stop]
            self.offset += self.start - 1
            self.start, self.stop = 1, 1 + unread
        with memoryview(self.data) as view:
            # One byte is kept free behind, for a bracket.
            while not self.ended and self.stop < len(view) - 1:
                count = self._source.readinto(view[self.stop : -1])
                self.ended = not count
                self.stop += count
                self.total_bytes += count

    def grow(self) -> None:
        """Read twice as much at once.

        Raises:
            UnknownLayoutError: that would be more than any event needs.
        """
        if len(self.data) >= _LARGEST_BLOCK_BYTES:
            raise UnknownLayoutError
        larger = bytearray(2 * len(self.data))
        larger[: self.stop] = self.data[: self.stop]
        self.data = larger
        self.fill()

    def unread(self) -> bytes:
        """What was read and not yet used."""
        return bytes(self.data[self.start : self.stop])


def read_blocks(
    source: Source,
    surroundings: Surroundings,
    *,
    reader: BlockReader | None = None,
    block_bytes: int = BLOCK_BYTES,
) -> Iterator[list[kineto.Event]]:
    """Read a file's events, block by block, but those of the blocks that `reader` takes.

    The raw texts in a list are good until the next one is asked for.

    Args:
        source: the file's bytes.
        surroundings: filled with what lies around the events, and with what was lost.
        reader: is asked first; None: every block is parsed.
        block_bytes: how much to read at once.

    Raises:
        UnknownLayoutError: the file must be read in one piece, or is no trace.
    """
    buffer = Buffer(source, block_bytes)
    try:
        head = find_events(buffer)
        separator = learn(buffer, surroundings.losses)
        yield from whole_blocks(buffer, separator, surroundings.losses, reader)
        yield from last_block(buffer, separator, head, surroundings)
    finally:
        surroundings.total_bytes = buffer.total_bytes


def find_events(buffer: Buffer) -> bytes:
    """What precedes the list of events; empty where the file is the bare list."""
    while True:
        if buffer.data.startswith(BYTE_ORDER_MARK, buffer.start):
            buffer.start += len(BYTE_ORDER_MARK)
        text = buffer.data[buffer.start : buffer.stop]
        if text.lstrip(_BLANK)[:1] == b"[":
            buffer.start += text.index(b"[") + 1
            return b""
        found = _LIST.search(text)
        if found:
            buffer.start += found.end() + 1
            return bytes(text[: found.end()])
        if buffer.ended:
            raise UnknownLayoutError
        buffer.grow()


def learn(buffer: Buffer, losses: Losses) -> Separator:
    """The bytes between two events; the unread bytes begin with the first event afterwards."""
    while True:
        begin = buffer.data.find(b"{", buffer.start, buffer.stop)
        before, logs = without_log_lines(bytes(buffer.data[buffer.start : max(begin, 0)]))
        if begin >= 0 and not before.strip(_BLANK):
            losses.changes += logs
            buffer.start = begin
            texts = _SEPARATOR.findall(buffer.data[begin : min(begin + _LEARN_BYTES, buffer.stop)])
            texts = texts or _SEPARATOR.findall(buffer.data[begin : buffer.stop])
            if texts:
                return Separator(Counter(map(bytes, texts)).most_common(1)[0][0])
        if buffer.ended:
            raise UnknownLayoutError
        buffer.grow()


def whole_blocks(
    buffer: Buffer, separator: Separator, losses: Losses, reader: BlockReader | None
) -> Iterator[list[kineto.Event]]:
    """The events of all blocks but the last, which the file's end makes special."""
    if reader is not None and reader.separator != separator.text:
        reader = None
    while not buffer.ended:
        cut = buffer.data.rfind(separator.text, buffer.start, buffer.stop)
        if cut < 0:
            buffer.grow()
            continue
        end, next_at = cut + 1, cut + separator.next_at
        if reader is not None and _taken(reader, buffer, cut + len(separator.text)):
            buffer.start = next_at
            buffer.fill()
            continue
        events = decode(buffer, end)
        if events is None:
            # There is damage, or something in an event's arguments looks like the separator.
            sound = _last_boundary(buffer)
            if (
                sound is None
                and len(buffer.data) < _LARGEST_BLOCK_BYTES
                and (buffer.data.count(separator.text, buffer.start, buffer.stop) < _FEW)
            ):  # One event may be longer than a block.
                buffer.grow()
                continue
            events = decode(buffer, sound[0]) if sound else None
            if events is None or sound is None:
                damaged = bytes(buffer.data[buffer.start : end])
                events = salvage(damaged, separator, losses)
            else:
                next_at = sound[1]
        yield events
        del events
        buffer.start = next_at
        buffer.fill()


def _taken(reader: BlockReader, buffer: Buffer, end: int) -> bool:
    with memoryview(buffer.data) as view, view[buffer.start : end] as block:
        return reader.take(block)


def _last_boundary(buffer: Buffer) -> tuple[int, int] | None:
    """Where the last whole event ends, and where the next one begins, by counting brackets."""
    text = buffer.data[buffer.start : buffer.stop]
    for bracket, at in reversed(list(_top_level(text))):
        between = _SEPARATOR.match(text, at)
        if bracket == "}" and between:
            return buffer.start + at + 1, buffer.start + at + between[0].rindex(b"{")
    return None


def decode(buffer: Buffer, end: int) -> list[kineto.Event] | None:
    """The unread events up to `end`; None if that is no sound list of them."""
    data, start = buffer.data, buffer.start
    around = data[start - 1], data[end]
    data[start - 1], data[end] = b"[]"
    try:
        return kineto.EVENTS.decode(memoryview(data)[start - 1 : end + 1])
    except UNREADABLE:
        return None
    finally:
        # The events' texts lie in between.
        data[start - 1], data[end] = around


def last_block(
    buffer: Buffer, separator: Separator, head: bytes, surroundings: Surroundings
) -> Iterator[list[kineto.Event]]:
    """The events from the buffer's first one to the list's end, and what follows it.

    Raises:
        UnknownLayoutError: what surrounds the events is not sound.
    """
    losses = surroundings.losses
    cut = buffer.data.rfind(separator.text, buffer.start, buffer.stop)
    events = decode(buffer, cut + 1) if cut >= 0 else None
    if events is not None:
        yield events
        buffer.start = cut + separator.next_at
    rest = buffer.unread()
    end = _end_of_list(rest)
    tail = b"" if end is None else rest[end + 1 :]
    astray = not head and separator.text in tail
    if end is None or astray or not surrounded(head, tail, surroundings):
        likely = _likely_end(rest, head, surroundings)
        if likely is None:
            # The file ends in its list of events, or in what follows them.
            end = None if separator.text in tail else end
            if not surrounded(head, b"}" if head else b"", surroundings):
                raise UnknownLayoutError
            surroundings.cut_short = end is None
            surroundings.tail_lost_bytes = 0 if end is None else len(tail)
        else:
            end = likely
    text = rest[:end].rstrip(_BLANK)
    found = events_of(text, losses)
    yield salvage(text, separator, losses) if found is None else found


def _end_of_list(text: bytes) -> int | None:
    """Where the bracket is that closes the list which the text begins in."""
    return next((at for bracket, at in _top_level(text) if bracket == "]"), None)


def _top_level(text: bytes | bytearray) -> Iterator[tuple[str, int]]:
    """Where each event of a list that the text begins in is closed, and the list: brackets only."""
    depth = 0
    for match in _BRACKET.finditer(text):
        bracket = match[0]
        if bracket in (b"{", b"["):
            depth += 1
        elif bracket in (b"}", b"]"):
            depth -= 1
            if depth <= 0:
                yield bracket.decode(), match.start()
            if depth < 0:
                return


def _likely_end(text: bytes, head: bytes, surroundings: Surroundings) -> int | None:
    """The same in a text whose brackets do not match: the last one that leaves a sound rest."""
    for match in reversed(list(_LIST_END.finditer(text[-_LEARN_BYTES:]))):
        end = max(len(text) - _LEARN_BYTES, 0) + match.end()
        if head and surrounded(head, text[end + 1 :], surroundings):
            return end
    return None


def surrounded(head: bytes, tail: bytes, surroundings: Surroundings) -> bool:
    """Whether head and tail are a sound top level around the events; keeps what it says."""
    if not head:
        surroundings.tail, surroundings.tail_lost_bytes = tail, len(tail.strip(_BLANK))
        return True
    text = head + _PLACEHOLDER + tail
    changes: Counter[str] = Counter()
    try:
        top = kineto.TOP.decode(text)
    except msgspec.ValidationError:
        return False
    except UNREADABLE:
        text, changes = without_log_lines(text)
        text, more = mend(text)
        changes += more
        try:
            top = kineto.TOP.decode(text)
        except UNREADABLE:
            return False
    if top.events is msgspec.UNSET or bytes(top.events) != _PLACEHOLDER:
        return False
    surroundings.top, surroundings.tail = top, tail
    surroundings.losses.changes += changes
    return True
