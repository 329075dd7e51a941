"""A `Scenario` as the SQLite export of nsys, in the schemas of three of its versions.

What differs between versions is what real exports showed: which table says how it was exported,
columns that came with time, numbers of wait kinds, where NVTX text stands, API calls written twice.
Operators and Python frames have no place in an export; `as_nsys_sees` takes them out of a scenario.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

from tests.scenario import Activity, Call, Range, Scenario, Wait

OFFSET_NS = 155_330_248_986
"""Where the first event lies after the session's start."""
SESSION_NS = 1_790_857_026_000_000_000
PID = 429
_VM = 1 << 48
NO_STREAM = 2**32 - 1
_MEMORY = {"Pageable": 0, "Pinned": 1, "Device": 2}
_WAYS = {"HtoD": 1, "DtoH": 2, "DtoD": 8}
_SETS_COLUMNS = ("value", "bytes", "graphNodeId", "memKind")


@dataclass(frozen=True)
class Schema:
    """What one version of nsys writes."""

    version: str
    meta: str = "META_DATA_EXPORT"
    green: bool = True
    """Green contexts have a column."""
    sync_types: tuple[tuple[str, int], ...] = ()
    event_sync: bool = True
    inline_text: bool = False
    doubled_calls: bool = False
    """CUDA backtraces: each call once more, without its version suffix."""
    every_table: bool = False
    """lazy=false: tables without rows, and name columns."""
    device_mapping: bool = True
    enums: bool = True


_BY_CUPTI = (
    ("Event Sync", 1),
    ("Stream Wait Event", 2),
    ("Stream Sync", 3),
    ("Context Sync", 4),
)
NSYS_2022 = Schema(
    version="2022.2.1.31",
    meta="EXPORT_META_DATA",
    green=False,
    sync_types=_BY_CUPTI,
    event_sync=False,
    inline_text=True,
    doubled_calls=True,
    every_table=True,
    device_mapping=False,
    enums=False,
)
NSYS_2025 = Schema(
    version="2025.5.2.266",
    # Off by one from CUPTI's, while the table of labels is CUPTI's still.
    sync_types=tuple((kind, number - 1) for kind, number in _BY_CUPTI),
)
NSYS_2026 = Schema(version="2026.2.1.210", sync_types=_BY_CUPTI, inline_text=True)
SCHEMAS = (NSYS_2022, NSYS_2025, NSYS_2026)

_API_VERSION = {"cudaGraphLaunch": "_v10000", "cudaLaunchKernel": "_v7000"}


def as_nsys_sees(scenario: Scenario) -> Scenario:
    """The scenario without operators and frames, and without what links calls to operators."""
    return replace(
        scenario,
        ops=(),
        frames=(),
        calls=tuple(replace(call, external=0) for call in scenario.calls),
        activities=tuple(replace(a, external=0) for a in scenario.activities),
    )


def write(
    path: Path,
    scenario: Scenario,
    schema: Schema = NSYS_2025,
    *,
    graphs: str = "node",
    pid: int = PID,
    also: Iterable[tuple[int, Scenario]] = (),
) -> Path:
    """Write an export.

    Args:
        path: the file, which must not exist.
        scenario: what happened in process `pid`.
        schema: the version.
        graphs: node | graph: what became of graph launches, as in ``--cuda-graph-trace``.
        pid: the process.
        also: more processes and what happened in them.
    """
    with closing(sqlite3.connect(path)) as database:
        writer = _Writer(database, schema, graphs)
        writer.about()
        for process, what in ((pid, scenario), *also):
            writer.process(process, what)
        writer.finish()
        database.commit()
    return path


class _Writer:
    def __init__(self, database: sqlite3.Connection, schema: Schema, graphs: str) -> None:
        self._database = database
        self._schema = schema
        self._graphs = graphs
        self._ids: dict[str, int] = {}
        self._next = count(1)

    def _string(self, text: str) -> int:
        if text not in self._ids:
            self._ids[text] = next(self._next)
        return self._ids[text]

    def _insert(self, table: str, row: dict[str, Any]) -> None:
        def kind(value: Any) -> str:
            return "TEXT" if isinstance(value, str) else "INTEGER"

        columns = ", ".join(f"{key} {kind(value)}" for key, value in row.items())
        self._database.execute(f"CREATE TABLE IF NOT EXISTS {table} ({columns})")
        names, marks = ", ".join(row), ", ".join("?" * len(row))
        self._database.execute(
            f"INSERT INTO {table} ({names}) VALUES ({marks})", tuple(row.values())
        )

    def about(self) -> None:
        """Version, capture options, device."""
        for name, value in (
            ("EXPORT_PRODUCT_NAME", "NVIDIA Nsight Systems"),
            ("EXPORT_PRODUCT_VERSION", self._schema.version),
        ):
            self._insert(self._schema.meta, {"name": name, "value": value})
        if self._schema.meta == "META_DATA_EXPORT":
            mode = "Node" if self._graphs == "node" else "Graph"
            for name, value in (
                ("PROCESS_0:COLLECT_NVTX_TRACE", "true"),
                ("PROCESS_0:CUDA_GRAPH_TRACE_OPTIONS:MODE", mode),
            ):
                self._insert("META_DATA_CAPTURE", {"name": name, "value": value})
        self._insert(
            "TARGET_INFO_GPU",
            {
                "id": 0,
                "name": "NVIDIA H200",
                "totalMemory": 150109880320,
                "smCount": 132,
                "cuDevice": 0,
                "computeMajor": 9,
                "computeMinor": 0,
            },
        )
        self._insert("TARGET_INFO_SESSION_START_TIME", {"utcEpochNs": SESSION_NS})
        if self._schema.enums:
            for kind, number in _BY_CUPTI:
                self._insert("ENUM_CUPTI_SYNC_TYPE", {"id": number, "name": kind, "label": kind})
        if self._schema.every_table:
            for table in ("CUBLAS_EVENTS", "OSRT_API", "CUDA_GRAPH_EVENTS"):
                self._database.execute(f"CREATE TABLE {table} (start INTEGER, end INTEGER)")

    def process(self, pid: int, scenario: Scenario) -> None:
        """All that happened in one process."""
        self._insert("PROCESSES", {"globalPid": _VM | pid << 24, "pid": pid, "name": "python3"})
        if self._schema.device_mapping:
            self._insert("TARGET_INFO_CUDA_DEVICE", {"gpuId": 0, "cudaId": 0, "pid": pid})
        whole: dict[int, list[Activity]] = {}
        for activity in scenario.activities:
            if activity.node >= 0 and self._graphs == "graph":
                whole.setdefault(activity.correlation, []).append(activity)
            else:
                self._activity(pid, activity)
        for nodes in whole.values():
            self._whole_graph(pid, nodes)
        for call in scenario.calls:
            self._call(pid, call)
        for wait in scenario.waits:
            self._wait(pid, wait)
        self._insert("NVTX_EVENTS", self._nvtx_row(pid, 0, None, event_type=75, text="domain"))
        for named in scenario.annotations:
            self._nvtx(pid, named)
        for start, end in scenario.pauses:
            self._pause(pid, start, end)

    def _place(self, pid: int, start: int, end: int, activity: Activity) -> dict[str, Any]:
        green = {"greenContextId": 0} if self._schema.green else {}
        return {
            "start": start + OFFSET_NS,
            "end": end + OFFSET_NS,
            "deviceId": activity.device,
            "contextId": 1,
            **green,
            "streamId": activity.stream,
            "correlationId": activity.correlation,
            "globalPid": _VM | pid << 24,
        }

    def _activity(self, pid: int, a: Activity) -> None:
        row = self._place(pid, a.start_ns, a.end_ns, a)
        node = a.node if a.node >= 0 else None
        if a.kind == "copy":
            way, ends = a.name.removeprefix("Memcpy ").split(" (")
            source, _, target = ends.rstrip(")").partition(" -> ")
            kinds = {"copyKind": _WAYS[way], "srcKind": _MEMORY[source], "dstKind": _MEMORY[target]}
            named = {"name": None} if self._schema.every_table else {}
            row |= {"bytes": a.bytes, **kinds, "graphNodeId": node, **named}
            self._insert("CUPTI_ACTIVITY_KIND_MEMCPY", row)
        elif a.kind == "set":
            row |= dict(zip(_SETS_COLUMNS, (0, a.bytes, node, _MEMORY["Device"]), strict=True))
            self._insert("CUPTI_ACTIVITY_KIND_MEMSET", row)
        else:
            row |= {
                "demangledName": self._string(a.name),
                "shortName": self._string(a.name.partition("<")[0]),
                "gridX": a.grid[0],
                "gridY": a.grid[1],
                "gridZ": a.grid[2],
                "blockX": a.block[0],
                "blockY": a.block[1],
                "blockZ": a.block[2],
                "graphNodeId": node,
            }
            self._insert("CUPTI_ACTIVITY_KIND_KERNEL", row)

    def _whole_graph(self, pid: int, nodes: list[Activity]) -> None:
        start, end = min(n.start_ns for n in nodes), max(n.end_ns for n in nodes)
        row = self._place(pid, start, end, nodes[0])
        row |= {"graphId": 1, "graphExecId": 2}
        self._insert("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", row)

    def _thread(self, pid: int, thread: str) -> int:
        return _VM | pid << 24 | int(thread)

    def _call(self, pid: int, call: Call) -> None:
        versioned = call.name if call.driver else call.name + _API_VERSION.get(call.name, "_v3020")
        row = {
            "start": call.start_ns + OFFSET_NS,
            "end": call.end_ns + OFFSET_NS,
            "eventClass": int(call.driver),
            "globalTid": self._thread(pid, call.thread),
            "correlationId": call.correlation,
            "nameId": self._string(versioned),
            "returnValue": 0,
            "callchainId": None,
        }
        self._insert("CUPTI_ACTIVITY_KIND_RUNTIME", row)
        if self._schema.doubled_calls and not call.driver:
            again = {"start": row["start"] - 1, "end": row["end"] + 1, "eventClass": 67}
            row |= again | {"nameId": self._string(call.name)}
            self._insert("CUPTI_ACTIVITY_KIND_RUNTIME", row)

    def _wait(self, pid: int, wait: Wait) -> None:
        row = {
            "start": wait.start_ns + OFFSET_NS,
            "end": wait.end_ns + OFFSET_NS,
            "deviceId": wait.device,
            "contextId": 1,
            "streamId": NO_STREAM if wait.stream < 0 else wait.stream,
            "correlationId": wait.correlation,
            "globalPid": _VM | pid << 24,
            "syncType": dict(self._schema.sync_types)[wait.kind],
            "eventId": NO_STREAM,
        }
        if self._schema.event_sync:
            row |= {"deprecatedSyncType": None, "eventSyncId": NO_STREAM}
        self._insert("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", row)

    def _nvtx_row(
        self, pid: int, start: int, end: int | None, *, event_type: int, text: str
    ) -> dict[str, Any]:
        inline = self._schema.inline_text
        return {
            "start": start + OFFSET_NS,
            "end": None if end is None else end + OFFSET_NS,
            "eventType": event_type,
            "text": text if inline else None,
            "globalTid": self._thread(pid, str(pid)),
            "textId": None if inline else self._string(text),
            "domainId": 0,
        }

    def _nvtx(self, pid: int, named: Range) -> None:
        row = self._nvtx_row(pid, named.start_ns, named.end_ns, event_type=59, text=named.name)
        self._insert("NVTX_EVENTS", row | {"globalTid": self._thread(pid, named.thread)})

    def _pause(self, pid: int, start: int, end: int) -> None:
        row = {"start": start + OFFSET_NS, "end": end + OFFSET_NS, "globalTid": _VM | pid << 24}
        if self._schema.enums:
            row |= {"correlationId": 0, "nameId": self._string("Buffer flush"), "overheadType": 3}
            self._insert("CUPTI_ACTIVITY_KIND_OVERHEAD", row)
        else:
            row |= {"nameId": self._string("CUPTI: Buffer flush"), "returnValue": 0}
            self._insert("PROFILER_OVERHEAD", row)

    def finish(self) -> None:
        """The texts, last: they are known by now."""
        self._database.execute(
            "CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL)"
        )
        self._database.executemany(
            "INSERT INTO StringIds VALUES (?, ?)", ((i, text) for text, i in self._ids.items())
        )
