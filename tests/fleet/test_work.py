from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

from decodeprof.diagnosis.pipeline import analyze_path
from decodeprof.fleet.schema import COLUMNS, arrow_schema
from decodeprof.fleet.sources import find_sources
from decodeprof.fleet.work import roll_up
from decodeprof.model.diagnosis import IDLE_CAUSES

RECORDING = Path(__file__).parents[2] / "fixtures" / "stage_matvec"


def one(path: Path):  # type: ignore[no-untyped-def]
    (source,) = find_sources([str(path)])
    return source


def test_a_trace_gives_a_row_for_itself_and_one_for_each_step(traces: Path) -> None:
    path = traces / "host-0" / "trace-00.json.gz"
    outcome = roll_up(one(path), frozenset())
    trace, *steps = outcome.rows
    diagnosis = analyze_path(path).diagnosis
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert outcome.status == "ok"
    assert {row["content_hash"] for row in outcome.rows} == {outcome.content_hash} == {digest}
    assert trace["level"] == "trace"
    assert trace["verdict"] == diagnosis.verdict.sentence
    assert trace["findings"] == [finding.code for finding in diagnosis.findings]
    assert diagnosis.step is not None
    assert trace["step_ns"] == diagnosis.step.profiled_ns
    assert [row["step"] for row in steps] == [row.index for row in diagnosis.steps.rows]
    for row in (trace, *steps):
        causes = sum(row[f"idle_{cause}_ns"] for cause in IDLE_CAUSES)
        assert row["busy_ns"] + causes == row["step_ns"]
        assert set(row) <= set(COLUMNS)


def test_a_recording_says_its_model_and_its_unprofiled_time() -> None:
    outcome = roll_up(one(RECORDING), frozenset())
    row = outcome.rows[0]
    assert (outcome.status, row["kind"]) == ("ok", "recording")
    assert row["target"]
    assert row["unprofiled_ns"] > 0
    assert "torch" in dict(row["versions"])


def test_what_is_made_of_a_recording_does_not_make_it_another(tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(RECORDING, copy)
    before = roll_up(one(copy), frozenset()).content_hash
    (copy / "report.html").write_text("a page")
    assert roll_up(one(copy), frozenset({str(before)})).status == "known"


def test_a_bad_trace_is_a_row_with_its_error(traces: Path) -> None:
    outcome = roll_up(one(traces / "host-0" / "notes.json"), frozenset())
    (row,) = outcome.rows
    assert (outcome.status, row["status"], row["level"]) == ("bad", "bad", "trace")
    assert "no torch.profiler trace" in row["error"]
    assert row["content_hash"]


def test_a_trace_that_is_gone_is_to_be_tried_again(tmp_path: Path, traces: Path) -> None:
    path = tmp_path / "gone.json.gz"
    shutil.copy(traces / "host-0" / "trace-00.json.gz", path)
    source = one(path)
    path.unlink()
    outcome = roll_up(source, frozenset())
    assert (outcome.status, outcome.content_hash) == ("failed", None)
    assert outcome.rows[0]["error"] == "FileNotFoundError"


def test_bytes_that_are_known_are_not_analysed_again(traces: Path) -> None:
    path = traces / "host-1" / "again.json.gz"
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    outcome = roll_up(one(path), frozenset({digest}))
    assert (outcome.status, outcome.rows) == ("known", [])


def test_the_files_carry_the_schemas_version() -> None:
    schema = arrow_schema()
    assert schema.names == list(COLUMNS)
    assert schema.metadata == {b"decodeprof.schema_version": b"1"}


def test_a_pipe_is_not_waited_on(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "trace.json")
    outcome = roll_up(one(tmp_path), frozenset())
    assert outcome.status == "failed"
    assert "is no file" in outcome.rows[0]["error"]
