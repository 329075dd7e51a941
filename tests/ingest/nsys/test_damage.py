"""A file that is no whole export says so, and nothing is written to it or beside it."""

from __future__ import annotations

import gzip
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from decodeprof.diagnosis.pipeline import analyze_path
from decodeprof.errors import InputError
from decodeprof.ingest.read import read_trace
from tests import write_nsys
from tests.build import TraceBuilder
from tests.scenarios import decode_loop
from tests.write_nsys import as_nsys_sees


@pytest.fixture
def export(tmp_path: Path) -> Path:
    return write_nsys.write(tmp_path / "report.sqlite", as_nsys_sees(decode_loop().build()))


def refused(path: Path) -> InputError:
    with pytest.raises(InputError) as caught:
        analyze_path(path)
    assert caught.value.hint
    return caught.value


@pytest.mark.parametrize("data", [b"", b"no database at all" * 20, b"SQLite format 2\x00"])
def test_what_is_no_database(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "report.sqlite"
    path.write_bytes(data)
    assert refused(path).what == "`report.sqlite` is no SQLite database"


def test_a_report_is_told_from_its_export(tmp_path: Path, export: Path) -> None:
    path = tmp_path / "run.sqlite"
    path.write_bytes(b"NVIDIA Tegra Profiler Report 2024@2@3@38" + bytes(1000))
    error = refused(path)
    assert error.what == "`run.sqlite` is a report of Nsight Systems, not its export"
    assert "nsys export --type sqlite run.sqlite" in error.hint
    # An export under a report's name needs no nsys.
    assert len(read_trace(export.rename(tmp_path / "run.nsys-rep")).device)


def test_a_packed_export_is_told_to_be_unpacked(export: Path) -> None:
    path = export.with_name("a b.sqlite.gz")
    path.write_bytes(gzip.compress(export.read_bytes()))
    error = refused(path)
    assert error.what.startswith("`a b.sqlite.gz` is packed")
    assert error.hint == "unpack it first: `gunzip --keep 'a b.sqlite.gz'`"


def test_a_database_of_something_else(tmp_path: Path) -> None:
    path = tmp_path / "mail.sqlite"
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE letters (id INTEGER)")
        database.commit()
    error = refused(path)
    assert error.what == "`mail.sqlite` is an SQLite database, but no export of Nsight Systems"
    assert "its tables: letters" in error.why


@pytest.mark.parametrize("share", [0.001, 0.3, 0.9])
def test_a_file_that_was_cut_short(export: Path, share: float) -> None:
    data = export.read_bytes()
    export.write_bytes(data[: int(len(data) * share)])
    assert refused(export).what == "`report.sqlite` is damaged or cut short"


def test_a_file_with_a_hole(export: Path) -> None:
    data = bytearray(export.read_bytes())
    data[4096:-4096] = bytes(len(data) - 8192)
    export.write_bytes(bytes(data))
    assert refused(export).what == "`report.sqlite` is damaged or cut short"


def test_an_export_of_a_run_without_a_gpu(tmp_path: Path) -> None:
    b = TraceBuilder()
    with b.annotation("mine"):
        b.work(1000)
    path = write_nsys.write(tmp_path / "report.sqlite", as_nsys_sees(b.build()))
    error = refused(path)
    assert error.what == "`report.sqlite` holds no GPU activity"
    assert "--trace=cuda" in error.hint


def test_what_nsys_warned_of_is_told(export: Path) -> None:
    change(export, "CREATE TABLE DIAGNOSTIC_EVENT (severity INTEGER, text TEXT)")
    told = ((2, "No CUDA events collected."), (2, "Scheduling is absent."), (1, "CUDA is there."))
    for severity, text in (*told, told[0]):
        change(export, f"INSERT INTO DIAGNOSTIC_EVENT VALUES ({severity}, '{text}')")
    assert read_trace(export).caveats == ("nsys warned: No CUDA events collected.",)
    for kind in ("KERNEL", "MEMCPY", "RUNTIME"):
        change(export, f"DELETE FROM CUPTI_ACTIVITY_KIND_{kind}")
    assert "\nnsys warned: No CUDA events collected." in refused(export).why


@pytest.mark.parametrize("missing", [("KERNEL", "MEMCPY"), ("KERNEL",)])
def test_launches_without_kernels_are_no_idle_device(
    export: Path, missing: tuple[str, ...]
) -> None:
    with closing(sqlite3.connect(export)) as database:
        for kind in missing:
            database.execute(f"DELETE FROM CUPTI_ACTIVITY_KIND_{kind}")
        database.commit()
    assert refused(export).what == "`report.sqlite` holds launches but no kernels"


@pytest.mark.parametrize("mode", ["WAL", "DELETE"])
def test_an_export_that_is_still_being_written(export: Path, mode: str) -> None:
    with closing(sqlite3.connect(export)) as writer:
        writer.execute(f"PRAGMA journal_mode={mode}")
        # Pages that do not fit the cache are written before the end of the transaction.
        writer.execute("PRAGMA cache_size=1")
        writer.execute("CREATE TABLE more (text TEXT)")
        writer.execute("BEGIN IMMEDIATE")
        writer.executemany("INSERT INTO more VALUES (?)", (("x" * 5000,) for _ in range(50)))
        assert refused(export).what == "`report.sqlite` is still being written"
        writer.rollback()


def test_an_export_that_somebody_has_locked(export: Path) -> None:
    with closing(sqlite3.connect(export)) as writer:
        writer.execute("PRAGMA journal_mode=OFF")
        writer.execute("BEGIN EXCLUSIVE")
        assert refused(export).what == "`report.sqlite` is still being written"
        writer.rollback()


@pytest.mark.parametrize("mode", ["DELETE", "WAL"])
def test_nothing_changes_in_the_file_or_beside_it(export: Path, mode: str) -> None:
    with closing(sqlite3.connect(export)) as database:
        database.execute(f"PRAGMA journal_mode={mode}")
    before, when = export.read_bytes(), export.stat().st_mtime_ns
    assert len(read_trace(export).device)
    assert export.read_bytes() == before
    assert export.stat().st_mtime_ns == when
    assert os.listdir(export.parent) == [export.name]


def test_a_name_with_marks_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "a?mode=rw #100%.sqlite"
    write_nsys.write(path, as_nsys_sees(decode_loop().build()))
    assert len(read_trace(path).device)


@pytest.mark.parametrize(
    "times",
    [
        '"end" = NULL',
        "start = NULL",
        '"end" = start - 1',
        'start = 0, "end" = 0',
        'start = 9223372036854775000, "end" = 9223372036854775807',
        "start = -9223372036854775808",
        'start = start - 9223372036854775000, "end" = "end" - 9223372036854775000',
    ],
)
def test_times_that_cannot_be_are_left_out_and_counted(export: Path, times: str) -> None:
    before = read_trace(export)
    change(export, f"UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET {times} WHERE rowid IN (3, 5)")
    found = read_trace(export)
    assert len(found.device) == len(before.device) - 2
    assert found.span_ns() == before.span_ns()
    assert "2 device activities with missing or impossible times were left out" in found.caveats


def test_a_name_that_is_no_utf8_is_read_as_far_as_it_can_be(export: Path) -> None:
    change(export, "UPDATE StringIds SET value = CAST(x'6bff72' AS TEXT)")
    found = read_trace(export)
    assert "k\ufffdr" in found.names


def test_text_in_place_of_a_time_is_no_time(export: Path) -> None:
    before = read_trace(export)
    change(export, "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = 'soon' WHERE rowid = 2")
    found = read_trace(export)
    assert len(found.device) == len(before.device) - 1
    assert found.span_ns() == before.span_ns()
    assert "1 device activity with missing or impossible times was left out" in found.caveats


def test_a_view_in_place_of_a_table_is_refused_and_never_run(export: Path) -> None:
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
    change(export, "DROP TABLE CUPTI_ACTIVITY_KIND_KERNEL")
    change(export, f"CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS {endless} SELECT i FROM n")
    with pytest.raises(InputError, match="has a view where nsys writes a table") as refused:
        read_trace(export)
    assert refused.value.why.startswith("CUPTI_ACTIVITY_KIND_KERNEL: a view is not read")


def test_a_view_of_the_users_own_is_left_alone(export: Path) -> None:
    before = read_trace(export)
    change(export, "CREATE VIEW my_kernels AS SELECT * FROM CUPTI_ACTIVITY_KIND_KERNEL")
    assert len(read_trace(export).device) == len(before.device)


def change(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.execute(statement)
        database.commit()
