"""How is a file that Kineto wrote read without parsing each of its events?

Its events repeat: in a loop of decode steps two of them differ by their times and by a few counted
numbers only. So those numbers are found by their places in the lines, read all at once, and
blanked; what is left of an event's text, its form, has mostly been met before. Each distinct form
is parsed once, by the parser that reads any other file, with numbers of ours in the blanks: where
they come out says what the blanks mean. A place that was guessed wrong makes a form that cannot be
used: the block is then parsed event by event, as one of any other layout is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from decodeprof.ingest import kineto_events as kineto
from decodeprof.ingest.columns import Grown
from decodeprof.ingest.gather import IMPOSSIBLE_NS, Rows, table_of
from decodeprof.ingest.kineto_flows import NotUnderstoodError, check_flows, list_of
from decodeprof.ingest.number_scan import Runs, Text
from decodeprof.ingest.salvage import UNREADABLE
from decodeprof.model.trace import I64, NONE

_ZERO = ord("0")
# Where the first key of an event and the value of its phase are, counted from its brace.
_KEY_AT, _PHASE_AT = 7, 13
_FIRST = re.compile(rb'\{\n    "ph": "X"[^{}]*?\n    "ts": [\d.]+(?P<to_length>,\s+"dur": )\d')
_TS_KEY = b'    "ts": '
_TO_EXTERNAL = re.compile(rb'"dur": [\d.]+(\s*,\s*"args": \{\s+"External id": )\d')
_CORRELATION = b'"correlation": '
_CORRELATION_END = np.frombuffer(_CORRELATION[-8:], "<u8")[0]
# A correlation lies behind the external id and fields of few forms.
_MOST_PLACES = 6
# What is written into the blanks: no number of a file's own, unless by a chance that costs a block.
_OURS = b"73051860"
_FILL = {
    1: _OURS + b"29.731",
    2: _OURS + b"31.733",
    3: _OURS + b"37",
    4: _OURS + b"41",
    5: _OURS + b"43",
}
_START, _LENGTH, _EXTERNAL, _SOME, _LAST = _FILL
_BLANKS = re.compile(b"[%b]+" % bytes(_FILL))
_COUNTED = {int(_FILL[mark]): mark for mark in (_EXTERNAL, _SOME, _LAST)}
_JOINED = ("device", "calls", "ops", "annotations", "frames")
# What a form is, where it is no row of a table: events of no table; events that are parsed one by
# one, since they are few; events whose blanks are none of those that are understood.
_SKIPPED, _RARE, _UNUSABLE = -1, -2, -3
BLOCK_BYTES = 2 << 20
"""Each block costs some hundred operations of numpy, whatever its size: twice what is parsed at
once."""
WORTH_BYTES = 96 << 20
"""From this size on forms are met often enough: to learn one takes as long as parsing some 20
events, and each time that it is met again saves two fifths of an event's parsing."""
# Events for each new form, among so many in a row: where they are fewer, looking for forms ends.
# The first ones make most of the forms of a loop known.
_TRIAL_EVENTS, _FIRST_WORTH, _WORTH = 1 << 16, 5, 25
# Of a block in which most are new, so many are learnt, and the block is parsed: where events
# repeat at all, the next block will know these.
_MOST_LEARNT = 256
# Blocks that had to be parsed, before no more are looked at.
_MOST_PARSED = 8
# Forms are given up, and learnt anew, before they fill the memory.
_MOST_FORMS = 1 << 16


class _Forms(dict[bytes, int]):
    """The index of each form; a new one that is looked up gets the next index, and is kept."""

    def __init__(self) -> None:
        super().__init__()
        self.new: list[bytes] = []
        """Those met for the first time, and not parsed yet."""

    def __missing__(self, form: bytes) -> int:
        index = self[form] = len(self)
        self.new.append(form)
        return index

    def drop_new(self) -> None:
        """Forget those that were not parsed."""
        for form in self.new:
            del self[form]
        self.new = []


@dataclass(frozen=True)
class _Places:
    """Where the numbers are, as a file's first events show it."""

    start_line: int
    """Lines from an event's brace to its start time."""
    to_length: int
    """Bytes from the end of the start time to the duration."""


class KinetoLines:
    """Reads blocks of a file into rows, as long as they lie in Kineto's lines."""

    separator = b'},\n  {\n    "'
    """What every version of Kineto writes between two events."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._text = Text()
        self._worth = _FIRST_WORTH
        self._pays = True
        self._parsed_blocks = self._seen_events = self._new_forms = 0
        self._places: _Places | None = None
        self._to_external = 0
        self._to_correlation: list[int] = []
        self._forget()

    def _forget(self) -> None:
        self._forms = _Forms()
        self._table, self._row = Grown(np.dtype(np.int8)), Grown(np.dtype(np.int64))
        self._sources = {name: Grown(np.dtype(np.int8)) for name in ("external", "correlation")}
        # A row of each form, with names and threads in terms of the rows' own.
        self._models = self._rows.like()
        self._columns = {
            name: {field: Grown(dtype) for field, dtype in table.table.dtypes().items()}
            for name, table in self._models.tables().items()
        }

    def take(self, block: memoryview) -> bool:
        """Add the events of a block; False, and nothing is added, where it must be parsed.

        Args:
            block: from the brace that opens an event to a `separator`, which is its end.
        """
        if not self._pays:
            return False
        try:
            self._take(block)
        except NotUnderstoodError:
            self._parsed_blocks += 1
            self._pays = self._parsed_blocks <= _MOST_PARSED
            return False
        if self._seen_events >= _TRIAL_EVENTS:
            self._pays = self._seen_events >= self._worth * self._new_forms
            self._worth = _WORTH
            self._seen_events = self._new_forms = 0
        return True

    def _take(self, block: memoryview) -> None:
        text = self._text
        text.hold(block)
        if text.data[: text.size].min() < ord("\t"):
            raise NotUnderstoodError  # No JSON, and our marks could be its bytes.
        newlines = text.places(ord("\n"))
        lines = _event_lines(text, newlines)
        begin = newlines[lines] - 1
        known = text.data[begin[:-1] + _KEY_AT] == ord("p")
        phase = np.where(known, text.data[begin[:-1] + _PHASE_AT], 0)
        complete = phase == ord("X")
        flow = (phase == ord("s")) | (phase == ord("f")) | (phase == ord("t"))
        which = np.flatnonzero(complete)
        numbers = self._numbers(text, block, newlines, lines, begin, which) if len(which) else {}
        for mark, runs in numbers.items():
            text.blank(runs, mark)
        check_flows(text, begin[:-1][flow], begin[1:][flow])
        # What begins otherwise ("name", or another phase) is parsed.
        others = ~(flow | complete)
        parsed = _parsed(b"".join(text.pieces(begin[:-1][others], begin[1:][others])))
        if any(e.ph == "X" and table_of(e.cat) in _JOINED for e in parsed):
            raise NotUnderstoodError  # They would come behind others that they precede.
        forms = self._forms_of(text.pieces(begin[:-1][complete], begin[1:][complete]))
        table = self._table.rows(forms)
        if (table == _UNUSABLE).any():
            raise NotUnderstoodError
        rare = which[table == _RARE]
        parsed += _parsed(b"".join([block[begin[i] : begin[i + 1]] for i in rare.tolist()]))
        for at, name in enumerate(_JOINED):
            rows = np.flatnonzero(table == at)
            if len(rows):
                self._add(name, forms[rows], rows, numbers)
        self._rows.add(parsed)
        self._rows.events += len(lines) - 1 - len(parsed)

    def _numbers(
        self, text: Text, block: memoryview, newlines: I64, lines: I64, begin: I64, complete: I64
    ) -> dict[int, Runs]:
        """The numbers of events that have a length, by what they are blanked with."""
        places = self._learnt(block)
        starts, ends = begin[complete], begin[complete + 1]
        first, behind = lines[complete], lines[complete + 1]
        line = newlines[np.minimum(first + places.start_line - 1, behind)] + 1
        start = text.times(_inside(line + len(_TS_KEY), starts, ends))
        length = text.times(_inside(start.end + places.to_length, starts, ends))
        length.keep(length.value <= IMPOSSIBLE_NS)
        external = text.numbers(_inside(length.end + self._to_external, starts, ends))
        external.keep(np.full(len(starts), self._to_external > 0))
        known = np.where(external.length > 0, external.end, length.end)
        correlation = self._correlations(text, known, starts, ends)
        # The last line of arguments ends before two closing braces and the next opening one.
        last = text.numbers_before(np.maximum(newlines[np.maximum(behind - 3, 0)], 16))
        last.keep(text.data[np.maximum(last.begin - 1, 0)] == ord(" "))
        numbers = {
            _START: start, _LENGTH: length, _EXTERNAL: external, _SOME: correlation, _LAST: last,
        }  # fmt: skip
        before = starts
        for runs in numbers.values():
            runs.keep((runs.begin >= before) & (runs.end < ends))
            before = np.where(runs.length > 0, runs.end, before)
        return numbers

    def _learnt(self, block: memoryview) -> _Places:
        if self._places is None:
            found = _FIRST.search(block)
            if found is None:
                raise NotUnderstoodError
            start_line = found[0].count(b"\n", 0, found[0].index(b'\n    "ts"') + 1)
            self._places = _Places(start_line, len(found["to_length"]))
        if not self._to_external:
            external = _TO_EXTERNAL.search(block)
            self._to_external = len(external[1]) if external else 0
        return self._places

    def _correlations(self, text: Text, known: I64, starts: I64, ends: I64) -> Runs:
        """The correlations that lie where others have lain."""
        at = np.zeros(len(known), np.int64)
        for distance in self._to_correlation:
            place = _inside(known + distance, starts, ends)
            at = np.where(text.words[place - 8] == _CORRELATION_END, place, at)
        runs = text.numbers(at)
        runs.keep(at > 0)
        return runs

    def _forms_of(self, texts: list[bytes]) -> I64:
        """The index of each event's form; new ones are parsed.

        Raises:
            NotUnderstoodError: one of them is no JSON, or most of them are new.
        """
        self._seen_events += len(texts)
        if len(self._forms) > _MOST_FORMS:
            self._forget()
        known = self._forms
        forms = np.fromiter(map(known.__getitem__, texts), np.int64, len(texts))
        new = len(known.new)
        self._new_forms += new
        try:
            if new > max(_MOST_LEARNT, len(texts) // 2):
                self._parse(known.new[:_MOST_LEARNT])
                known.new = known.new[_MOST_LEARNT:]
                raise NotUnderstoodError
            if new:
                self._parse(known.new)
                known.new = []
        finally:
            known.drop_new()
        return forms

    def _parse(self, forms: list[bytes]) -> None:
        """Parse new forms, each with our numbers in its blanks."""
        filled = _BLANKS.sub(lambda found: _FILL[found[0][0]], b"".join(forms))
        parsed = _parsed(filled)
        if len(parsed) != len(forms):
            raise NotUnderstoodError
        tables: list[int] = []
        sources: dict[str, list[int]] = {name: [] for name in self._sources}
        groups: dict[str, list[kineto.Event]] = {name: [] for name in _JOINED}
        rows: list[int] = []
        for event, form in zip(parsed, forms, strict=True):
            table = _place_of(event)
            tables.append(table)
            blanks = _blanks_of(event) if table >= 0 else (0, 0)
            if blanks is None:
                tables[-1], blanks = _UNUSABLE, (0, 0)
            for name, mark in zip(sources, blanks, strict=True):
                sources[name].append(mark)
            rows.append(0)
            if tables[-1] >= 0:
                group = groups[_JOINED[table]]
                rows[-1] = len(self._columns[_JOINED[table]]["start_ns"]) + len(group)
                group.append(event)
                if event.args and event.args.correlation != NONE and not blanks[1]:
                    self._learn_correlation(form)
        for name, group in groups.items():
            if group:
                self._models.add(group)
                columns = self._models.tables()[name]
                for grown, column in zip(self._columns[name].values(), columns.take(), strict=True):
                    grown.extend(column)
        self._table.extend(np.array(tables, np.int8))
        self._row.extend(np.array(rows, np.int64))
        for name, marks in sources.items():
            self._sources[name].extend(np.array(marks, np.int8))

    def _learn_correlation(self, form: bytes) -> None:
        """Keep how far behind the last number before it a correlation lies."""
        at = form.find(_CORRELATION) + len(_CORRELATION)
        known = max(form.rfind(b"%c" % mark) for mark in (_LENGTH, _EXTERNAL)) + 1
        if len(_CORRELATION) <= known < at and len(self._to_correlation) < _MOST_PLACES:
            self._to_correlation = [*dict.fromkeys([*self._to_correlation, at - known])]

    def _add(self, table: str, forms: I64, which: I64, numbers: dict[int, Runs]) -> None:
        """Add rows: what their forms say, and their own numbers."""
        rows = self._row.rows(forms)
        columns: dict[str, NDArray[Any]] = {
            name: column.rows(rows) for name, column in self._columns[table].items()
        }
        columns["start_ns"] = numbers[_START].value[which]
        columns["end_ns"] = columns["start_ns"] + numbers[_LENGTH].value[which]
        for name, grown in self._sources.items():
            if name in columns:
                source = grown.rows(forms)
                for mark in (_EXTERNAL, _SOME, _LAST):
                    own = np.flatnonzero(source == mark)
                    columns[name][own] = numbers[mark].value[which[own]]
        if "correlation" in columns:
            columns["correlation"][columns["correlation"] <= 0] = NONE
        self._rows.tables()[table].add(**columns)


def _event_lines(text: Text, newlines: I64) -> I64:
    """The newlines that follow the events' opening braces, and the next event's behind the block.

    Raises:
        NotUnderstoodError: the block does not begin and end with one.
    """
    short = np.flatnonzero(newlines[1:] - newlines[:-1] == len("  {\n")) + 1
    braces = short[text.data[newlines[short] - 1] == ord("{")]
    lines = np.concatenate(([0], braces))
    if len(newlines) < 2 or newlines[0] != 1 or lines[-1] != len(newlines) - 1:
        raise NotUnderstoodError
    return lines


def _inside(at: I64, starts: I64, ends: I64) -> I64:
    """Places that are looked at, kept inside their events."""
    return np.clip(at, starts + 8, ends)


def _parsed(text: bytes) -> list[kineto.Event]:
    try:
        return kineto.EVENTS.decode(list_of(text))
    except UNREADABLE:
        raise NotUnderstoodError from None


def _place_of(event: kineto.Event) -> int:
    """The place of an event's table, or what else it is."""
    table = table_of(event.cat)
    if event.ph != "X" or not table:
        return _SKIPPED
    return _JOINED.index(table) if table in _JOINED else _RARE


def _blanks_of(event: kineto.Event) -> tuple[int, int] | None:
    """What the external id and the correlation were blanked with (0: they were not); None: misread.

    Our numbers may be its times and these two, and nothing else that is read.
    """
    if bytes(event.ts) != _FILL[_START] or bytes(event.dur) != _FILL[_LENGTH]:
        return None
    args = event.args or kineto.NO_ARGS
    # The older spelling counts where the newer one is not there.
    external = args.external if args.external != NONE else args.old_external
    blanks = _mark_of(external), _mark_of(args.correlation)
    read = [event.name, event.cat, event.pid, event.tid, *msgspec.structs.astuple(args)]
    texts = [_bytes(value) for value in read if value is not kineto.NOTHING and value != NONE]
    ours = b"\n".join(texts).count(_OURS)
    return blanks if ours == sum(map(bool, blanks)) else None


def _mark_of(value: kineto.Number) -> int:
    return _COUNTED.get(value, 0) if type(value) is int else 0


def _bytes(value: object) -> bytes:
    return bytes(value) if type(value) is msgspec.Raw else str(value).encode()
