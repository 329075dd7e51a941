"""What are the columns of a rollup's table?

One row for each trace (`level` is "trace") and for each of its steps ("step"). A column that does
not apply, or is not known, is null, never 0.
"""

from __future__ import annotations

import typing

if typing.TYPE_CHECKING:
    import pyarrow

SCHEMA_VERSION = 1

TEXT, COUNT, FIGURE, YES_NO = "string", "int64", "float64", "bool"
TEXTS, TEXT_BY_TEXT, MOMENT = "list<string>", "map<string, string>", "timestamp[ns, UTC]"

COLUMNS: dict[str, str] = {
    # What the row is of.
    "level": TEXT,
    "content_hash": TEXT,  # SHA-256 of the bytes; the identity of a trace. Null: never read.
    "url": TEXT,
    "bytes": COUNT,
    "fingerprint": TEXT,
    "status": TEXT,  # ok | bad (the trace cannot be analysed) | failed (to be tried again)
    "error": TEXT,
    "why": TEXT,
    "decodeprof": TEXT,
    # Where the trace came from.
    "kind": TEXT,
    "started_at": MOMENT,
    "target": TEXT,
    "model": TEXT,
    "device": TEXT,
    "devices": COUNT,
    "rank": COUNT,
    "world_size": COUNT,
    "versions": TEXT_BY_TEXT,
    # What was concluded.
    "bound_by": TEXT,
    "verdict": TEXT,
    "findings": TEXTS,
    "caveats": TEXTS,
    "steps_by": TEXT,  # how the steps were found
    "prefill_steps": COUNT,
    "decode_steps": COUNT,
    "steady_steps": COUNT,
    "floor_host_ns": COUNT,
    "floor_device_ns": COUNT,
    "floor_bytes_ns": COUNT,
    "floor_flops_ns": COUNT,
    "total_kernels": COUNT,
    "total_launches": COUNT,
    "total_graph_launches": COUNT,
    "total_syncs": COUNT,
    "total_busy_ns": COUNT,
    "total_span_ns": COUNT,
    # Which step; of a row of level "step" alone.
    "step": COUNT,
    "phase": TEXT,
    "steady": YES_NO,
    "measured": YES_NO,
    "query_length": COUNT,
    "left_out": TEXT,
    # A step: this one, or of a trace the steady decode step that its report shows. Busy and the
    # idle causes sum to step_ns, exactly.
    "unprofiled_ns": COUNT,
    "step_ns": COUNT,
    "busy_ns": COUNT,
    "idle_sync_ns": COUNT,
    "idle_launch_ns": COUNT,
    "idle_dispatch_ns": COUNT,
    "idle_python_ns": COUNT,
    "idle_device_ns": COUNT,
    "idle_dependency_ns": COUNT,
    "idle_unknown_ns": COUNT,
    "kernels": FIGURE,
    "launches": FIGURE,
    "graph_launches": FIGURE,
    "syncs": FIGURE,
}


def arrow_schema() -> pyarrow.Schema:
    """The schema of every file of the table; the partitions are no columns of the files."""
    import pyarrow as pa

    types = {
        TEXT: pa.string(),
        COUNT: pa.int64(),
        FIGURE: pa.float64(),
        YES_NO: pa.bool_(),
        TEXTS: pa.list_(pa.string()),
        TEXT_BY_TEXT: pa.map_(pa.string(), pa.string()),
        MOMENT: pa.timestamp("ns", tz="UTC"),
    }
    return pa.schema(
        [pa.field(name, types[type_]) for name, type_ in COLUMNS.items()],
        metadata={"decodeprof.schema_version": str(SCHEMA_VERSION)},
    )
