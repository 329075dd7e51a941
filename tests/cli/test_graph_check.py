"""`decodeprof graph-check`: what it says where there is nothing to capture on."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
import torch

from decodeprof.capture import Job
from decodeprof.cli import group
from decodeprof.cli.errors import run
from decodeprof.cli.graph_checked import check_recorded
from decodeprof.errors import EXIT_ASKED_WRONGLY, EXIT_COULD_NOT
from decodeprof.recording import PassReport, read_recording, write_recording

SCRIPT = """
def generate(new_tokens=4):
    return list(range(new_tokens))
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "loop.py"
    path.write_text(SCRIPT)
    return path


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device here")
def test_without_a_gpu_lint_is_pointed_to(script: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "decodeprof", "graph-check", f"{script}:generate"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == EXIT_COULD_NOT
    assert done.stdout == ""
    assert "there is no CUDA GPU here" in done.stderr
    assert f"`decodeprof lint {script}:generate`" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--bucket", "batch"], "is not of the form argument=value,value"),
        (["--bucket", "batch=one"], "is not of the form argument=value,value"),
        (["--bucket", "=1"], "is not of the form argument=value,value"),
        (["--arg", "new_tokens"], "is not of the form name=value"),
        (["--device", "gpu"], "`gpu` is no device"),
    ],
)
def test_what_is_asked_wrongly_runs_nothing(
    script: Path, arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(group, ["graph-check", f"{script}:generate", *arguments]) == EXIT_ASKED_WRONGLY
    assert text in capsys.readouterr().err


def test_a_script_that_is_not_there_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(group, ["graph-check", "nowhere.py:generate"]) == EXIT_ASKED_WRONGLY
    assert "nowhere.py" in capsys.readouterr().err


PLAIN = Path(__file__).parents[2] / "fixtures" / "plain_0p6b"


def noted(folder: Path, script: Path, *, on_gpu: bool) -> PassReport:
    """What a recording says of a check that could not be made."""
    directory = folder / "recording"
    shutil.copytree(PLAIN, directory)
    if not on_gpu:
        recording = read_recording(directory)
        write_recording(directory, msgspec.structs.replace(recording, device=None))
    check_recorded(Job(target=f"{script}:generate"), directory, lambda _: None)
    recording = read_recording(directory)
    assert recording.graph_check is None
    return recording.passes[-1]


def test_a_recording_on_the_cpu_says_that_nothing_was_captured(
    tmp_path: Path, script: Path
) -> None:
    report = noted(tmp_path, script, on_gpu=False)
    assert (report.name, report.status) == ("graph_check", "failed")
    assert report.reason.startswith("the target ran on the CPU alone, and a graph is captured")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device here")
def test_a_check_that_fails_leaves_the_recording_whole(tmp_path: Path, script: Path) -> None:
    report = noted(tmp_path, script, on_gpu=True)
    assert (report.name, report.status) == ("graph_check", "failed")
    assert "no CUDA GPU" in report.reason
