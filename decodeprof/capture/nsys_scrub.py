"""What of an nsys export must not leave the machine, and how is it taken out of our own?

An export holds the environment's variables, every process of the machine, file accesses, paths and
the host's name. The recording keeps a copy with what analysis reads, and nothing else; the export
itself goes. A user's own export is never touched: only what a recording made for itself is.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

_WHOLE = ("CUPTI_ACTIVITY_KIND_", "ENUM_", "NVTX_EVENTS", "PROFILER_OVERHEAD", "CUDA_GRAPH_")
"""Tables that say what ran: kept as they are, by how their names begin."""
_COLUMNS = {
    "TARGET_INFO_GPU": (
        *("id", "name", "totalMemory", "smCount", "cuDevice", "computeMajor", "computeMinor"),
    ),
    "TARGET_INFO_CUDA_DEVICE": ("gpuId", "cudaId", "pid"),
    "TARGET_INFO_SESSION_START_TIME": ("utcEpochNs",),
}
"""Of these the columns that analysis reads: others identify the machine."""
_PAIRS = ("META_DATA_EXPORT", "EXPORT_META_DATA", "META_DATA_CAPTURE")
_KEPT_PAIRS = ("VERSION", "CUDA_GRAPH_TRACE", "COLLECT_")
_NAME_COLUMNS = ("nameId", "demangledName", "shortName", "mangledName", "textId")


def scrub(export: Path) -> None:
    """Replace an export by a copy of what analysis reads; raises sqlite3.Error where it is damaged.

    The copy is written under a temporary name and takes the export's when it is whole.
    """
    copy = export.with_name(f".{export.name}.scrubbed")
    copy.unlink(missing_ok=True)
    try:
        with closing(sqlite3.connect(copy)) as database:
            database.execute("ATTACH ? AS theirs", (str(export),))
            _copy(database)
            database.commit()
            database.execute("DETACH theirs")
        copy.replace(export)
    finally:
        copy.unlink(missing_ok=True)
    for suffix in ("-journal", "-wal", "-shm"):
        with contextlib.suppress(FileNotFoundError):
            export.with_name(export.name + suffix).unlink()


def _copy(database: sqlite3.Connection) -> None:
    tables = [
        str(name)
        for (name,) in database.execute("SELECT name FROM theirs.sqlite_master WHERE type='table'")
    ]
    for table in tables:
        if table.startswith(_WHOLE):
            _copy_columns(database, table, _columns(database, table))
        elif table in _COLUMNS:
            present = _columns(database, table)
            _copy_columns(database, table, [c for c in _COLUMNS[table] if c in present])
        elif table in _PAIRS:
            wanted = " OR ".join(f"name LIKE '%{part}%'" for part in _KEPT_PAIRS)
            database.execute(
                f'CREATE TABLE main."{table}" AS SELECT name, value FROM theirs."{table}" '
                f"WHERE {wanted}"
            )
    if "DIAGNOSTIC_EVENT" in tables and {"severity", "text"} <= set(
        _columns(database, "DIAGNOSTIC_EVENT")
    ):
        # Warnings and errors; those that name a file tell of the machine.
        database.execute(
            "CREATE TABLE main.DIAGNOSTIC_EVENT AS SELECT severity, text FROM "
            "theirs.DIAGNOSTIC_EVENT WHERE severity IN (2, 3) AND text NOT LIKE '%/%'"
        )
    if "StringIds" in tables:
        _copy_strings(database, [table for table in tables if table.startswith(_WHOLE)])


def _columns(database: sqlite3.Connection, table: str) -> list[str]:
    return [str(row[1]) for row in database.execute(f'PRAGMA theirs.table_info("{table}")')]


def _copy_columns(database: sqlite3.Connection, table: str, columns: Iterable[str]) -> None:
    listed = ", ".join(f'"{column}"' for column in columns)
    database.execute(f'CREATE TABLE main."{table}" AS SELECT {listed} FROM theirs."{table}"')


def _copy_strings(database: sqlite3.Connection, tables: list[str]) -> None:
    """The texts that kept rows name; others are paths, arguments and symbols."""
    database.execute("CREATE TABLE main.StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT)")
    for table in tables:
        for column in _columns(database, table):
            if column in _NAME_COLUMNS:
                database.execute(
                    "INSERT OR IGNORE INTO main.StringIds SELECT id, value FROM theirs.StringIds "
                    f'WHERE id IN (SELECT DISTINCT "{column}" FROM theirs."{table}")'
                )
