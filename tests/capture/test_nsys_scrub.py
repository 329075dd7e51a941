"""Our own export keeps what analysis reads, and nothing that tells of the machine."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from decodeprof.capture.nsys_scrub import scrub
from decodeprof.diagnosis.pipeline import analyze_path
from decodeprof.recording import NSYS_FILE
from tests import write_nsys
from tests.capture import nsys_programs as programs
from tests.capture.test_nsys import faked
from tests.scenarios import decode_loop
from tests.write_nsys import SCHEMAS, Schema, as_nsys_sees

SECRETS = {
    "TARGET_INFO_SYSTEM_ENV": "HOST-7",
    "PROCESSES": "/srv/secret/python3",
    "FILE_ACCESS_INTERVAL": "/srv/secret/weights",
}


def told_of_the_machine(path: Path) -> Path:
    """Put rows into an export that name the machine, its processes and its environment."""
    with closing(sqlite3.connect(path)) as database:
        for table, text in SECRETS.items():
            database.execute(f"DROP TABLE IF EXISTS {table}")
            database.execute(f"CREATE TABLE {table} (pid INTEGER, name TEXT)")
            database.execute(f"INSERT INTO {table} VALUES (429, ?)", (text,))
        database.execute("CREATE TABLE DIAGNOSTIC_EVENT (severity INTEGER, text TEXT)")
        events = [(1, "on HOST-7"), (2, "CUDA: see /srv/secret"), (2, "No CUDA events collected.")]
        database.executemany("INSERT INTO DIAGNOSTIC_EVENT VALUES (?, ?)", events)
        database.execute("CREATE TABLE IF NOT EXISTS META_DATA_CAPTURE (name TEXT, value TEXT)")
        variable = ("PROCESS_0:ENVIRONMENT_VARIABLE", 'TOKEN="hunter2"')
        database.execute("INSERT INTO META_DATA_CAPTURE VALUES (?, ?)", variable)
        database.execute("INSERT INTO StringIds VALUES (900001, '/srv/secret/lib.so')")
        database.commit()
    return path


@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda schema: schema.version)
def test_nothing_of_the_machine_stays_and_the_diagnosis_is_the_same(
    tmp_path: Path, schema: Schema
) -> None:
    scenario = as_nsys_sees(decode_loop().build())
    path = told_of_the_machine(write_nsys.write(tmp_path / NSYS_FILE, scenario, schema=schema))
    before = analyze_path(path).diagnosis
    scrub(path)
    after = analyze_path(path).diagnosis
    assert after.caveats == [text for text in before.caveats if "secret" not in text]
    assert any("No CUDA events collected" in text for text in after.caveats)
    assert replace(after, caveats=[]) == replace(before, caveats=[])
    data = path.read_bytes()
    assert not [word for word in (b"secret", b"HOST-7", b"hunter2") if word in data]
    assert os.listdir(tmp_path) == [NSYS_FILE]


def test_a_damaged_export_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / NSYS_FILE
    path.write_bytes(b"SQLite format 3\x00" + b"cut" * 100)
    before = path.read_bytes()
    with pytest.raises(sqlite3.Error):
        scrub(path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == [NSYS_FILE]


def test_a_damaged_export_goes_aside_in_a_recording(tmp_path: Path) -> None:
    broken = tmp_path / "broken.sqlite"
    broken.write_bytes(b"SQLite format 3\x00" + b"cut" * 100)
    told = faked(tmp_path, programs.RUNS_AND_EXPORTS, export=broken)
    assert told.status == "failed"
    assert "could not be copied without what tells of this machine" in told.reason
    assert "kept as nsys wrote it: `nsys.unscrubbed.sqlite`" in told.reason
    assert (tmp_path / "out" / "nsys.unscrubbed.sqlite").read_bytes() == broken.read_bytes()
