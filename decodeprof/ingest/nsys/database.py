"""How is an export opened so that nothing in it or beside it changes, and read in bounded memory?

Read-only and never indexed: exports of gigabytes belong to somebody. Columns come out of sqlite3
row by row straight into numpy columns whose length is known beforehand, so that memory is that of
the columns that are wanted.

The choice is a measurement (tests/bench/nsys_reading.py; an export of 0.1 GB, 2,038,504 rows of 12
and 6 columns, one core; peak memory beside the interpreter):

    sqlite3, fetchall                3.6 s   409 MB
    sqlite3, arrays of chunks        3.4 s   230 MB
    sqlite3, numpy.fromiter          3.2 s   226 MB
    pandas, chunks                   6.3 s   339 MB
    DuckDB's SQLite reader           1.4 s   310 MB
    all of decodeprof's reader       4.0 s   314 MB    names, joins and sorting included

DuckDB saves less than two seconds for each million kernels, takes a third more memory, and its
reader is an extension that it fetches from the network where it was not installed beside it.
"""

from __future__ import annotations

import contextlib
import itertools
import re
import sqlite3
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from decodeprof.errors import InputError
from decodeprof.model.trace import I64

MAGIC = b"SQLite format 3\x00"
REPORT_MAGIC = b"NVIDIA Tegra Profiler Report"
"""How reports of 2022 and of 2024 begin."""
_HEADER_BYTES = 100
_LARGEST_PAGE = 65_536
"""Stored as 1: it does not fit the header's 16 bits."""
_WAL_VERSION = 2
_EXPORT_AGAIN = "let `nsys export` finish, or run it again on the report (.nsys-rep)"
# Present in every export of any version, also in one of a run that used no GPU.
_MARKERS = ("META_DATA_EXPORT", "EXPORT_META_DATA")
_OF_NSYS = re.compile(r"CUPTI_ACTIVITY_\w+|NVTX_EVENTS|StringIds")
_MOST_TABLES_NAMED = 8
_CHUNK_ROWS = 65_536
"""So many rows are in memory twice: larger chunks are no faster."""


@dataclass(frozen=True)
class Source:
    """A table as this export has it."""

    name: str
    columns: frozenset[str]
    rows: int


class Database:
    """An open export; use it as a context manager."""

    def __init__(self, path: Path) -> None:
        self.path = path
        immutable = _check_file(path)
        # Without `immutable` SQLite would write its shared-memory file beside a WAL database.
        uri = f"{path.resolve().as_uri()}?mode=ro{'&immutable=1' if immutable else ''}"
        try:
            self._connection = sqlite3.connect(uri, uri=True, timeout=0)
        except sqlite3.Error as error:
            raise InputError(f"cannot read `{path}`", why=str(error)) from None
        # Names come from any program, in any encoding: one that is no UTF-8 damages nothing else.
        self._connection.text_factory = lambda data: data.decode(errors="replace")
        with self._told():
            # A view is a program of somebody else's, which need not end; nsys writes none.
            self.tables = self._named("table")
            self._views = self._named("view")

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *_error: object) -> None:
        self._connection.close()

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        """Tell SQLite's errors in the user's words."""
        try:
            yield
        except sqlite3.OperationalError as error:
            if "locked" in str(error) or "readonly" in str(error):
                raise _being_written(self.path, str(error)) from None
            raise _damaged(self.path, str(error)) from None
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            raise _damaged(self.path, str(error)) from None

    def _named(self, kind: str) -> frozenset[str]:
        query = "SELECT name FROM sqlite_master WHERE type = ?"
        return frozenset(str(name) for (name,) in self._connection.execute(query, (kind,)))

    def must_be_an_export(self) -> None:
        """Refuse a database of something else.

        Raises:
            InputError: it has neither of the tables that say how it was exported, nor any of CUPTI;
                or a view is named as one of them.
        """
        if views := sorted(filter(_OF_NSYS.fullmatch, self._views)):
            # Without it what nsys recorded would count as never recorded.
            one = len(views) == 1
            raise InputError(
                f"`{self.path.name}` has {'a view' if one else 'views'} where nsys writes "
                f"{'a table' if one else 'tables'}",
                why=f"{', '.join(views)}: a view is not read, since it may be any program",
                hint="export the report again: `nsys export --type sqlite report.nsys-rep`",
            )
        if self.tables & set(_MARKERS) or any(t.startswith("CUPTI_ACTIVITY") for t in self.tables):
            return
        named = ", ".join(sorted(self.tables)[:_MOST_TABLES_NAMED]) or "none"
        raise InputError(
            f"`{self.path.name}` is an SQLite database, but no export of Nsight Systems",
            why=f"it has none of the tables {', '.join(_MARKERS)} or CUPTI_ACTIVITY_KIND_*; "
            f"its tables: {named}",
            hint="make one with `nsys export --type sqlite report.nsys-rep`",
        )

    def find(self, name: str) -> Source | None:
        """A table by its name, or the newest of its numbered forms (`…_V2`); None: not there.

        An empty table gives way to a numbered one with rows.
        """
        numbered = re.compile(re.escape(name) + r"_V(\d+)")
        versions = {
            int(match[1]): table for table in self.tables if (match := numbered.fullmatch(table))
        }
        names = [name] if name in self.tables else []
        names += [versions[number] for number in sorted(versions, reverse=True)]
        found = [self._source(each) for each in names]
        return next((source for source in found if source.rows), found[0] if found else None)

    def _source(self, name: str) -> Source:
        with self._told():
            columns = self._connection.execute(f'PRAGMA table_info("{name}")').fetchall()
            (rows,) = self._connection.execute(f'SELECT count(*) FROM "{name}"').fetchone()
        return Source(name, frozenset(str(column[1]) for column in columns), int(rows))

    def integers(
        self, source: Source, wanted: Mapping[str, str | None], *, where: str = ""
    ) -> dict[str, I64]:
        """Columns of a table as int64; -1 stands for NULL, and for what is no number.

        Args:
            source: the table.
            wanted: for each column to give, its name in the table; None: the table need not have
                it, and it is -1 throughout.
            where: a condition in SQL, without values.

        Several columns joined by ``*`` stand for their product.
        """
        present = {key: column for key, column in wanted.items() if column is not None}
        listed = ", ".join(_integer(_quoted(column)) for column in present.values())
        condition = f" WHERE {where}" if where else ""
        with self._told():
            count = source.rows
            if where:
                query = f'SELECT count(*) FROM "{source.name}"{condition}'
                (count,) = self._connection.execute(query).fetchone()
            rows = self._connection.execute(f'SELECT {listed} FROM "{source.name}"{condition}')
            columns = {key: np.empty(count, np.int64) for key in present}
            dtype = np.dtype([(key, np.int64) for key in present])
            for at in range(0, count, _CHUNK_ROWS):
                size = min(_CHUNK_ROWS, count - at)
                try:
                    chunk = np.fromiter(itertools.islice(rows, size), dtype, count=size)
                except ValueError as error:
                    # Fewer rows than were counted a moment ago.
                    raise _being_written(self.path, str(error)) from None
                for key, column in columns.items():
                    column[at : at + size] = chunk[key]
        absent = {key: np.full(count, -1, np.int64) for key in wanted if key not in present}
        return columns | absent

    def texts(self, source: Source, column: str) -> Iterator[tuple[int, str]]:
        """(rowid, text) of each row in which the column holds a text."""
        query = f'SELECT rowid, "{column}" FROM "{source.name}" WHERE "{column}" IS NOT NULL'
        with self._told():
            for number, text in self._connection.execute(query):
                yield int(number), str(text)

    def strings(self, ids: list[int]) -> dict[int, str]:
        """The texts of StringIds by id; ids without one are left out."""
        if "StringIds" not in self.tables:
            return {}
        require(self, self._source("StringIds"), ("id", "value"))
        found: dict[int, str] = {}
        with self._told():
            for number in ids:
                query = "SELECT value FROM StringIds WHERE id = ?"
                row = self._connection.execute(query, (number,)).fetchone()
                if row is not None:
                    found[number] = str(row[0])
        return found

    def pairs(self, table: str) -> dict[str, str]:
        """A table of names and values (META_DATA_*) as a dictionary; empty where there is none."""
        if table not in self.tables:
            return {}
        with self._told():
            rows = self._connection.execute(f'SELECT name, value FROM "{table}"').fetchall()
        return {str(name): str(value) for name, value in rows}

    def records(self, source: Source, wanted: tuple[str, ...]) -> list[dict[str, object]]:
        """The rows of a small table; None for columns that it does not have."""
        present = [column for column in wanted if column in source.columns]
        if not present:
            return []
        listed = ", ".join(f'"{column}"' for column in present)
        with self._told():
            rows = self._connection.execute(f'SELECT {listed} FROM "{source.name}"').fetchall()
        nothing: dict[str, object] = dict.fromkeys(wanted)
        return [nothing | dict(zip(present, row, strict=True)) for row in rows]


def require(database: Database, source: Source, columns: tuple[str, ...]) -> None:
    """Refuse a table that lacks a column without which its rows mean nothing.

    Raises:
        InputError: names the table and every missing column.
    """
    missing = [column for column in columns if column not in source.columns]
    if missing:
        raise InputError(
            f"`{database.path.name}` lacks columns that decodeprof needs",
            why=f"table {source.name} has no {', '.join(missing)}",
            hint="export the report again with the `nsys` that recorded it: "
            "`nsys export --type sqlite report.nsys-rep`",
        )


def _integer(value: str) -> str:
    # A cast makes 0 of any text, which would pass for a time.
    return (
        f"CASE typeof({value}) WHEN 'integer' THEN {value} "
        f"WHEN 'real' THEN CAST({value} AS INTEGER) ELSE -1 END"
    )


def _quoted(columns: str) -> str:
    return " * ".join(f'"{column}"' for column in columns.split("*"))


def _check_file(path: Path) -> bool:
    """Refuse a file that is not whole; whether it must be opened as one that nobody changes."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            header = file.read(_HEADER_BYTES)
    except FileNotFoundError:
        raise InputError(f"there is no file `{path}`") from None
    except OSError as error:
        raise InputError(f"cannot read `{path}`", why=str(error.strerror)) from None
    if header.startswith(REPORT_MAGIC):
        raise InputError(
            f"`{path.name}` is a report of Nsight Systems, not its export",
            why="only the export is an SQLite database",
            hint=f"`nsys export --type sqlite {path.name}` makes one; named .nsys-rep, the report "
            "itself can be given to `decodeprof analyze`",
        )
    if not header.startswith(MAGIC):
        raise InputError(
            f"`{path.name}` is no SQLite database",
            why="it does not begin as one" if size else "it is empty",
            hint="make an export with `nsys export --type sqlite report.nsys-rep`",
        )
    for suffix in ("-journal", "-wal"):
        beside = path.with_name(path.name + suffix)
        if beside.is_file() and beside.stat().st_size:
            raise _being_written(path, f"`{beside.name}` beside it holds changes not yet in it")
    if len(header) < _HEADER_BYTES:
        raise _damaged(path, "its header is cut short")
    (page,) = struct.unpack(">H", header[16:18])
    changes, pages = struct.unpack(">II", header[24:32])
    (valid_for,) = struct.unpack(">I", header[92:96])
    page = _LARGEST_PAGE if page == 1 else page
    # The count of pages is to be believed only when it was written with the last change.
    if changes == valid_for and pages * page > size:
        raise _damaged(path, f"{size:,} of {pages * page:,} bytes are there")
    return bool(header[18] == _WAL_VERSION)


def _being_written(path: Path, why: str) -> InputError:
    return InputError(f"`{path.name}` is still being written", why=why, hint=_EXPORT_AGAIN)


def _damaged(path: Path, why: str) -> InputError:
    return InputError(f"`{path.name}` is damaged or cut short", why=why, hint=_EXPORT_AGAIN)
