"""`decodeprof export`: files for other programs."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from decodeprof.cli import group
from decodeprof.cli.errors import run
from tests.export.perfetto.trace_processor import needs_trace_processor, processed
from tests.scenarios import decode_loop
from tests.write_kineto import write

FIXTURES = Path(__file__).parents[2] / "fixtures"
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return write(tmp_path / "trace.json.gz", decode_loop().build())


@needs_trace_processor
def test_a_trace_gets_its_timeline_in_the_current_folder(trace: Path, capsys: Capture) -> None:
    assert run(group, ["export", str(trace), "--perfetto"]) == 0
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("trace.pftrace\n", "")
    kernels = sum(activity.kind == "kernel" for activity in decode_loop().build().activities)
    with processed(Path("trace.pftrace")) as found:
        assert found.query("select count(*) from slice where category = 'kernel'") == [(kernels,)]


def test_a_recording_gets_its_timeline_beside_its_other_files(
    tmp_path: Path, capsys: Capture
) -> None:
    recording = tmp_path / "recording"
    shutil.copytree(FIXTURES / "stage_matvec", recording)
    assert run(group, ["export", str(recording / "recording.json"), "--perfetto"]) == 0
    assert capsys.readouterr().out == f"{recording / 'timeline.pftrace'}\n"
    assert (recording / "timeline.pftrace").stat().st_size > 100_000


def test_some_steps_are_a_smaller_file(trace: Path, capsys: Capture) -> None:
    assert run(group, ["export", str(trace), "--perfetto"]) == 0
    arguments = ["export", str(trace), "--perfetto", "--steps", "1:2", "--out", "one.pftrace"]
    assert run(group, arguments) == 0
    assert capsys.readouterr().out == "trace.pftrace\none.pftrace\n"
    assert Path("one.pftrace").stat().st_size < Path("trace.pftrace").stat().st_size / 2


def test_what_exists_is_kept_unless_forced(trace: Path, capsys: Capture) -> None:
    Path("trace.pftrace").write_text("mine")
    assert run(group, ["export", str(trace), "--perfetto"]) == 2
    assert capsys.readouterr().err == (
        "error: `trace.pftrace` exists\n"
        "hint: `--force` replaces it; or name another place with `--out`\n"
    )
    assert Path("trace.pftrace").read_text() == "mine"
    assert run(group, ["export", str(trace), "--perfetto", "--force"]) == 0
    assert Path("trace.pftrace").read_bytes() != b"mine"


@pytest.mark.parametrize("steps", ["", "3", "a:b", "3:3", "4:2", "-1:2"])
def test_steps_that_are_none_are_an_error(steps: str, trace: Path, capsys: Capture) -> None:
    assert run(group, ["export", str(trace), "--perfetto", "--steps", steps]) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"error: `{steps}` names no steps\n")
    assert "`--steps 3:6` for the steps 3, 4 and 5" in err
    assert [path.name for path in Path().iterdir()] == ["trace.json.gz"]


def test_steps_beyond_the_last_are_an_error_and_leave_nothing(trace: Path, capsys: Capture) -> None:
    assert run(group, ["export", str(trace), "--perfetto", "--steps", "9:"]) == 1
    assert capsys.readouterr().err.splitlines()[:2] == [
        "error: `trace.json.gz` has no such steps",
        "  it has 5 steps: 0 to 4",
    ]
    assert [path.name for path in Path().iterdir()] == ["trace.json.gz"]


def test_a_place_that_cannot_be_written_is_an_error(trace: Path, capsys: Capture) -> None:
    arguments = ["export", str(trace), "--perfetto", "--out"]
    assert run(group, [*arguments, "no/such/folder.pftrace"]) == 1
    assert "there is no folder `no/such`" in capsys.readouterr().err
    assert run(group, [*arguments, "."]) == 1
    assert "it is a folder" in capsys.readouterr().err


def test_no_format_is_an_error(trace: Path, capsys: Capture) -> None:
    assert run(group, ["export", str(trace)]) == 2
    assert capsys.readouterr().err.startswith("error: no format was named\n")


def test_tables_go_into_a_folder_of_their_own(trace: Path, capsys: Capture) -> None:
    assert run(group, ["export", str(trace), "--csv", "--parquet"]) == 0
    captured = capsys.readouterr()
    names = ["steps", "gaps", "syncs", "kernels", "what_ifs", "findings"]
    files = [f"trace-tables/{name}.{end}" for end in ("csv", "parquet") for name in names]
    assert (captured.out.splitlines(), captured.err) == (files, "")
    assert sorted(str(path) for path in Path("trace-tables").iterdir()) == sorted(files)
    header = Path("trace-tables/gaps.csv").read_text().splitlines()[0]
    assert header.startswith("device,step,start_ns,length_ns,largest_cause,sync_ns,launch_ns")
    assert run(group, ["export", str(trace), "--csv"]) == 2
    assert "`--force` replaces it" in capsys.readouterr().err
    assert run(group, ["export", str(trace), "--csv", "--force"]) == 0


def test_one_place_cannot_take_a_file_and_a_folder(trace: Path, capsys: Capture) -> None:
    arguments = ["export", str(trace), "--csv", "--perfetto"]
    assert run(group, [*arguments, "--out", "x"]) == 2
    assert "`--out` names one place" in capsys.readouterr().err
    assert run(group, arguments) == 0
    assert capsys.readouterr().out.splitlines()[0] == "trace.pftrace"


def test_steps_are_of_the_timeline_alone(trace: Path, capsys: Capture) -> None:
    assert run(group, ["export", str(trace), "--csv", "--steps", "1:2"]) == 2
    assert "`--steps` is of the timeline alone" in capsys.readouterr().err


def test_what_is_read_is_never_written_over(trace: Path, capsys: Capture) -> None:
    before = trace.read_bytes()
    for option in (["export", "--perfetto", "--out"], ["analyze", "--html"]):
        assert run(group, [option[0], str(trace), *option[1:], "trace.json.gz", "--force"]) == 2
        assert capsys.readouterr().err == (
            "error: `trace.json.gz` is what is read\n"
            "  `--force` does not replace it\n"
            "hint: name another place\n"
        )
    assert trace.read_bytes() == before


def test_no_part_of_a_recording_is_written_over(tmp_path: Path, capsys: Capture) -> None:
    recording = Path(shutil.copytree(FIXTURES / "stage_matvec", tmp_path / "recording"))
    part = recording / "recording.json"
    before = part.read_bytes()
    arguments = ["export", str(recording), "--perfetto", "--out", str(part), "--force"]
    assert run(group, arguments) == 2
    assert "is what is read" in capsys.readouterr().err
    assert part.read_bytes() == before


def test_a_pipe_is_not_replaced(trace: Path, capsys: Capture) -> None:
    pipe = trace.parent / "pipe"
    os.mkfifo(pipe)
    for option in (["export", "--perfetto", "--out"], ["analyze", "--html"]):
        assert run(group, [option[0], str(trace), *option[1:], str(pipe), "--force"]) == 1
        assert "it is no ordinary file" in capsys.readouterr().err
    assert pipe.is_fifo()
