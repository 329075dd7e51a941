"""`--perfetto` of the commands that report."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from decodeprof.cli import group
from decodeprof.cli.errors import run
from tests.export.perfetto.trace_processor import needs_trace_processor, processed
from tests.scenarios import decode_loop
from tests.write_kineto import write

FIXTURES = Path(__file__).parents[2] / "fixtures"
Capture = pytest.CaptureFixture[str]

SCRIPT = """
import torch

model = torch.nn.Sequential(torch.nn.Embedding(20, 8), torch.nn.Linear(8, 20)).eval()


@torch.inference_mode()
def generate():
    tokens = [3]
    for _ in range(8):
        tokens.append(int(model(torch.tensor([tokens[-1]])).argmax()))
    return tokens[1:]
"""


@pytest.fixture
def trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return write(tmp_path / "trace.json.gz", decode_loop().build())


@needs_trace_processor
def test_the_timeline_of_a_trace_goes_into_the_current_folder(trace: Path, capsys: Capture) -> None:
    assert run(group, ["analyze", str(trace), "--perfetto", "--no-html"]) == 0
    captured = capsys.readouterr()
    assert captured.err == "timeline: trace.pftrace\n"
    assert "kernels" in captured.out
    kernels = sum(activity.kind == "kernel" for activity in decode_loop().build().activities)
    with processed(Path("trace.pftrace")) as found:
        assert found.query("select count(*) from slice where category = 'kernel'") == [(kernels,)]
        assert found.errors() == []


def test_the_timeline_of_a_recording_goes_into_it_as_export_writes_it(
    tmp_path: Path, capsys: Capture
) -> None:
    recording = tmp_path / "recording"
    shutil.copytree(FIXTURES / "stage_matvec", recording)
    assert run(group, ["analyze", str(recording), "--perfetto", "--no-html"]) == 0
    file = recording / "timeline.pftrace"
    assert capsys.readouterr().err == f"timeline: {file}\n"
    other = tmp_path / "other.pftrace"
    assert run(group, ["export", str(recording), "--perfetto", "--out", str(other)]) == 0
    assert file.read_bytes() == other.read_bytes()


def test_what_exists_is_kept_unless_forced_and_nothing_is_analysed(
    trace: Path, capsys: Capture
) -> None:
    Path("trace.pftrace").write_text("mine")
    assert run(group, ["analyze", str(trace), "--perfetto"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == (
        "error: `trace.pftrace` exists\n"
        "hint: `--force` replaces it; or `decodeprof export --perfetto --out FILE` writes it "
        "elsewhere\n"
    )
    assert Path("trace.pftrace").read_text() == "mine"
    assert not Path("decodeprof-runs").exists()
    assert run(group, ["analyze", str(trace), "--perfetto", "--force"]) == 0
    assert Path("trace.pftrace").read_bytes() != b"mine"


def test_a_place_that_cannot_be_written_is_an_error(trace: Path, capsys: Capture) -> None:
    Path("trace.pftrace").mkdir()
    assert run(group, ["analyze", str(trace), "--perfetto", "--force"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error: cannot write `trace.pftrace`\n  it is a folder\n")


@pytest.mark.parametrize("command", ["analyze", "diagnose"])
def test_without_the_package_it_is_said_before_anything_runs(
    command: str, trace: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "perfetto.trace_builder.proto_builder", None)
    Path("mine.py").write_text("raise SystemExit('it ran')")
    subject = {"analyze": str(trace), "diagnose": "mine.py:generate"}[command]
    assert run(group, [command, subject, "--perfetto"]) == 1
    captured = capsys.readouterr()
    assert "pip install 'decodeprof[perfetto]'" in captured.err
    assert captured.out == ""
    assert not Path("decodeprof-runs").exists()


@needs_trace_processor
def test_diagnose_writes_it_into_the_recording(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(SCRIPT)
    arguments = ["diagnose", "mine.py:generate", "--budget", "0.2", "--out", "run", "--perfetto"]
    assert run(group, arguments) == 0
    assert "timeline: run/timeline.pftrace\n" in capsys.readouterr().err
    with processed(Path("run/timeline.pftrace")) as found:
        assert found.errors() == []
        [(embeddings,)] = found.query("select count(*) from slice where name = 'aten::embedding'")
        assert embeddings > 0
