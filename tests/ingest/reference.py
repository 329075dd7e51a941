"""A reader of torch traces that is slow and obvious: the standard library's JSON, one event at a
time, decimals as decimals. What the package's reader finds must be this, row by row.
"""

from __future__ import annotations

import json
from decimal import ROUND_HALF_EVEN, Decimal, InvalidOperation
from typing import Any

from decodeprof.model.calls import LAUNCHING, bare_name, call_kind
from decodeprof.model.trace import SYNC_KINDS, Trace

KINDS = {"kernel": 0, "gpu_memcpy": 1, "memcpy": 1, "gpu_memset": 2, "memset": 2}
CALLS = {"cuda_runtime", "cuda_driver", "runtime", "driver", "hip_runtime"}
TABLES = ("device", "calls", "ops", "annotations", "frames", "syncs")


class Literal(str):
    """A number as the file writes it."""

    __slots__ = ()


def read(text: bytes) -> dict[str, list[tuple[Any, ...]]]:
    """The rows of each table, sorted as a trace's are; threads and names as text."""
    whole = json.loads(text, parse_float=Literal, parse_int=Literal, parse_constant=lambda _: None)
    events = whole if isinstance(whole, list) else whole["traceEvents"]
    rows: dict[str, list[tuple[Any, ...]]] = {table: [] for table in TABLES}
    for event in events:
        if event.get("ph") == "X":
            add(event, rows)
    starts = [row[0] for table in TABLES for row in rows[table]]
    timed = [start for start in starts if start > 0]
    if timed and min(timed) >= 10**9:
        for table in TABLES:
            rows[table] = [row for row in rows[table] if row[0] > 0]
        origin = min(timed)
    else:
        origin = min(starts, default=0)
    for table in TABLES:
        shifted = [(row[0] - origin, row[1] - origin, *row[2:]) for row in rows[table]]
        rows[table] = sorted(shifted, key=lambda row: (row[0], -row[1]))
    by_correlation = launches(rows["calls"])
    rows["device"] = [(*row, by_correlation.get(row[6])) for row in rows["device"]]
    return rows


def launches(calls: list[tuple[Any, ...]]) -> dict[int, tuple[int, str]]:
    """The call of each correlation: the first that launches, else the first."""
    found: dict[int, tuple[int, str]] = {}
    for launching in (True, False):
        for call in calls:
            if call[5] > 0 and (call[3] in LAUNCHING) is launching:
                found.setdefault(call[5], (call[0], call[2]))
    return found


def add(event: dict[str, Any], rows: dict[str, list[tuple[Any, ...]]]) -> None:
    category = event.get("cat", "").lower()
    start, length = ns(event.get("ts")), ns(event.get("dur"))
    if start is None or (length is None and category in KINDS):
        return
    length = length or 0
    if length < 0 or length > 2**60 or start < -(2**60):
        return
    end, name = start + length, str(event.get("name", ""))
    thread = f"{event.get('pid', '')}/{event.get('tid', '')}"
    args = event.get("args")
    args = args if isinstance(args, dict) else {}
    external = integer(args.get("External id"))
    external = external if external != -1 else integer(args.get("external id"))
    correlation = max(integer(args.get("correlation")), 0) or -1
    if category in KINDS:
        stream = integer(args.get("stream"))
        device = integer(args.get("device"))
        size = integer(args.get("bytes"))
        device = device if device != -1 else integer(event.get("pid"), 0)
        rows["device"].append((
            start, end, KINDS[category], name,
            device if 0 <= device < 1024 else 0,
            stream if stream != -1 else integer(event.get("tid")),
            correlation,
            -1 if category == "kernel" else size if size != -1 else integer(args.get("Bytes")),
            integer(args.get("graph node id")),
            external, product(args.get("grid")), product(args.get("block")),
        ))  # fmt: skip
    elif category in CALLS:
        rows["calls"].append(
            (start, end, bare_name(name), call_kind(name), thread, correlation, external)
        )
    elif category in ("cpu_op", "operator"):
        rows["ops"].append((start, end, name, thread, external, detail(args)))
    elif category == "user_annotation":
        rows["annotations"].append((start, end, name, thread))
    elif category == "python_function":
        rows["frames"].append((start, end, name, thread))
    elif category == "cuda_sync" and (args.get("cuda_sync_kind") or name) in SYNC_KINDS:
        rows["syncs"].append((
            start, end, SYNC_KINDS.index(args.get("cuda_sync_kind") or name),
            max(integer(args.get("device"), 0), 0), integer(args.get("stream")), correlation,
            integer(args.get("wait_on_cuda_event_id")),
            max(integer(args.get("wait_on_cuda_event_record_corr_id")), 0) or -1,
        ))  # fmt: skip


def ns(value: Any) -> int | None:
    if not isinstance(value, str):
        return None
    try:
        number = Decimal(value)
    except InvalidOperation:
        return None
    if not number.is_finite() or number.adjusted() > 18:
        return None
    whole = int((number * 1000).to_integral_value(rounding=ROUND_HALF_EVEN))
    return whole if abs(whole) < 2**62 else None


def integer(value: Any, default: int = -1) -> int:
    if not isinstance(value, str):
        return default
    try:
        number = int(value) if isinstance(value, Literal) else int(value.removeprefix("stream "))
    except ValueError:
        return default
    return number if abs(number) < 2**63 else default


def product(values: Any) -> int:
    if not isinstance(values, list) or not values:
        return -1
    result = 1
    for value in values:
        result *= integer(value, 0)
    return result if 0 < result < 2**62 else -1


def detail(args: dict[str, Any]) -> tuple[Any, ...] | None:
    dims = args.get("Input Dims") or args.get("Input dims")
    dims = args.get("Input Dims", args.get("Input dims")) if dims is None else dims
    if dims is None:
        return None
    return (
        tuple(shape(x) for x in dims),
        tuple(shape(x) for x in args.get("Input Strides", [])),
        tuple(str(x) for x in args.get("Input type", [])),
        tuple(str(x) for x in args.get("Concrete Inputs", [])),
    )


def shape(value: Any) -> tuple[int, ...] | None:
    if not isinstance(value, list) or any(isinstance(size, list) for size in value):
        return None
    return tuple(int(size) for size in value)


def rows_of(trace: Trace) -> dict[str, list[tuple[Any, ...]]]:
    """The package's answer in the same form."""
    names, threads, calls = trace.names, trace.threads, trace.calls

    def columns(table: str) -> dict[str, list[Any]]:
        whole = {key: column.tolist() for key, column in vars(getattr(trace, table)).items()}
        if "name" in whole:
            whole["name"] = [names[i] for i in whole["name"]]
        if "thread" in whole:
            whole["thread"] = [threads[i] for i in whole["thread"]]
        return whole

    device, ops = columns("device"), columns("ops")
    device["launch"] = [
        None if i < 0 else (int(calls.start_ns[i]), names[calls.name[i]])
        for i in device.pop("call")
    ]
    details = [(d.shapes, d.strides, d.dtypes, d.scalars) for d in trace.op_details]
    ops["detail"] = [None if i < 0 else details[i] for i in ops["detail"]]
    tables = {"device": device, "ops": ops}
    return {
        table: list(zip(*(tables.get(table) or columns(table)).values(), strict=True))
        for table in TABLES
    }
