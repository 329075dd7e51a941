"""A result is the diagnosis, and more."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

import decodeprof
from decodeprof.api.result import Result
from decodeprof.diagnosis.pipeline import analyze_path
from decodeprof.errors import DecodeprofError, UsageError
from decodeprof.model.diagnosis import Diagnosis
from decodeprof.report.as_json import diagnosis_json
from tests.scenarios import decode_loop
from tests.write_kineto import write

ROOT = Path(__file__).parents[2]
PLAIN = ROOT / "fixtures" / "plain_0p6b"


@pytest.fixture(scope="module")
def result() -> Result:
    return decodeprof.analyze(PLAIN)


def test_a_result_is_written_as_its_diagnosis(result: Result) -> None:
    assert isinstance(result, Diagnosis)
    assert diagnosis_json(result) == diagnosis_json(analyze_path(PLAIN).diagnosis)


def test_a_recording_knows_where_it_lies_and_a_trace_does_not(
    result: Result, tmp_path: Path
) -> None:
    assert result.recording == PLAIN
    assert decodeprof.analyze(PLAIN / "recording.json").recording == PLAIN
    assert decodeprof.analyze(write(tmp_path / "t.json", decode_loop().build())).recording is None


def test_its_short_form_is_the_verdict(result: Result) -> None:
    assert repr(result) == f"<plain_0p6b: {result.verdict.sentence} 8 findings>"
    one = msgspec.structs.replace(result, findings=result.findings[:1])
    assert repr(one).endswith(" 1 finding>")


def test_it_writes_a_timeline_once(result: Result, tmp_path: Path) -> None:
    file = tmp_path / "steps.pftrace"
    assert result.write_perfetto(str(file), steps=slice(3, 6)) == file
    size = file.stat().st_size
    with pytest.raises(UsageError, match="exists"):
        result.write_perfetto(file)
    result.write_perfetto(file, force=True)
    assert file.stat().st_size > size


def test_a_timeline_is_of_steps_in_a_row(result: Result, tmp_path: Path) -> None:
    file = tmp_path / "steps.pftrace"
    with pytest.raises(UsageError, match="not of every 2"):
        result.write_perfetto(file, steps=slice(0, 6, 2))
    assert not file.exists()


def test_it_does_not_write_over_what_it_was_made_from(tmp_path: Path) -> None:
    trace = write(tmp_path / "t.json", decode_loop().build())
    before = trace.read_bytes()
    with pytest.raises(UsageError, match="is what is read"):
        decodeprof.analyze(trace).write_perfetto(trace, force=True)
    assert trace.read_bytes() == before


def test_what_was_read_from_json_has_tables_and_no_timeline(result: Result, tmp_path: Path) -> None:
    read = msgspec.json.decode(diagnosis_json(result), type=Result)
    assert read.tables().gaps is None
    assert len(read.tables().steps) == len(result.steps.rows)
    assert read.recording is None
    with pytest.raises(DecodeprofError, match="has no trace"):
        read.write_perfetto(tmp_path / "t.pftrace")


def test_the_example_in_the_readme_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    section = (ROOT / "README.md").read_text().partition("## From Python\n")[2]
    found = re.search(r"```python\n(.*?)```", section, re.S)
    assert found
    (tmp_path / "fixtures").symlink_to(ROOT / "fixtures")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    exec(found[1], names)
    assert isinstance(names["diagnosis"], Result)
    assert names["diagnosis"].verdict.bound_by == "launch"
    assert (tmp_path / "steps.pftrace").is_file()
