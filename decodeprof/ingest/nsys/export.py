"""Which `Trace` is an export, as a whole and for each process in it?

Correlation ids are unique within a process only, so launches are joined process by process. Step
analysis is of one process: marks and launches of two would be taken for one program's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TypeVar

import numpy as np

from decodeprof import units
from decodeprof.errors import InputError
from decodeprof.ingest.nsys import device, host, waits
from decodeprof.ingest.nsys.columns import Part, Reader, keyed
from decodeprof.ingest.nsys.database import Database
from decodeprof.ingest.torch_trace import join
from decodeprof.model.calls import CallKind
from decodeprof.model.trace import (
    I64,
    NONE,
    ActivityKind,
    AnnotationTable,
    Bool,
    CallTable,
    DeviceInfo,
    DeviceTable,
    FrameTable,
    OpTable,
    SyncTable,
    Table,
    Trace,
)

T = TypeVar("T", bound=Table)


@dataclass(frozen=True)
class Process:
    """One process of an export."""

    pid: int
    name: str
    activities: int
    """What it ran on devices, as far as it was recorded."""
    launches: int
    """Its calls that launch kernels or graphs."""


@dataclass(frozen=True)
class Export:
    """All that an export holds, and which rows are whose."""

    whole: Trace
    processes: tuple[Process, ...]
    """Those that ran or launched something on a device, the busiest first."""
    device_pid: I64
    sync_pid: I64
    infos: dict[tuple[int, int], DeviceInfo]
    """Device descriptions by process and index."""

    def process(self, pid: int | None = None) -> Trace:
        """One process's trace; the busiest one's where none is named.

        Raises:
            InputError: no such process ran anything on a device.
        """
        if pid is None:
            if len(self.processes) <= 1 or not self.processes[0].activities:
                return self.whole
            pid = self.processes[0].pid
        ran = [each for each in self.processes if each.activities]
        if pid not in {each.pid for each in ran}:
            raise InputError(
                f"`{self.whole.name}` has no process {pid} with GPU activity",
                hint=f"name one of these: {_listed(ran)}",
            )
        if len(self.processes) == 1:
            return self.whole
        whole = self.whole
        of_thread = np.array([int(text.partition("/")[0]) for text in whole.threads], np.int64)

        def mine(table: CallTable | AnnotationTable | OpTable) -> Bool:
            return np.asarray(of_thread[table.thread] == pid)

        calls = whole.calls.take(mine(whole.calls))
        activities = join(whole.device.take(self.device_pid == pid), calls)
        return replace(
            whole,
            device=activities,
            calls=calls,
            annotations=whole.annotations.take(mine(whole.annotations)),
            ops=whole.ops.take(mine(whole.ops)),
            syncs=whole.syncs.take(self.sync_pid == pid),
            devices=_devices(activities, np.full(len(activities), pid, np.int64), self.infos),
            caveats=(*whole.caveats, self._others(pid)),
        )

    def _others(self, pid: int) -> str:
        chosen = next(each for each in self.processes if each.pid == pid)
        others = [each for each in self.processes if each.pid != pid]
        return (
            f"{len(self.processes)} processes used a GPU: steps and causes are of process "
            f"{chosen.pid}{f' ({chosen.name})' if chosen.name else ''}, with "
            f"{units.counted(chosen.activities, 'activity', 'activities')}; not of "
            f"{_listed(others)}. Counts and busy times of the whole file are of "
            "all; `--process` chooses another"
        )


def _listed(processes: Sequence[Process]) -> str:
    return ", ".join(
        f"{each.pid} ({units.counted(each.activities, 'activity', 'activities')})"
        if each.activities
        else f"{each.pid} ({units.counted(each.launches, 'launch', 'launches')}, of which nothing "
        "was recorded)"
        for each in processes
    )


def read_export(path: Path) -> Export:
    """Read an SQLite export, without changing it or anything beside it.

    Raises:
        InputError: it is no SQLite database, no export, damaged, being written, or lacks a column.
    """
    with Database(path) as database:
        database.must_be_an_export()
        return _read(Reader(database), path.name)


def _read(reader: Reader, name: str) -> Export:
    kinds = (device.kernels, device.copies, device.sets, device.whole_graphs)
    parts = [part for read in kinds if (part := read(reader)) is not None]
    calls = reader.timed(host.calls(reader), "API call")
    annotations = reader.timed(host.ranges(reader), "NVTX range")
    ops = host.operators(reader, annotations)
    syncs = reader.timed(waits.syncs(reader, calls), "wait record")
    pauses = host.pauses(reader)
    activities = reader.timed(_joined(parts), "device activity", "device activities")
    read = [part for part in (activities, calls, annotations, syncs) if part is not None]
    reader.caveats += device.missing_tables(reader, calls)
    origin = min((int(p.columns["start_ns"].min()) for p in read if len(p)), default=0)
    device_table, device_pid = _table(DeviceTable, activities, origin)
    call_table, call_pid = _table(CallTable, calls, origin)
    sync_table, sync_pid = _table(SyncTable, syncs, origin)
    annotation_table, _ = _table(AnnotationTable, annotations, origin)
    op_table, _ = _table(OpTable, ops, origin)
    device_pid, sync_pid = _only_process(device_pid, call_pid), _only_process(sync_pid, call_pid)
    _require_processes(name, device_pid, call_pid)
    device_table = _join_by_process(device_table, device_pid, call_table, call_pid)
    _whole_graphs_caveat(reader, device_table)
    reader.caveats += host.warnings(reader)
    infos = _device_infos(reader.database)
    started = _first(reader.database, "TARGET_INFO_SESSION_START_TIME", "utcEpochNs")
    whole = Trace(
        kind="nsys",
        name=name,
        names=reader.names.all(),
        threads=reader.threads.all(),
        op_details=(),
        device=device_table,
        calls=call_table,
        ops=op_table,
        annotations=annotation_table,
        frames=FrameTable.empty(),
        syncs=sync_table,
        devices=_devices(device_table, device_pid, infos),
        captured=_captured(reader.database, activities, calls, annotations, ops, syncs),
        origin_ns=origin + (started if isinstance(started, int) else 0),
        caveats=tuple(reader.caveats),
        profiler_overhead_ns=tuple((a - origin, b - origin) for a, b in pauses),
        versions=_versions(reader.database),
    )
    return Export(
        whole=whole,
        processes=_processes(reader.database, device_pid, call_table, call_pid),
        device_pid=device_pid,
        sync_pid=sync_pid,
        infos=infos,
    )


def _joined(parts: list[Part]) -> Part | None:
    """All parts as one, which takes their columns from them: there may be gigabytes of them."""
    if len(parts) <= 1:
        return parts[0] if parts else None
    keys = list(parts[0].columns)
    columns = {key: np.concatenate([part.columns.pop(key) for part in parts]) for key in keys}
    return Part(columns, np.concatenate([part.pid for part in parts]))


def _table(table: type[T], part: Part | None, origin: int) -> tuple[T, I64]:
    """Sorted columns in the schema's dtypes, and the process of each row; takes the part's."""
    if part is None or not len(part):
        return table.empty(), np.empty(0, np.int64)
    columns = part.columns
    order = np.lexsort((-columns["end_ns"], columns["start_ns"]))
    dtypes = table.dtypes()
    built = {}
    for field in fields(table):
        column = columns.pop(field.name)[order]
        if field.name in ("start_ns", "end_ns"):
            column -= origin
        built[field.name] = column.astype(dtypes[field.name], copy=False)
    return table(**built), part.pid[order]


def _only_process(pid: I64, call_pid: I64) -> I64:
    """Rows that name no process are the only one's, where there is only one."""
    known = np.unique(np.concatenate([pid[pid != NONE], call_pid[call_pid != NONE]]))
    return np.where(pid == NONE, known[0], pid) if len(known) == 1 else pid


def _require_processes(name: str, pid: I64, call_pid: I64) -> None:
    """Refuse activities of nobody beside the calls of several processes: they would be mixed."""
    nobodys = int((pid == NONE).sum())
    processes = len(np.unique(call_pid[call_pid != NONE]))
    if nobodys and processes > 1:
        raise InputError(
            f"`{name}` does not say whose its GPU activities are",
            why=f"{units.counted(processes, 'process', 'processes')} called CUDA, and "
            f"{units.counted(nobodys, 'activity has', 'activities have')} no globalPid",
            hint="export the report again with the `nsys` that recorded it: "
            "`nsys export --type sqlite report.nsys-rep`",
        )


def _join_by_process(
    activities: DeviceTable, pid: I64, calls: CallTable, call_pid: I64
) -> DeviceTable:
    def unique(correlation: I64, of: I64) -> I64:
        return np.where(correlation == NONE, NONE, keyed(of, correlation)).astype(np.int64)

    joined = join(
        replace(activities, correlation=unique(activities.correlation, pid)),
        replace(calls, correlation=unique(calls.correlation, call_pid)),
    )
    return replace(activities, call=joined.call)


def _captured(
    database: Database,
    activities: Part | None,
    calls: Part | None,
    annotations: Part | None,
    ops: Part | None,
    syncs: Part | None,
) -> frozenset[str]:
    """Tables that this capture could fill: nsys leaves out those for which nothing came."""
    traced = any(
        value == "true"
        for key, value in database.pairs("META_DATA_CAPTURE").items()
        if key.endswith("COLLECT_NVTX_TRACE")
    )
    found = {
        "device": activities is not None,
        "calls": calls is not None and len(calls) > 0,
        "annotations": annotations is not None or traced,
        "ops": ops is not None,
        "syncs": syncs is not None,
    }
    return frozenset(name for name, there in found.items() if there)


def _whole_graphs_caveat(reader: Reader, table: DeviceTable) -> None:
    graphs = table.kind == ActivityKind.GRAPH
    if not graphs.any():
        return
    n = int(graphs.sum())
    reader.caveats.append(
        f"{n:,} graph launch{'es were' if n > 1 else ' was'} recorded as a whole: the device "
        "counts as busy from such a graph's first node to its last, and which kernels ran inside, "
        "how many, and whether it stood idle between them cannot be told; record with "
        "`nsys profile --cuda-graph-trace=node`"
    )


def _device_infos(database: Database) -> dict[tuple[int, int], DeviceInfo]:
    """Descriptions by (process, index); by (-1, index) where the export numbers them for all."""
    source = database.find("TARGET_INFO_GPU")
    if source is None:
        return {}
    wanted = ("id", "cuDevice", "name", "totalMemory", "smCount", "computeMajor", "computeMinor")
    by_id = {row["id"]: row for row in database.records(source, wanted)}
    infos: dict[tuple[int, int], DeviceInfo] = {}
    for row in by_id.values():
        index = row["cuDevice"] if isinstance(row["cuDevice"], int) else row["id"]
        if isinstance(index, int):
            infos[NONE, index] = _info(row, index)
    mapping = database.find("TARGET_INFO_CUDA_DEVICE")
    if mapping is not None:
        for each in database.records(mapping, ("gpuId", "cudaId", "pid")):
            found, index, pid = by_id.get(each["gpuId"]), each["cudaId"], each["pid"]
            if found is not None and isinstance(index, int) and isinstance(pid, int):
                infos[pid, index] = _info(found, index)
    return infos


def _info(row: dict[str, object], index: int) -> DeviceInfo:
    def positive(key: str) -> int | None:
        value = row[key]
        return value if isinstance(value, int) and value > 0 else None

    major, minor = row["computeMajor"], row["computeMinor"]
    return DeviceInfo(
        index=index,
        name=str(row["name"]).strip() or None if row["name"] is not None else None,
        memory_bytes=positive("totalMemory"),
        sm_count=positive("smCount"),
        compute_capability=f"{major}.{minor}" if major is not None and minor is not None else None,
    )


def _devices(
    table: DeviceTable, pid: I64, infos: dict[tuple[int, int], DeviceInfo]
) -> tuple[DeviceInfo, ...]:
    """What is known of each device that something ran on."""
    found = []
    for index in np.unique(table.device).tolist():
        of = int(pid[np.flatnonzero(table.device == index)[0]])
        info = infos.get((of, index)) or infos.get((NONE, index))
        found.append(info or DeviceInfo(index=index))
    return tuple(found)


def _processes(
    database: Database, device_pid: I64, calls: CallTable, call_pid: I64
) -> tuple[Process, ...]:
    names: dict[object, str] = {}
    source = database.find("PROCESSES")
    if source is not None:
        for row in database.records(source, ("pid", "name")):
            # Only the program's own name: its folders are nobody's business.
            names[row["pid"]] = str(row["name"] or "").rpartition("/")[2]
    counts = Counter(device_pid.tolist())
    launching = np.isin(calls.kind, [int(CallKind.LAUNCH), int(CallKind.GRAPH_LAUNCH)])
    launches = Counter(call_pid[launching].tolist())
    # Activities that name no process may be any one's: then none has lost its own.
    found = {*counts} if NONE in counts else {*counts, *launches}
    order = sorted(found, key=lambda pid: (-counts[pid], -launches[pid], pid))
    return tuple(Process(pid, names.get(pid, ""), counts[pid], launches[pid]) for pid in order)


def _first(database: Database, table: str, column: str) -> object:
    source = database.find(table)
    rows = database.records(source, (column,)) if source is not None else []
    return rows[0][column] if rows else None


def _versions(database: Database) -> tuple[tuple[str, str], ...]:
    meta = database.pairs("META_DATA_EXPORT") or database.pairs("EXPORT_META_DATA")
    version = meta.get("EXPORT_PRODUCT_VERSION")
    return (("nsys", version),) if version else ()
