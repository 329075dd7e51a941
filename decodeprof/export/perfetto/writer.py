"""How are tracks, slices and counters written, a piece at a time?

Packets are made by Perfetto's own builder and written out in pieces, since a trace is any number of
pieces in a row: what is held at once does not grow with the number of slices. Names and the keys of
arguments are written once and referred to by number.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import IO, Any

from decodeprof.errors import DecodeprofError

Value = int | float | str | bool

# A piece of some hundred kilobytes: larger ones are no faster.
_PACKETS_PER_PIECE = 4_096
_SEQUENCE = 1
_NEEDS_INTERNED = 2
_CLEARS_INTERNED = 1
_BEGIN, _END, _COUNTER = 1, 2, 4
_EXPLICIT_ORDER = 3
_NEVER_MERGED = 2
# Control and formatting characters: they hide or reverse what follows them in a page.
_HARMFUL = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def _builder() -> Any:
    try:
        from perfetto.trace_builder.proto_builder import TraceProtoBuilder
    except ModuleNotFoundError as error:
        raise DecodeprofError(
            "a Perfetto timeline needs the package `perfetto`",
            why=f"`{error.name}` is not installed",
            hint="pip install 'decodeprof[perfetto]'",
        ) from None
    return TraceProtoBuilder()


def check_available() -> None:
    """Raise the error that says what is missing, before anything is computed or opened.

    Raises:
        DecodeprofError: the package that writes timelines is not installed.
    """
    _builder()


def cleaned(text: str) -> str:
    """The text with what could change a page's structure, or is no valid UTF-8, replaced."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        "\N{REPLACEMENT CHARACTER}" if unicodedata.category(c) in _HARMFUL else c for c in text
    )


@dataclass
class _Interned:
    numbers: dict[str, int] = field(default_factory=dict)
    new: list[tuple[int, str]] = field(default_factory=list)

    def of(self, text: str) -> int:
        number = self.numbers.get(text)
        if number is None:
            number = self.numbers[text] = len(self.numbers) + 1
            self.new.append((number, cleaned(text)))
        return number


class Writer:
    """Writes one timeline into a binary file; `close` must be called at its end."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._names, self._keys, self._categories = _Interned(), _Interned(), _Interned()
        self._tracks = 0
        self._start_piece()
        packet = self._packet()
        packet.trusted_packet_sequence_id = _SEQUENCE
        packet.sequence_flags = _CLEARS_INTERNED
        # A second machine-readable name of the clock is not needed: all times are on one clock.
        packet.first_packet_on_sequence = True

    def _start_piece(self) -> None:
        self._builder = _builder()
        self._packet = self._builder.add_packet
        self._left = _PACKETS_PER_PIECE

    def _flush(self) -> None:
        self._file.write(self._builder.serialize())
        self._start_piece()

    def close(self) -> None:
        """Write what is left; the file stays open."""
        self._flush()

    def track(self, name: str, *, parent: int | None = None, description: str = "") -> int:
        """Make a track, below its parent in the order in which they are made; its number."""
        return self._describe(name, parent, description)

    def counter(self, name: str, *, parent: int, unit: str, description: str = "") -> int:
        """Make a track of numbers; its number."""
        return self._describe(name, parent, description, unit=unit)

    def _describe(
        self, name: str, parent: int | None, description: str, *, unit: str | None = None
    ) -> int:
        self._tracks += 1
        packet = self._packet()
        packet.trusted_packet_sequence_id = _SEQUENCE
        track = packet.track_descriptor
        track.uuid = self._tracks
        track.name = cleaned(name)
        track.child_ordering = _EXPLICIT_ORDER
        track.sibling_order_rank = self._tracks
        track.sibling_merge_behavior = _NEVER_MERGED
        if parent is not None:
            track.parent_uuid = parent
        if description:
            track.description = cleaned(description)
        if unit is not None:
            track.counter.unit_name = unit
        return self._tracks

    def begin(
        self,
        track: int,
        at_ns: int,
        name: str,
        *,
        category: str,
        args: Iterable[tuple[str, Value | None]] = (),
        flows_out: Iterable[int] = (),
        flow_in: int | None = None,
    ) -> None:
        """Begin a slice.

        Args:
            track: its track.
            at_ns: when.
            name: its name.
            category: its category.
            args: what else is known of it; None: unknown, and left out.
            flows_out: numbers of the flows that begin here.
            flow_in: the flow that ends here.
        """
        name_number, category_number = self._names.of(name), self._categories.of(category)
        keyed = [(self._keys.of(key), value) for key, value in args if value is not None]
        if self._names.new or self._keys.new or self._categories.new:
            self._write_interned()
        packet = self._packet()
        packet.timestamp = at_ns
        packet.trusted_packet_sequence_id = _SEQUENCE
        packet.sequence_flags = _NEEDS_INTERNED
        event = packet.track_event
        event.type = _BEGIN
        event.track_uuid = track
        event.name_iid = name_number
        event.category_iids.append(category_number)
        event.flow_ids.extend(flows_out)
        if flow_in is not None:
            event.terminating_flow_ids.append(flow_in)
        for key, value in keyed:
            argument = event.debug_annotations.add()
            argument.name_iid = key
            _set(argument, value)
        self._count()

    def end(self, track: int, at_ns: int) -> None:
        """End the innermost slice that is open on a track."""
        packet = self._packet()
        packet.timestamp = at_ns
        packet.trusted_packet_sequence_id = _SEQUENCE
        event = packet.track_event
        event.type = _END
        event.track_uuid = track
        self._count()

    def value(self, track: int, at_ns: int, value: int) -> None:
        """Say that a counter has a value from now on."""
        packet = self._packet()
        packet.timestamp = at_ns
        packet.trusted_packet_sequence_id = _SEQUENCE
        event = packet.track_event
        event.type = _COUNTER
        event.track_uuid = track
        event.counter_value = value
        self._count()

    def _count(self) -> None:
        self._left -= 1
        if self._left <= 0:
            self._flush()

    def _write_interned(self) -> None:
        packet = self._packet()
        packet.trusted_packet_sequence_id = _SEQUENCE
        packet.sequence_flags = _NEEDS_INTERNED
        data = packet.interned_data
        for interned, entries in (
            (self._names, data.event_names),
            (self._keys, data.debug_annotation_names),
            (self._categories, data.event_categories),
        ):
            for number, text in interned.new:
                entry = entries.add()
                entry.iid = number
                entry.name = text
            interned.new.clear()


def _set(argument: Any, value: Value) -> None:
    if isinstance(value, bool):
        argument.bool_value = value
    elif isinstance(value, int):
        argument.int_value = value
    elif isinstance(value, float):
        argument.double_value = value
    else:
        argument.string_value = cleaned(value)
