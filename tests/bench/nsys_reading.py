"""Which way of reading a large export is fast and bounded? ``python -m tests.bench.nsys_reading``.

Each way reads the same columns of kernels and API calls of a synthetic export, in a process of its
own, so that its peak memory is its own. A way whose package is not installed says so: pandas and
DuckDB are no dependencies of decodeprof. The last line is the whole reader, joins and names
included.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import resource
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from tests import write_nsys
from tests.scenarios import decode_loop
from tests.write_nsys import as_nsys_sees

COLUMNS = {
    "CUPTI_ACTIVITY_KIND_KERNEL": (
        *("start", "end", "deviceId", "streamId", "correlationId", "globalPid"),
        *("demangledName", "gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ"),
        "graphNodeId",
    ),
    "CUPTI_ACTIVITY_KIND_RUNTIME": (
        *("start", "end", "globalTid", "correlationId", "nameId", "eventClass"),
    ),
}
CHUNK_ROWS = 100_000


def enlarge(path: Path, kernels: int) -> Path:
    """An export of so many kernels, each with its launch call: the small one, over and over."""
    write_nsys.write(path, as_nsys_sees(decode_loop(steps=16, layers=12).build()))
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA journal_mode=OFF")
        database.execute("PRAGMA synchronous=OFF")
        (have,) = database.execute("SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL").fetchone()
        (span,) = database.execute("SELECT max(end) FROM CUPTI_ACTIVITY_KIND_KERNEL").fetchone()
        for table in COLUMNS:
            listed = [row[1] for row in database.execute(f"PRAGMA table_info({table})")]
            moved = {"start": "start + t.at", "end": "end + t.at"}
            moved["correlationId"] = "correlationId + t.n * 100000"
            values = ", ".join(moved.get(column, column) for column in listed)
            database.execute("CREATE TEMP TABLE times (n INTEGER, at INTEGER)")
            repeats = ((n, n * span) for n in range(1, kernels // have))
            database.executemany("INSERT INTO times VALUES (?, ?)", repeats)
            # A table of its own, since rows are read and written at once.
            database.execute(f"CREATE TEMP TABLE pattern AS SELECT * FROM {table}")
            database.execute(f"INSERT INTO {table} SELECT {values} FROM temp.times t, temp.pattern")
            database.execute("DROP TABLE temp.times")
            database.execute("DROP TABLE temp.pattern")
        database.commit()
    return path


def _connect(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)


def _query(table: str) -> str:
    return f"SELECT {', '.join(f'ifnull({c}, -1)' for c in COLUMNS[table])} FROM {table}"


def by_fetchall(path: Path) -> Iterator[int]:
    """sqlite3, all rows at once."""
    with closing(_connect(path)) as database:
        for table in COLUMNS:
            yield len(np.array(database.execute(_query(table)).fetchall(), np.int64))


def by_chunks(path: Path) -> Iterator[int]:
    """sqlite3, an array for each chunk of rows."""
    with closing(_connect(path)) as database:
        for table in COLUMNS:
            cursor = database.execute(_query(table))
            parts = []
            while rows := cursor.fetchmany(CHUNK_ROWS):
                parts.append(np.array(rows, np.int64))
            yield len(np.concatenate(parts))


def by_fromiter(path: Path) -> Iterator[int]:
    """sqlite3, rows straight into an array of known length."""
    with closing(_connect(path)) as database:
        for table, columns in COLUMNS.items():
            (count,) = database.execute(f"SELECT count(*) FROM {table}").fetchone()
            dtype = np.dtype([(column, np.int64) for column in columns])
            rows = np.fromiter(database.execute(_query(table)), dtype, count=count)
            yield len([np.ascontiguousarray(rows[column]) for column in columns].pop())


def by_pandas(path: Path) -> Iterator[int]:
    """pandas, chunk by chunk."""
    import pandas  # type: ignore[import-not-found,import-untyped,unused-ignore]

    with closing(_connect(path)) as database:
        for table in COLUMNS:
            chunks = pandas.read_sql_query(_query(table), database, chunksize=CHUNK_ROWS)
            parts = [chunk.to_numpy(np.int64) for chunk in chunks]
            yield len(np.concatenate(parts))


def by_duckdb(path: Path) -> Iterator[int]:
    """DuckDB and its SQLite extension, as the package duckdb-extension-sqlite-scanner has it."""
    import duckdb  # type: ignore[import-not-found,import-untyped,unused-ignore]
    from duckdb_extensions import (  # type: ignore[import-not-found,import-untyped,unused-ignore]
        import_extension,
    )

    with closing(duckdb.connect()) as database:
        import_extension("sqlite_scanner", con=database)
        database.execute("LOAD sqlite_scanner")
        for table, columns in COLUMNS.items():
            listed = ", ".join(f'ifnull("{column}", -1) AS "{column}"' for column in columns)
            query = f"SELECT {listed} FROM sqlite_scan(?, ?)"
            found: dict[str, Any] = database.execute(query, [str(path), table]).fetchnumpy()
            yield len(found["start"])


def whole_reader(path: Path) -> Iterator[int]:
    """decodeprof's reader: every table, names, joins and sorting included."""
    from decodeprof.ingest.nsys.export import read_export

    whole = read_export(path).whole
    yield len(whole.device)
    yield len(whole.calls)


WAYS: dict[str, tuple[Callable[[Path], Iterator[int]], str | None]] = {
    "sqlite3, fetchall": (by_fetchall, None),
    "sqlite3, chunks": (by_chunks, None),
    "sqlite3, numpy.fromiter": (by_fromiter, None),
    "pandas, chunks": (by_pandas, "pandas"),
    "DuckDB": (by_duckdb, "duckdb_extensions"),
    "decodeprof, all of it": (whole_reader, None),
}


def measure(way: str, path: Path) -> None:
    """In a process of its own: print rows, seconds and peak memory as JSON."""
    at_start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # The process's own time: other work on the machine does not add to it.
    began = time.process_time()
    rows = sum(WAYS[way][0](path))
    seconds = time.process_time() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps({"rows": rows, "seconds": seconds, "peak_bytes": (peak - at_start) * 1024}))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kernels", type=int, default=2_000_000)
    parser.add_argument("--file", type=Path, help="an export to read instead of a synthetic one")
    parser.add_argument("--way", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.way:
        measure(options.way, options.file)
        return
    table = Table("way", "rows", "CPU time", "peak memory beside the interpreter")
    with tempfile.TemporaryDirectory() as folder:
        path = options.file or enlarge(Path(folder) / "large.sqlite", options.kernels)
        table.title = f"an export of {path.stat().st_size / 1e9:.2f} GB"
        for way, (_, package) in WAYS.items():
            if package is not None and importlib.util.find_spec(package) is None:
                table.add_row(way, f"{package} is not installed", "", "")
                continue
            command = [sys.executable, "-m", "tests.bench.nsys_reading", "--way", way]
            done = subprocess.run([*command, "--file", str(path)], capture_output=True, text=True)
            if done.returncode:
                table.add_row(way, done.stderr.strip().rpartition("\n")[2][:60], "", "")
                continue
            found = json.loads(done.stdout)
            peak = f"{found['peak_bytes'] / 1e6:,.0f} MB"
            table.add_row(way, f"{found['rows']:,}", f"{found['seconds']:.1f} s", peak)
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
