"""What does a torch.profiler (Kineto) JSON trace hold, exactly?

Reads the forms of 2020 to 2026 that `kineto_events` describes into a `Trace`, and keeps every
device activity: nothing is rounded, and what cannot be placed is counted in a caveat.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from typing import TypeVar

import msgspec
import numpy as np

from decodeprof.errors import InputError
from decodeprof.ingest import kineto_events as kineto
from decodeprof.ingest.columns import Names, build
from decodeprof.ingest.digits import ns_from_us
from decodeprof.ingest.mend import mend
from decodeprof.ingest.op_details import Details
from decodeprof.model.calls import LAUNCHING, CallKind, bare_name, call_kind
from decodeprof.model.trace import (
    NONE,
    SYNC_KINDS,
    ActivityKind,
    AnnotationTable,
    CallTable,
    DeviceInfo,
    DeviceTable,
    FrameTable,
    OpTable,
    SyncTable,
    Trace,
)

_DEVICE_KINDS = {
    "kernel": ActivityKind.KERNEL,
    "gpu_memcpy": ActivityKind.COPY,
    "memcpy": ActivityKind.COPY,
    "gpu_memset": ActivityKind.SET,
    "memset": ActivityKind.SET,
}
_CALLS = frozenset({"cuda_runtime", "cuda_driver", "runtime", "driver", "hip_runtime"})
_OPS = frozenset({"cpu_op", "operator"})
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# Relative times are counted from a base in the past, absolute ones from 1970: an event at exactly
# 0 beside others a second and more later has no time, it is not the first event.
_NO_TIME_BEFORE_NS = 10**9
# 36 years: beyond what any profiler records, and differences of such times fit int64.
_IMPOSSIBLE_NS = 2**60
_A = TypeVar("_A", bound=msgspec.Struct)
_VERSION_FIELDS = ("cuda_driver", "cuda_runtime", "cupti", "hip_runtime")


class _Rows:
    """Rows as they are collected, before sorting."""

    def __init__(self) -> None:
        self.names = Names()
        self.threads = Names()
        self.details = Details()
        self.device: list[tuple[int, ...]] = []
        self.calls: list[tuple[int, ...]] = []
        self.ops: list[tuple[int, ...]] = []
        self.annotations: list[tuple[int, ...]] = []
        self.frames: list[tuple[int, ...]] = []
        self.syncs: list[tuple[int, ...]] = []
        self.overhead: list[tuple[int, int]] = []
        self.dropped: Counter[str] = Counter()


def parse(data: bytes, *, name: str) -> Trace:
    """Parse a whole torch.profiler file that is in memory.

    Args:
        data: the JSON text.
        name: the file's name, for the trace's own.

    Raises:
        InputError: it is not JSON, or JSON of something else, or holds no events.
    """
    file, mended = _decode(data, name)
    rows = _Rows()
    kinds: dict[str, CallKind] = {}
    for event in file.events:
        if event.ph == "X":
            _add(event, rows, kinds)
    if not (rows.device or rows.calls or rows.ops or rows.annotations or rows.frames):
        raise InputError(
            f"`{name}` holds no events of torch.profiler",
            why=f"none of its {len(file.events):,} entries is an op, a call or a device activity",
            hint="record one with `decodeprof diagnose my_script.py:generate`",
        )
    trace = _assemble(file, rows, name)
    return replace(trace, caveats=(*mended, *trace.caveats))


def _decode(data: bytes, name: str) -> tuple[kineto.File, list[str]]:
    """The file's content, and what had to be mended to read it."""
    text = data.removeprefix(_BYTE_ORDER_MARK).lstrip()
    if not text:
        raise InputError(f"`{name}` is empty")
    try:
        try:
            return _decode_strictly(text), []
        except msgspec.ValidationError:
            raise
        except (msgspec.DecodeError, UnicodeDecodeError):
            text, mended = mend(text)
            if not mended:
                raise
            return _decode_strictly(text), mended
    except msgspec.ValidationError as error:
        raise InputError(
            f"`{name}` is JSON, but no torch.profiler trace",
            why=str(error),
            hint="a trace is what `prof.export_chrome_trace(path)` writes",
        ) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(
            f"`{name}` is no trace that can be read",
            why=f"it is not valid JSON: {error}",
            hint="was the program that wrote it ended while writing? export it again",
        ) from None


def _decode_strictly(text: bytes) -> kineto.File:
    if text[:1] == b"[":
        return kineto.File(events=kineto.BARE_LIST.decode(text))
    return kineto.FILE.decode(text)


def _add(event: kineto.Event, rows: _Rows, kinds: dict[str, CallKind]) -> None:
    category = event.cat.lower()
    start = ns_from_us(bytes(event.ts))
    if start is None:
        rows.dropped["without a time"] += 1
        return
    length = ns_from_us(bytes(event.dur))
    if length is None:
        length = 0
        if category in _DEVICE_KINDS:
            rows.dropped["without a duration"] += 1
            return
    elif length < 0:
        rows.dropped["with a negative duration"] += 1
        return
    if length > _IMPOSSIBLE_NS or start < -_IMPOSSIBLE_NS:
        rows.dropped["with an impossible time"] += 1
        return
    end = start + length
    if category in _DEVICE_KINDS:
        _add_activity(event, rows, start=start, end=end, kind=_DEVICE_KINDS[category])
    elif category in _CALLS:
        _add_call(event, rows, start=start, end=end, kinds=kinds)
    elif category in _OPS:
        _add_op(event, rows, start=start, end=end)
    elif category == "user_annotation":
        name = rows.names[str(event.name)]
        rows.annotations.append((start, end, name, rows.threads[_thread(event)]))
    elif category == "python_function":
        rows.frames.append((start, end, rows.names[str(event.name)], rows.threads[_thread(event)]))
    elif category == "cuda_sync":
        _add_sync(event, rows, start=start, end=end)
    elif category == "overhead":
        rows.overhead.append((start, end))


def _thread(event: kineto.Event) -> str:
    return f"{_text(event.pid)}/{_text(event.tid)}"


def _text(raw: msgspec.Raw) -> str:
    return bytes(raw).decode("utf-8", "replace").strip('"')


def _external(args: kineto.DeviceArgs | kineto.CallArgs | kineto.OpArgs) -> int:
    new = kineto.whole(args.external)
    return new if new != NONE else kineto.whole(args.old_external)


def _correlation(value: kineto.Number) -> int:
    number = kineto.whole(value)
    # 0 is what profilers write for "none": as a key it would join strangers.
    return number if number > 0 else NONE


def _product(values: list[kineto.Number] | None) -> int:
    if not values:
        return NONE
    product = 1
    for value in values:
        product *= kineto.whole(value, 0)
    return product if 0 < product < 2**62 else NONE


def _add_activity(
    event: kineto.Event, rows: _Rows, *, start: int, end: int, kind: ActivityKind
) -> None:
    args = _args(kineto.DEVICE_ARGS, event, rows)
    stream = kineto.whole(args.stream)
    if stream == NONE:
        stream = kineto.whole(_text(event.tid))
    device = kineto.whole(args.device)
    if device == NONE:
        device = kineto.whole(_text(event.pid), 0)
    size = kineto.whole(args.bytes)
    rows.device.append(
        (
            start,
            end,
            kind,
            rows.names[str(event.name)],
            # A process id in a device's place (old files) is no device index.
            device if 0 <= device < 1024 else 0,
            stream,
            _correlation(args.correlation),
            NONE,
            size if size != NONE else kineto.whole(args.old_bytes),
            kineto.whole(args.graph_node),
            _external(args),
            _product(args.grid),
            _product(args.block),
        )
    )


def _add_call(
    event: kineto.Event, rows: _Rows, *, start: int, end: int, kinds: dict[str, CallKind]
) -> None:
    args = _args(kineto.CALL_ARGS, event, rows)
    name = str(event.name)
    kind = kinds.get(name)
    if kind is None:
        kind = kinds[name] = call_kind(name)
    rows.calls.append(
        (
            start,
            end,
            rows.names[bare_name(name)],
            kind,
            rows.threads[_thread(event)],
            _correlation(args.correlation),
            _external(args),
        )
    )


def _add_op(event: kineto.Event, rows: _Rows, *, start: int, end: int) -> None:
    args = _args(kineto.OP_ARGS, event, rows)
    rows.ops.append(
        (
            start,
            end,
            rows.names[str(event.name)],
            rows.threads[_thread(event)],
            _external(args),
            rows.details.index(args),
        )
    )


def _add_sync(event: kineto.Event, rows: _Rows, *, start: int, end: int) -> None:
    args = _args(kineto.SYNC_ARGS, event, rows)
    kind = args.kind or str(event.name)
    if kind not in SYNC_KINDS:
        return
    rows.syncs.append(
        (
            start,
            end,
            SYNC_KINDS.index(kind),
            max(kineto.whole(args.device, 0), 0),
            kineto.whole(args.stream),
            _correlation(args.correlation),
            kineto.whole(args.waits_event),
            _correlation(args.recorded_by),
        )
    )


def _args(decoder: msgspec.json.Decoder[_A], event: kineto.Event, rows: _Rows) -> _A:
    try:
        return decoder.decode(bytes(event.args) or b"{}")
    except (msgspec.DecodeError, UnicodeDecodeError):
        rows.dropped["with arguments that could not be read"] += 1
        return decoder.decode(b"{}")


def _assemble(file: kineto.File, rows: _Rows, name: str) -> Trace:
    """Shift times to start at 0, sort, and join activities to their launches."""
    tables = (rows.device, rows.calls, rows.ops, rows.annotations, rows.frames, rows.syncs)
    origin = _origin(tables, rows)
    caveats = [f"{n:,} events {why} were left out" for why, n in sorted(rows.dropped.items())]
    device, calls, ops, annotations, frames, syncs = (
        [(row[0] - origin, row[1] - origin, *row[2:]) for row in table] for table in tables
    )
    call_table = build(CallTable, calls)
    device_table = join(build(DeviceTable, device), call_table)
    captured = {"annotations"}
    captured |= {"calls"} if calls else set()
    captured |= {"device"} if device or calls else set()
    captured |= {"ops"} if ops else set()
    captured |= {"frames"} if frames or file.with_stack else set()
    captured |= {"syncs"} if syncs else set()
    captured |= {"shapes"} if rows.details.any_shapes else set()
    versions = [(key, str(getattr(file, key))) for key in _VERSION_FIELDS]
    return Trace(
        kind="torch",
        name=name,
        names=rows.names.all(),
        threads=rows.threads.all(),
        op_details=rows.details.all(),
        device=device_table,
        calls=call_table,
        ops=build(OpTable, ops),
        annotations=build(AnnotationTable, annotations),
        frames=build(FrameTable, frames),
        syncs=build(SyncTable, syncs),
        devices=_devices(file, device_table),
        captured=frozenset(captured),
        origin_ns=origin + max(kineto.whole(file.base_ns, 0), 0),
        caveats=tuple(caveats),
        profiler_overhead_ns=tuple((a - origin, b - origin) for a, b in sorted(rows.overhead)),
        versions=tuple((k, v) for k, v in versions if v != "None"),
    )


def _origin(tables: tuple[list[tuple[int, ...]], ...], rows: _Rows) -> int:
    """The first event's time; drops events at 0 beside others a second and more later."""
    starts = np.array([row[0] for table in tables for row in table], dtype=np.int64)
    timed = starts[starts > 0]
    if len(timed) and len(timed) < len(starts) and int(timed.min()) >= _NO_TIME_BEFORE_NS:
        for table in tables:
            kept = [row for row in table if row[0] > 0]
            rows.dropped["without a time"] += len(table) - len(kept)
            table[:] = kept
        return int(timed.min())
    return int(starts.min()) if len(starts) else 0


def join(device: DeviceTable, calls: CallTable) -> DeviceTable:
    """Fill `DeviceTable.call` by correlation: many activities may share one call (a graph).

    Where a correlation occurs on several calls (a driver call inside a runtime call), the one that
    launches wins, then the first.
    """
    if not len(device) or not len(calls):
        return device
    rank = np.where(np.isin(calls.kind, [int(k) for k in LAUNCHING]), 0, 1)
    usable = np.flatnonzero(calls.correlation != NONE)
    order = usable[np.lexsort((usable, rank[usable], calls.correlation[usable]))]
    keys, first = np.unique(calls.correlation[order], return_index=True)
    if not len(keys):
        return device
    at = np.searchsorted(keys, device.correlation)
    at[at == len(keys)] = 0
    found = (keys[at] == device.correlation) & (device.correlation != NONE)
    call = np.where(found, order[first[at]], NONE).astype(np.int64)
    return replace(device, call=call)


def _devices(file: kineto.File, device: DeviceTable) -> tuple[DeviceInfo, ...]:
    """What the file says of each device that something ran on."""
    try:
        listed = kineto.DEVICES.decode(bytes(file.devices) or b"[]")
    except (msgspec.DecodeError, UnicodeDecodeError):
        listed = []
    known = {kineto.whole(p.id): p for p in listed}
    infos = []
    for index in np.unique(device.device).tolist():
        found = known.get(index, kineto.DeviceProperties())
        memory = kineto.whole(found.total_memory)
        sms = kineto.whole(found.sm_count)
        capability = (kineto.whole(found.major), kineto.whole(found.minor))
        infos.append(
            DeviceInfo(
                index=index,
                name=re.sub(r"\s+", " ", found.name).strip() or None if found.name else None,
                memory_bytes=memory if memory > 0 else None,
                sm_count=sms if sms > 0 else None,
                compute_capability=f"{capability[0]}.{capability[1]}"
                if NONE not in capability
                else None,
            )
        )
    return tuple(infos)
