"""How does a rollup's table lie in its store, so that nothing is lost or counted twice?

`TABLE/schema_version=1/day=2026-11-30/part-<id>.parquet`: a trace's rows are all in one file, and a
file takes its name when it is whole. What is in the table is done. Traces that failed, and are
tried again by the next run, are all in one file, `failed.parquet`, which each run writes anew.
"""

from __future__ import annotations

import hashlib
import typing
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from decodeprof.errors import InputError, UsageError
from decodeprof.fleet.rows import Row
from decodeprof.fleet.schema import COLUMNS, SCHEMA_VERSION, arrow_schema
from decodeprof.fleet.sources import Source, open_url, store_errors

if typing.TYPE_CHECKING:
    from fsspec import AbstractFileSystem

# A word, and not hive's name for no value: pandas cannot read a partition that is null in places.
_NO_DAY = "unknown"
_FAILED_FILE = "failed.parquet"
_WHOLE_AT_ONCE = frozenset({"s3", "s3a", "gs", "gcs"})
"""Stores in which an object is there when all of it is; a new name would be a second copy."""
_AGAIN = "what was written before is whole; run it again, or name another `--out`"


@dataclass
class Done:
    """What a table holds already."""

    seen: set[tuple[str, str]] = field(default_factory=set)
    """URL and fingerprint of each trace."""
    hashes: dict[int, set[str]] = field(default_factory=lambda: defaultdict(set))
    """Content hashes by size in bytes: only these can be those of a file of that size."""
    failed: list[Row] = field(default_factory=list)
    """Rows of traces to be tried again."""

    def known(self, source: Source) -> frozenset[str]:
        """The hashes that a source's bytes could have."""
        return frozenset(self.hashes.get(source.bytes, ()))


class Table:
    """A rollup's table in a store."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._filesystem, self._root = open_url(url)
        protocols = _protocols(self._filesystem)
        self._local = "file" in protocols
        self._whole_at_once = bool(_WHOLE_AT_ONCE & protocols)
        self._version = f"{self._root.rstrip('/')}/schema_version={SCHEMA_VERSION}"

    def read_done(self) -> Done:
        """Read which traces the table holds.

        Raises:
            UsageError: what is there is no such table, or one of another schema version.
            InputError: one of its files cannot be read.
        """
        hint = "credentials and endpoints are taken from where the store's own tools take them"
        with store_errors(f"cannot read the table `{self.url}`", hint=hint):
            return self._read_done()

    def _read_done(self) -> Done:
        self._check()
        done = Done()
        if not self._filesystem.exists(self._version):
            return done
        for name in sorted(self._filesystem.find(self._version)):
            base = name.rpartition("/")[2]
            if not base.endswith(".parquet") or base.startswith("."):
                continue
            rows = _read(self._filesystem, name, all_columns=base == _FAILED_FILE)
            if base == _FAILED_FILE:
                done.failed += rows
                continue
            for row in rows:
                done.seen.add((row["url"], row["fingerprint"]))
                done.hashes[row["bytes"]].add(row["content_hash"])
        return done

    def check_writable(self) -> None:
        """Raise before any work is done what would keep its rows from being written.

        Raises:
            InputError: nothing can be written, or taken away again, there.
        """
        probe = f"{self._version}/.probe.unfinished"
        with store_errors(f"cannot write the table `{self.url}`", hint=_AGAIN):
            # Such a store has no folders to make; s3fs would make a bucket of a name mistyped.
            if not self._whole_at_once:
                self._filesystem.makedirs(self._version, exist_ok=True)
            self._filesystem.pipe_file(probe, b"decodeprof")
            self._filesystem.rm_file(probe)

    def add(self, rows: Sequence[Row]) -> None:
        """Write rows of whole traces into files of their own, one for each day."""
        by_day: dict[str, list[Row]] = defaultdict(list)
        for row in rows:
            by_day[_day(row.get("started_at"))].append(row)
        for day, some in sorted(by_day.items()):
            named = "\n".join(sorted({row["content_hash"] for row in some}))
            part = hashlib.sha256(named.encode()).hexdigest()[:16]
            self._write(f"day={day}/part-{part}.parquet", some)

    def put_failed(self, rows: Sequence[Row]) -> None:
        """Write the rows of traces to be tried again, in place of those before."""
        name = f"day={_NO_DAY}/{_FAILED_FILE}"
        if rows:
            self._write(name, rows)
            return
        with store_errors(f"cannot write the table `{self.url}`", hint=_AGAIN):
            if self._filesystem.exists(f"{self._version}/{name}"):
                self._filesystem.rm_file(f"{self._version}/{name}")

    def _check(self) -> None:
        if not self._filesystem.exists(self._root):
            return
        if not self._filesystem.isdir(self._root):
            raise UsageError(f"`{self.url}` is a file", hint="a rollup's table is a folder")
        names = [n.rstrip("/").rpartition("/")[2] for n in self._filesystem.ls(self._root, False)]
        own = self._version.rpartition("/")[2]
        others = sorted(n for n in names if n.startswith("schema_version=") and n != own)
        if others:
            raise UsageError(
                f"`{self.url}` is a table of {', '.join(others)}",
                why=f"this decodeprof writes {own}; a table of both would count traces twice",
                hint="name another table with `--out`",
            )
        if own not in names and any(not n.startswith((".", "_")) for n in names):
            raise UsageError(
                f"`{self.url}` is there, and is no table of a rollup",
                hint="name a new folder, or an earlier rollup's, with `--out`",
            )

    def _write(self, name: str, rows: Sequence[Row]) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        filled = [{column: row.get(column) for column in COLUMNS} for row in rows]
        table = pa.Table.from_pylist(filled, schema=arrow_schema())
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink, compression="zstd")
        data = sink.getvalue().to_pybytes()
        path = f"{self._version}/{name}"
        folder, _, base = path.rpartition("/")
        with store_errors(f"cannot write the table `{self.url}`", hint=_AGAIN):
            if self._whole_at_once:
                self._filesystem.pipe_file(path, data)
                return
            unfinished = f"{folder}/.{base}.unfinished"
            self._filesystem.makedirs(folder, exist_ok=True)
            self._filesystem.pipe_file(unfinished, data)
            # HDFS renames over nothing that is there; the local system does, and in one go.
            if not self._local and self._filesystem.exists(path):
                self._filesystem.rm_file(path)
            self._filesystem.mv(unfinished, path)


def _protocols(filesystem: AbstractFileSystem) -> set[str]:
    named = filesystem.protocol
    return {named} if isinstance(named, str) else set(named)


def _read(filesystem: AbstractFileSystem, name: str, *, all_columns: bool) -> list[Row]:
    """The rows of traces in one file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    needed = ["level", "content_hash", "url", "bytes", "fingerprint"]
    try:
        with filesystem.open(name, "rb") as file:
            table = pq.read_table(file, columns=None if all_columns else needed)
    except (OSError, pa.ArrowException) as error:
        raise InputError(
            f"cannot read `{name}` of the table",
            why=str(error),
            hint="take the file away, and what was in it is rolled up again",
        ) from None
    rows: list[Row] = table.to_pylist()
    return [row for row in rows if row["level"] == "trace"]


def _day(started_ns: int | None) -> str:
    """The UTC day of a time."""
    if started_ns is None:
        return _NO_DAY
    return datetime.fromtimestamp(started_ns // 10**9, UTC).date().isoformat()


def still_failed(rows: Iterable[Row], retried: frozenset[str]) -> list[Row]:
    """Rows of failed traces that a run does not try again."""
    return [row for row in rows if row["url"] not in retried]
