"""What ran on devices: kernels, copies, sets, and graphs of which only the whole was recorded."""

from __future__ import annotations

import numpy as np

from decodeprof import units
from decodeprof.ingest.nsys.columns import Part, Reader, drop_zeroes, optional, pids_of
from decodeprof.ingest.nsys.database import Source, require
from decodeprof.model.calls import CallKind
from decodeprof.model.trace import I64, NONE, ActivityKind

_KERNELS, _COPIES, _SETS = (
    f"CUPTI_ACTIVITY_KIND_{kind}" for kind in ("KERNEL", "MEMCPY", "MEMSET")
)
_COPY_NAMES = {
    1: "HtoD",
    2: "DtoH",
    3: "HtoA",
    4: "AtoH",
    5: "AtoA",
    6: "AtoD",
    7: "DtoA",
    8: "DtoD",
    9: "HtoH",
    10: "PtoP",
    11: "HtoD (unified memory)",
    12: "DtoH (unified memory)",
    13: "DtoD (unified memory)",
}
_MEMORY_NAMES = {
    0: "Pageable",
    1: "Pinned",
    2: "Device",
    3: "Array",
    4: "Managed",
    5: "Device Static",
    6: "Managed Static",
}
"""CUPTI's kinds of copies and of memory, in torch.profiler's words, so that names agree."""
_PLACE = {
    "start_ns": "start",
    "end_ns": "end",
    "device": "deviceId",
    "stream": "streamId",
    "correlation": "correlationId",
}
_DEVICE_REQUIRED = tuple(_PLACE.values())


def _activity(reader: Reader, source: Source, wanted: dict[str, str | None]) -> dict[str, I64]:
    require(reader.database, source, _DEVICE_REQUIRED)
    columns = reader.database.integers(
        source,
        {
            **_PLACE,
            "pid": optional(source, "globalPid"),
            "graph_node": optional(source, "graphNodeId"),
            "bytes": optional(source, "bytes"),
            **wanted,
        },
    )
    columns["pid"] = pids_of(columns["pid"])
    drop_zeroes(columns)
    return columns


def _part(columns: dict[str, I64], kind: ActivityKind, name: I64) -> Part:
    """A part of the device table, with what only kernels have filled in."""
    count = len(columns["start_ns"])
    nothing = np.full(count, NONE, np.int64)
    kept = ("start_ns", "end_ns", "device", "stream", "correlation", "bytes", "graph_node")
    return Part(
        {
            **{key: columns[key] for key in kept},
            "kind": np.full(count, int(kind), np.int64),
            "name": name,
            "call": nothing,
            "external": nothing,
            "blocks": columns.get("blocks", nothing),
            "threads_per_block": columns.get("threads_per_block", nothing),
        },
        columns["pid"],
    )


def kernels(reader: Reader) -> Part | None:
    """Kernels; None: the export has no table of them."""
    source = reader.database.find(_KERNELS)
    if source is None:
        return None
    name = optional(source, "demangledName", "shortName", "mangledName")
    if name is None:
        require(reader.database, source, ("demangledName",))
    sizes = {"blocks": _volume(source, "grid"), "threads_per_block": _volume(source, "block")}
    columns = _activity(reader, source, {"name": name, **sizes})
    for key in sizes:
        columns[key][columns[key] <= 0] = NONE
    texts = reader.strings(columns["name"])
    if lost := reader.without_text(columns["name"], texts):
        reader.caveats.append(
            f"{units.counted(lost, 'kernel')} without a name in this export, named by number"
        )
    named = reader.named(columns["name"], lambda i: texts.get(i, f"kernel {i}"))
    return _part(columns, ActivityKind.KERNEL, named)


def _volume(source: Source, what: str) -> str | None:
    axes = [f"{what}{axis}" for axis in "XYZ"]
    return "*".join(axes) if source.columns.issuperset(axes) else None


def copies(reader: Reader) -> Part | None:
    """Memory copies, named as torch.profiler names them."""
    source = reader.database.find(_COPIES)
    if source is None:
        return None
    columns = _activity(
        reader,
        source,
        {
            "copy": optional(source, "copyKind"),
            "from": optional(source, "srcKind"),
            "to": optional(source, "dstKind"),
        },
    )
    # Three small numbers in one, so that each combination is named once.
    key = (columns["copy"] + 1 << 16) | (columns["from"] + 1 << 8) | (columns["to"] + 1)

    def text(number: int) -> str:
        way = _COPY_NAMES.get((number >> 16) - 1, "Unknown")
        ends = [_MEMORY_NAMES.get((number >> shift & 0xFF) - 1, "Unknown") for shift in (8, 0)]
        return f"Memcpy {way} ({ends[0]} -> {ends[1]})"

    return _part(columns, ActivityKind.COPY, reader.named(key, text))


def sets(reader: Reader) -> Part | None:
    """Memory sets."""
    source = reader.database.find(_SETS)
    if source is None:
        return None
    columns = _activity(reader, source, {"memory": optional(source, "memKind")})
    named = reader.named(
        columns["memory"], lambda kind: f"Memset ({_MEMORY_NAMES.get(kind, 'Unknown')})"
    )
    return _part(columns, ActivityKind.SET, named)


def whole_graphs(reader: Reader) -> Part | None:
    """Graph launches of which only the span was recorded (``--cuda-graph-trace=graph``)."""
    source = reader.database.find("CUPTI_ACTIVITY_KIND_GRAPH_TRACE")
    if source is None:
        return None
    columns = _activity(reader, source, {"graph": optional(source, "graphExecId", "graphId")})
    columns["graph_node"] = np.full(len(columns["start_ns"]), NONE, np.int64)
    named = reader.named(columns["graph"], lambda i: f"CUDA graph {i}" if i >= 0 else "CUDA graph")
    return _part(columns, ActivityKind.GRAPH, named)


_TABLES_OF_CALLS = (
    (_KERNELS, (CallKind.LAUNCH,), "launches kernels", "launch kernels"),
    (_COPIES, (CallKind.COPY, CallKind.BLOCKING_COPY), "copies", "copy"),
    (_SETS, (CallKind.SET,), "sets memory", "set memory"),
)


def missing_tables(reader: Reader, calls: Part | None) -> list[str]:
    """Tables without which what some calls ran is not known: their time would pass for idle.

    nsys leaves out a table for which nothing came, so that only calls show what is missing.
    """
    if calls is None:
        return []
    # Calls that a graph captured run in it, and that may be recorded as a whole.
    if reader.database.find("CUPTI_ACTIVITY_KIND_GRAPH_TRACE") is not None:
        return []
    texts = []
    for table, kinds, one, many in _TABLES_OF_CALLS:
        count = int(np.isin(calls.columns["kind"], [int(kind) for kind in kinds]).sum())
        if count and reader.database.find(table) is None:
            called = units.counted(count, f"call {one}", f"calls {many}")
            texts.append(
                f"this export has no table {table}, and {called}: the device counts as "
                "idle while it did that"
            )
    return texts
