"""What the host did: API calls, NVTX ranges, and the pauses that the profiler itself made."""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np

from decodeprof import units
from decodeprof.ingest.nsys.columns import Part, Reader, drop_zeroes, lookup, optional, pids_of
from decodeprof.ingest.nsys.database import Source, require
from decodeprof.model.calls import bare_name, call_kind
from decodeprof.model.trace import I64, NONE

_PUSH_POP, _START_END = 59, 60
"""NVTX ranges in NVTX_EVENTS.eventType; other types are marks, categories, names and domains."""
_OWN_OVERHEAD = (3, 4, 5)
"""CUPTI's overhead types that are the profiler's own: buffer flushes, instrumentation, resources.

Loading a kernel and waiting for room in the command buffer happen without a profiler too.
"""


def calls(reader: Reader) -> Part | None:
    """Calls of the runtime and driver APIs, each once."""
    source = reader.database.find("CUPTI_ACTIVITY_KIND_RUNTIME")
    if source is None:
        return None
    require(reader.database, source, ("start", "end", "globalTid", "correlationId", "nameId"))
    columns = reader.database.integers(
        source,
        {
            "start_ns": "start",
            "end_ns": "end",
            "tid": "globalTid",
            "correlation": "correlationId",
            "name": "nameId",
            "class": optional(source, "eventClass"),
        },
    )
    drop_zeroes(columns)
    texts = reader.strings(columns["name"])
    if len(columns["name"]) and not texts:
        reader.caveats.append(
            "this export has no API call's name (table StringIds): which calls launch, wait or "
            "copy is not known, and none of them is counted"
        )
        return None
    if lost := reader.without_text(columns["name"], texts):
        reader.caveats.append(
            f"{units.counted(lost, 'API call')} without a name in this export, taken for calls "
            "that neither launch nor wait"
        )
    bare = {number: bare_name(text) for number, text in texts.items()}
    name = reader.named(columns["name"], lambda i: bare.get(i, f"call {i}"))
    distinct, inverse = np.unique(name, return_inverse=True)
    every = reader.names.all()
    kinds = np.array([int(call_kind(every[i])) for i in distinct.tolist()], np.int64)
    part = Part(
        {
            "start_ns": columns["start_ns"],
            "end_ns": columns["end_ns"],
            "name": name,
            "kind": kinds[inverse] if len(kinds) else name,
            "thread": reader.thread(columns["tid"]),
            "correlation": columns["correlation"],
            "external": np.full(len(name), NONE, np.int64),
        },
        pids_of(columns["tid"]),
    )
    return part.take(_once(part, columns["class"]))


def _once(part: Part, event_class: I64) -> I64:
    """Rows without those that repeat a call: CUDA backtraces write each call a second time."""
    columns = part.columns
    order = np.lexsort((event_class, columns["name"], columns["correlation"], columns["thread"]))
    same = np.ones(len(order), np.bool_)
    for key in ("name", "correlation", "thread"):
        value = columns[key][order]
        same[1:] &= value[1:] == value[:-1]
    same[:1] = False
    repeated = same & (columns["correlation"][order] != NONE)
    return np.sort(order[~repeated]).astype(np.int64)


def ranges(reader: Reader) -> Part | None:
    """NVTX ranges that were closed, with their text, inline or registered."""
    source = reader.database.find("NVTX_EVENTS")
    if source is None:
        return None
    require(reader.database, source, ("start", "end", "eventType", "globalTid"))
    if optional(source, "text", "textId") is None:
        require(reader.database, source, ("text", "textId"))
    where = f"eventType IN ({_PUSH_POP}, {_START_END})"
    columns = reader.database.integers(
        source,
        {
            "row": "rowid",
            "start_ns": "start",
            "end_ns": "end",
            "tid": "globalTid",
            "text": optional(source, "textId"),
        },
        where=where,
    )
    closed = np.flatnonzero(columns["end_ns"] != NONE)
    if len(closed) < len(columns["row"]):
        n = len(columns["row"]) - len(closed)
        reader.caveats.append(
            units.counted(
                n, "NVTX range that was never closed was", "NVTX ranges that were never closed were"
            )
            + " left out"
        )
    columns = {key: column[closed] for key, column in columns.items()}
    return Part(
        {
            "start_ns": columns["start_ns"],
            "end_ns": columns["end_ns"],
            "name": _nvtx_names(reader, source, columns),
            "thread": reader.thread(columns["tid"]),
        },
        pids_of(columns["tid"]),
    )


# torch.autograd.profiler.emit_nvtx names an operator's range so; nsys can switch it on by itself.
_OPERATOR = re.compile(r"([A-Za-z_]\w*::[\w.]+)(?:, (?:op_id|seq|sizes|input_op_ids) = .*)?")


def _nvtx_text(text: str) -> str:
    """A range's name; an operator's without its running number, which would make each one new."""
    operator = _OPERATOR.fullmatch(text)
    return operator[1] if operator else text


def operators(reader: Reader, ranges: Part | None) -> Part | None:
    """Framework operators among the NVTX ranges; None: there are none, so none were recorded."""
    if ranges is None:
        return None
    names = reader.names.all()
    distinct, inverse = np.unique(ranges.columns["name"], return_inverse=True)
    is_operator = np.array(
        [_OPERATOR.fullmatch(names[i]) is not None for i in distinct.tolist()], np.bool_
    )
    if not is_operator.any():
        return None
    found = ranges.take(np.flatnonzero(is_operator[inverse]).astype(np.int64))
    nothing = np.full(len(found), NONE, np.int64)
    return Part({**found.columns, "external": nothing, "detail": nothing}, found.pid)


def _nvtx_names(reader: Reader, source: Source, columns: dict[str, I64]) -> I64:
    texts = reader.strings(columns["text"])
    name = reader.named(
        columns["text"],
        lambda i: _nvtx_text(texts[i]) if i in texts else "" if i == NONE else f"NVTX text {i}",
    )
    if "text" in source.columns:
        inline = reader.database.texts(source, "text")
        _overlay(
            name, columns["row"], ((row, reader.names[_nvtx_text(text)]) for row, text in inline)
        )
    if lost := reader.without_text(columns["text"], texts):
        reader.caveats.append(
            f"{units.counted(lost, 'NVTX range')} without a text in this export, named by number"
        )
    return name


def _overlay(name: I64, rows: I64, named: Iterable[tuple[int, int]]) -> None:
    """Put names in the places of their rows; `rows` is in ascending order."""
    pairs = np.fromiter(named, np.dtype([("row", np.int64), ("name", np.int64)]))
    order = np.argsort(rows, kind="stable")
    at = lookup(rows[order], pairs["row"])
    name[order[at[at != NONE]]] = pairs["name"][at != NONE]


def pauses(reader: Reader) -> list[tuple[int, int]]:
    """Start and end of what the profiler itself took from the program."""
    found: list[tuple[int, int]] = []
    for table in ("CUPTI_ACTIVITY_KIND_OVERHEAD", "PROFILER_OVERHEAD"):
        source = reader.database.find(table)
        if source is None or not {"start", "end"} <= source.columns:
            continue
        kind = optional(source, "overheadType")
        rows = reader.database.integers(source, {"start": "start", "end": "end", "type": kind})
        # PROFILER_OVERHEAD holds only the profiler's own; before 2023 it names no types.
        own = np.isin(rows["type"], _OWN_OVERHEAD)
        if table == "PROFILER_OVERHEAD":
            own |= rows["type"] <= 1
        found += zip(rows["start"][own].tolist(), rows["end"][own].tolist(), strict=True)
    return sorted(found)


_WARNING, _ERROR = 2, 3
"""Levels in DIAGNOSTIC_EVENT.severity."""
_OF_THE_TRACE = re.compile(r"\bCUDA\b|\blost\b|\bdropped\b|\bbuffer", re.IGNORECASE)
"""What else nsys warns of (CPU sampling, other APIs) is not read here."""
_MOST_WARNINGS = 4


def warnings(reader: Reader) -> list[str]:
    """What nsys itself warned of while it traced CUDA, each text once."""
    source = reader.database.find("DIAGNOSTIC_EVENT")
    if source is None or not {"severity", "text"} <= source.columns:
        return []
    rows = reader.database.records(source, ("severity", "text"))
    texts = [str(row["text"]).strip() for row in rows if row["severity"] in (_WARNING, _ERROR)]
    found = dict.fromkeys(text for text in texts if _OF_THE_TRACE.search(text))
    return [f"nsys warned: {text}" for text in list(found)[:_MOST_WARNINGS]]
