"""Which rows of which table do the events of one block make?

Works on whole columns: one pass of Python per field, the rest in numpy. Nothing is rounded, and
what cannot be placed is counted, by its reason.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from decodeprof.ingest import kineto_events as kineto
from decodeprof.ingest.columns import Columns, Computed, Names
from decodeprof.ingest.digits import MISSING, ns_from_texts
from decodeprof.ingest.op_details import Details
from decodeprof.model.calls import bare_name, call_kind
from decodeprof.model.trace import (
    I64,
    NONE,
    SYNC_KINDS,
    ActivityKind,
    AnnotationTable,
    CallTable,
    DeviceTable,
    FrameTable,
    OpTable,
    SyncTable,
)

_K = TypeVar("_K")
_KINDS = {
    "kernel": ActivityKind.KERNEL,
    "gpu_memcpy": ActivityKind.COPY,
    "memcpy": ActivityKind.COPY,
    "gpu_memset": ActivityKind.SET,
    "memset": ActivityKind.SET,
}
# 36 years: beyond what any profiler records, and differences of such times fit int64.
IMPOSSIBLE_NS = 2**60
# A process id in a device's place (old files) is no device index.
_MOST_DEVICES = 1024
_LARGEST_PRODUCT = 2**62
# A byte that valid JSON cannot hold.
_BETWEEN = b"\0"
_LIST = msgspec.json.Decoder(list[kineto.Number])


class Rows:
    """What a file's events have made so far; times are as in the file."""

    def __init__(self) -> None:
        self.names = Names()
        self.threads = Names()
        self.details = Details()
        self.device = Columns(DeviceTable)
        self.calls = Columns(CallTable)
        self.ops = Columns(OpTable)
        self.annotations = Columns(AnnotationTable)
        self.frames = Columns(FrameTable)
        self.syncs = Columns(SyncTable)
        self.overhead: list[tuple[int, int]] = []
        self.dropped: Counter[str] = Counter()
        self.events = 0
        self._thread_keys = Computed(self._thread)
        self._calls = Computed(self._call)
        self._shapes = Computed(_sizes)

    def add(self, events: list[kineto.Event]) -> None:
        """Add a block's events. Their raw texts are not needed afterwards."""
        self.events += len(events)
        # One group for each table keeps the file's order among rows of equal times.
        groups: dict[str, list[kineto.Event]] = {}
        appends: dict[str, Callable[[kineto.Event], None]] = {}
        for event in events:
            if event.ph != "X":
                continue
            category = event.cat
            if category not in appends:
                table = table_of(category)
                appends[category] = groups.setdefault(table, []).append
            appends[category](event)
        for table, group in groups.items():
            if table:
                _add_group(self, table, group)

    def like(self) -> Rows:
        """Rows of their own with the same names, threads and arguments, by the same indices."""
        rows = copy.copy(self)
        rows.__dict__.update({name: Columns(old.table) for name, old in self.tables().items()})
        return rows

    def any(self) -> bool:
        """Whether anything was found that a profiler records."""
        return any(len(columns) for name, columns in self.tables().items() if name != "syncs")

    def tables(self) -> dict[str, Columns[Any]]:
        """The tables by name."""
        return {
            "device": self.device,
            "calls": self.calls,
            "ops": self.ops,
            "annotations": self.annotations,
            "frames": self.frames,
            "syncs": self.syncs,
        }

    def thread_column(self, events: list[kineto.Event]) -> NDArray[np.int32]:
        """Each event's thread: ``pid/tid`` as the file writes them."""
        pids, tids = [event.pid for event in events], [event.tid for event in events]
        if _all_equal(pids) and _all_equal(tids):  # The rule: one thread runs the loop.
            key = _BETWEEN.join((pids[0], tids[0]))
            return np.full(len(events), self._thread_keys[key], np.int32)
        keys = list(map(_BETWEEN.join, zip(pids, tids, strict=True)))
        return np.array([self._thread_keys[key] for key in keys], np.int32)

    def _thread(self, key: bytes) -> int:
        pid, _, tid = key.partition(_BETWEEN)
        return self.threads[f"{_text(pid)}/{_text(tid)}"]

    def call_columns(self, names: list[str]) -> NDArray[np.int32]:
        """Index of the bare name, and the kind, of each API call: shape (2, n)."""
        known = self._calls
        return np.array([known[name] for name in names], np.int32).reshape(-1, 2).T

    def _call(self, name: str) -> tuple[int, int]:
        return self.names[bare_name(name)], call_kind(name)

    def launch_columns(self, args: list[kineto.Args]) -> I64:
        """Blocks in the grid and threads in a block, of each kernel: shape (2, n)."""
        join, known = _BETWEEN.join, self._shapes
        pairs = [known[join((a.grid, a.block))] for a in args]
        return np.array(pairs, np.int64).reshape(-1, 2).T


def table_of(category: str) -> str:
    """The name of the table that events of a category go to; empty where none does."""
    return _TABLES.get(category.lower(), "")


def _add_group(rows: Rows, table: str, events: list[kineto.Event]) -> None:
    """Add the events of one table, those with sound times."""
    if not events:
        return
    start = ns_from_texts([event.ts for event in events])
    length = ns_from_texts([event.dur for event in events])
    no_time = start == MISSING
    no_length = (length == MISSING) & ~no_time
    negative = (length < 0) & ~no_length & ~no_time
    length[length == MISSING] = 0
    impossible = (length > IMPOSSIBLE_NS) | (start < -IMPOSSIBLE_NS)
    impossible &= ~no_time & ~negative
    reasons = [
        ("without a time", no_time),
        ("with a negative duration", negative),
        ("with an impossible time", impossible),
    ]
    if table == "device":  # A host call without a duration is kept as a moment.
        reasons.append(("without a duration", no_length))
        impossible &= ~no_length
    dropped = np.zeros(len(events), np.bool_)
    for reason, which in reasons:
        rows.dropped[reason] += int(which.sum())
        dropped |= which
    if dropped.any():
        kept = np.flatnonzero(~dropped)
        events = [events[i] for i in kept.tolist()]
        start, length = start[kept], length[kept]
    if events:
        _ADD[table](rows, events, {"start_ns": start, "end_ns": start + length})


def _add_device(rows: Rows, events: list[kineto.Event], times: dict[str, I64]) -> None:
    args = [event.args or kineto.NO_ARGS for event in events]
    stream = _integers([a.stream for a in args])
    device = _integers([a.device for a in args])
    for row in np.flatnonzero(stream == NONE).tolist():
        stream[row] = kineto.whole(_text(events[row].tid))
    for row in np.flatnonzero(device == NONE).tolist():
        device[row] = kineto.whole(_text(events[row].pid), 0)
    device[(device < 0) | (device >= _MOST_DEVICES)] = 0
    categories = [event.cat for event in events]
    kinds = {category: _KINDS[category.lower()] for category in set(categories)}
    kind = np.array([kinds[category] for category in categories], np.int8)
    blocks, threads = rows.launch_columns(args)
    rows.device.add(
        **times,
        kind=kind,
        name=rows.names.column([event.name for event in events]),
        device=device,
        stream=stream,
        correlation=_correlations([a.correlation for a in args]),
        call=np.full(len(events), NONE, np.int64),
        bytes=_bytes(args, kind),
        graph_node=_integers([a.graph_node for a in args]),
        external=_externals(args),
        blocks=blocks,
        threads_per_block=threads,
    )


def _add_calls(rows: Rows, events: list[kineto.Event], times: dict[str, I64]) -> None:
    args = [event.args or kineto.NO_ARGS for event in events]
    names, kinds = rows.call_columns([event.name for event in events])
    rows.calls.add(
        **times,
        name=names,
        kind=kinds,
        thread=rows.thread_column(events),
        correlation=_correlations([a.correlation for a in args]),
        external=_externals(args),
    )


def _add_ops(rows: Rows, events: list[kineto.Event], times: dict[str, I64]) -> None:
    args = [event.args or kineto.NO_ARGS for event in events]
    rows.ops.add(
        **times,
        name=rows.names.column([event.name for event in events]),
        thread=rows.thread_column(events),
        external=_externals(args),
        detail=rows.details.column(args),
    )


def _add_annotations(rows: Rows, events: list[kineto.Event], times: dict[str, I64]) -> None:
    rows.annotations.add(
        **times,
        name=rows.names.column([event.name for event in events]),
        thread=rows.thread_column(events),
    )


def _add_frames(rows: Rows, events: list[kineto.Event], times: dict[str, I64]) -> None:
    rows.frames.add(
        **times,
        name=rows.names.column([event.name for event in events]),
        thread=rows.thread_column(events),
    )


def _add_syncs(rows: Rows, events: list[kineto.Event], times: dict[str, I64]) -> None:
    args = [event.args or kineto.NO_ARGS for event in events]
    kinds = [a.sync_kind or event.name for a, event in zip(args, events, strict=True)]
    known = np.array([kind in SYNC_KINDS for kind in kinds], np.bool_)
    args = [a for a, keep in zip(args, known.tolist(), strict=True) if keep]
    if not args:
        return
    rows.syncs.add(
        start_ns=times["start_ns"][known],
        end_ns=times["end_ns"][known],
        kind=np.array([SYNC_KINDS.index(kind) for kind in kinds if kind in SYNC_KINDS], np.int8),
        device=np.maximum(_integers([a.device for a in args], default=0), 0),
        stream=_integers([a.stream for a in args]),
        correlation=_correlations([a.correlation for a in args]),
        event=_integers([a.waits_event for a in args]),
        recorded_by=_correlations([a.recorded_by for a in args]),
    )


def _add_overhead(rows: Rows, _events: list[kineto.Event], times: dict[str, I64]) -> None:
    rows.overhead += zip(times["start_ns"].tolist(), times["end_ns"].tolist(), strict=True)


_TABLES = {
    **dict.fromkeys(_KINDS, "device"),
    **dict.fromkeys(("cuda_runtime", "cuda_driver", "runtime", "driver", "hip_runtime"), "calls"),
    **dict.fromkeys(("cpu_op", "operator"), "ops"),
    "user_annotation": "annotations",
    "python_function": "frames",
    "cuda_sync": "syncs",
    "overhead": "overhead",
}
_ADD: dict[str, Callable[[Rows, list[kineto.Event], dict[str, I64]], None]] = {
    "device": _add_device,
    "calls": _add_calls,
    "ops": _add_ops,
    "annotations": _add_annotations,
    "frames": _add_frames,
    "syncs": _add_syncs,
    "overhead": _add_overhead,
}


def _integers(values: list[Any], *, default: int = NONE) -> I64:
    """A column of what are integers nearly always; `kineto.whole` reads the others."""
    try:
        column = np.array(values)
    except OverflowError:
        column = np.empty(0, np.object_)
    if column.dtype != np.int64:
        return np.array([kineto.whole(value, default) for value in values], np.int64)
    column[column == np.iinfo(np.int64).min] = default
    return column


def _correlations(values: list[kineto.Number]) -> I64:
    # 0 is what profilers write for "none": as a key it would join strangers.
    column = _integers(values)
    column[column <= 0] = NONE
    return column


def _externals(args: list[kineto.Args]) -> I64:
    new = _integers([a.external for a in args])
    if (new != NONE).all():
        return new
    return np.where(new != NONE, new, _integers([a.old_external for a in args]))


def _bytes(args: list[kineto.Args], kind: NDArray[np.int8]) -> I64:
    """Bytes copied or set; kernels have none, and there are many of them."""
    column = np.full(len(args), NONE, np.int64)
    for row in np.flatnonzero(kind != ActivityKind.KERNEL).tolist():
        new = kineto.whole(args[row].bytes)
        column[row] = new if new != NONE else kineto.whole(args[row].old_bytes)
    return column


def _all_equal(texts: list[msgspec.Raw]) -> bool:
    return texts.count(texts[0]) == len(texts)


def _text(raw: bytes | msgspec.Raw) -> str:
    return bytes(raw).decode("utf-8", "replace").strip('"')


def _sizes(key: bytes) -> tuple[int, int]:
    """Blocks in a grid and threads in a block, from their joined texts."""
    grid, _, block = key.partition(_BETWEEN)
    return _product(grid), _product(block)


def _product(text: bytes) -> int:
    """The product of a list of sizes; -1 where there is none that makes sense."""
    try:
        values = _LIST.decode(text) if text else []
    except (msgspec.DecodeError, UnicodeDecodeError):
        return NONE
    product = 1
    for value in values:
        product *= kineto.whole(value, 0)
    return product if values and 0 < product < _LARGEST_PRODUCT else NONE
