"""What waited for what: CUPTI's own records of synchronisation.

`syncType` changed its meaning between versions, and its labels are wrong in some exports, so a wait
is what the API call of its correlation says that it is.
"""

from __future__ import annotations

import numpy as np

from decodeprof import units
from decodeprof.ingest.nsys.columns import (
    Part,
    Reader,
    drop_zeroes,
    keyed,
    lookup,
    optional,
    pids_of,
)
from decodeprof.ingest.nsys.database import require
from decodeprof.model.trace import I64, NONE, SYNC_KINDS

NO_STREAM = 2**32 - 1
"""What nsys writes for "no stream" and "no event"."""
_SYNC_BY_CALL = (
    ("StreamWaitEvent", "Stream Wait Event"),
    ("EventSynchronize", "Event Sync"),
    ("StreamSynchronize", "Stream Sync"),
    ("DeviceSynchronize", "Context Sync"),
    ("ThreadSynchronize", "Context Sync"),
    ("CtxSynchronize", "Context Sync"),
)


def syncs(reader: Reader, api_calls: Part | None) -> Part | None:
    """CUPTI's own records of waits, by what was called: syncType's meaning differs by version."""
    source = reader.database.find("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION")
    if source is None or not source.rows or api_calls is None:
        return None
    require(reader.database, source, ("start", "end", "correlationId"))
    columns = reader.database.integers(
        source,
        {
            "start_ns": "start",
            "end_ns": "end",
            "device": optional(source, "deviceId"),
            "stream": optional(source, "streamId"),
            "correlation": "correlationId",
            "event": optional(source, "eventId"),
            "event_sync": optional(source, "eventSyncId"),
            "pid": optional(source, "globalPid"),
        },
    )
    drop_zeroes(columns)
    pid = pids_of(columns["pid"])
    for key in ("stream", "event", "event_sync"):
        columns[key] = np.where(columns[key] == NO_STREAM, NONE, columns[key])
    kind = _sync_kinds(reader, api_calls, pid=pid, correlation=columns["correlation"])
    part = Part(
        {
            "start_ns": columns["start_ns"],
            "end_ns": columns["end_ns"],
            "kind": kind,
            "device": np.maximum(columns["device"], 0),
            "stream": columns["stream"],
            "correlation": columns["correlation"],
            "event": columns["event"],
            "recorded_by": _recorded_by(reader, pid, columns["event"], columns["event_sync"]),
        },
        pid,
    )
    known = np.flatnonzero(kind != NONE)
    if len(known) < len(kind):
        reader.caveats.append(
            units.counted(
                len(kind) - len(known),
                "wait record without its API call was",
                "wait records without their API call were",
            )
            + " left out"
        )
    return part.take(known.astype(np.int64))


def _sync_kinds(reader: Reader, api_calls: Part, *, pid: I64, correlation: I64) -> I64:
    every = reader.names.all()
    kind_of_name = np.full(len(every), NONE, np.int64)
    for index in np.unique(api_calls.columns["name"]).tolist():
        found = (kind for ending, kind in _SYNC_BY_CALL if every[index].endswith(ending))
        kind = next(found, None)
        kind_of_name[index] = NONE if kind is None else SYNC_KINDS.index(kind)
    waits = np.flatnonzero(kind_of_name[api_calls.columns["name"]] != NONE)
    keys = keyed(api_calls.pid[waits], api_calls.columns["correlation"][waits])
    order = np.argsort(keys, kind="stable")
    at = lookup(keys[order], keyed(pid, correlation))
    return (
        np.where(
            at == NONE, NONE, kind_of_name[api_calls.columns["name"][waits[order[at]]]]
        ).astype(np.int64)
        if len(waits)
        else np.full(len(pid), NONE, np.int64)
    )


def _recorded_by(reader: Reader, pid: I64, event: I64, event_sync: I64) -> I64:
    """Correlation of the call that recorded the event that each wait is for."""
    nothing = np.full(len(pid), NONE, np.int64)
    source = reader.database.find("CUPTI_ACTIVITY_KIND_CUDA_EVENT")
    needed = {"correlationId", "eventId", "eventSyncId", "globalPid"}
    if source is None or not source.rows or not needed <= source.columns:
        return nothing
    records = reader.database.integers(
        source,
        {
            "correlation": "correlationId",
            "event_sync": "eventSyncId",
            "pid": "globalPid",
        },
    )
    # eventSyncId numbers each recording of an event, unlike eventId, which is used again.
    keys = keyed(pids_of(records["pid"]), records["event_sync"])
    order = np.argsort(keys, kind="stable")
    at = lookup(keys[order], keyed(pid, event_sync))
    found = (at != NONE) & (event != NONE) & (event_sync > 0)
    return np.where(found, records["correlation"][order[np.maximum(at, 0)]], NONE)
