from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

import decodeprof
from decodeprof.model.diagnosis import Diagnosis
from decodeprof.report.as_json import diagnosis_json
from decodeprof.report.html import MARK
from decodeprof.report.terminal import text
from decodeprof.report.view import view

pytest.importorskip("torch")

SCRIPT = """
import time

import torch

model = torch.nn.Sequential(torch.nn.Embedding(20, 8), torch.nn.Linear(8, 20)).eval()
calls = 0


@torch.inference_mode()
def generate(model, max_new_tokens):
    print("the target speaks")
    token = 3
    tokens = []
    for _ in range(max_new_tokens):
        token = int(model(torch.tensor([token])).argmax())
        tokens.append(token)
    return tokens


def waits(max_new_tokens=4):
    global calls
    calls += 1
    if calls > 8:
        print("waiting for good", flush=True)
        while True:
            time.sleep(0.01)
    return generate(model, max_new_tokens)


def breaks_later(max_new_tokens=4):
    global calls
    calls += 1
    if calls > 6:
        raise RuntimeError("the seventh call fails")
    return generate(model, max_new_tokens)
"""
ARGUMENTS = ("--arg", "model=@model", "--arg", "max_new_tokens=6", "--budget", "0.5")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("diagnose")
    (path / "loop.py").write_text(SCRIPT)
    return path


def decodeprof_in(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "80"}
    return subprocess.run(
        [sys.executable, "-m", "decodeprof", *arguments],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.fixture(scope="module")
def done(folder: Path) -> subprocess.CompletedProcess[str]:
    return decodeprof_in(folder, "diagnose", "loop.py:generate", *ARGUMENTS)


def test_the_report_is_data_and_the_rest_is_talk(
    done: subprocess.CompletedProcess[str], folder: Path
) -> None:
    assert done.returncode == 0, done.stderr
    recording = folder / "decodeprof-runs" / "loop-generate-001"
    assert done.stdout == text(view(decodeprof.analyze(recording)), width=80)
    assert "the target speaks" in done.stderr
    assert "the target speaks" not in done.stdout
    last = done.stderr.splitlines()[-1]
    assert last == "to see this again: decodeprof analyze decodeprof-runs/loop-generate-001"


def test_every_pass_is_announced(done: subprocess.CompletedProcess[str]) -> None:
    said = [line.partition(":")[0] for line in done.stderr.splitlines()]
    passes = [name for name in ("load", "warmup", "timing", "profile") if name in said]
    assert passes == ["load", "warmup", "timing", "profile"]


def test_the_recording_holds_the_diagnosis(
    done: subprocess.CompletedProcess[str], folder: Path
) -> None:
    assert done.returncode == 0
    recording = folder / "decodeprof-runs" / "loop-generate-001"
    data = (recording / "diagnosis.json").read_bytes()
    assert data == diagnosis_json(decodeprof.analyze(recording))
    diagnosis = msgspec.json.decode(data, type=Diagnosis)
    assert diagnosis.step is not None
    assert diagnosis.step.unprofiled_ns is not None
    assert diagnosis.about.arguments["max_new_tokens"] == "6"


def test_the_recording_holds_a_page(done: subprocess.CompletedProcess[str], folder: Path) -> None:
    recording = folder / "decodeprof-runs" / "loop-generate-001"
    assert (recording / "report.html").read_text().startswith(MARK)
    assert "page: decodeprof-runs/loop-generate-001/report.html\n" in done.stderr


def test_json_and_out(folder: Path) -> None:
    done = decodeprof_in(
        folder, "diagnose", "loop.py:generate", *ARGUMENTS, "--out", "mine", "--json"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.encode() == (folder / "mine" / "diagnosis.json").read_bytes()


def test_a_directory_that_holds_something_is_not_written_to(folder: Path) -> None:
    (folder / "taken").mkdir()
    (folder / "taken" / "notes.txt").write_text("mine")
    done = decodeprof_in(folder, "diagnose", "loop.py:generate", *ARGUMENTS, "--out", "taken")
    assert done.returncode == 2
    assert done.stderr.startswith("error: `taken` exists and is not empty\n")
    assert [path.name for path in (folder / "taken").iterdir()] == ["notes.txt"]


def test_a_wrong_name_is_an_error_with_the_near_one(folder: Path) -> None:
    done = decodeprof_in(folder, "diagnose", "loop.py:generat", "--out", "wrong")
    assert done.returncode == 2
    assert "generate" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (folder / "wrong").exists()


def test_what_was_recorded_before_the_target_failed_is_kept_and_named(folder: Path) -> None:
    done = decodeprof_in(
        folder, "diagnose", "loop.py:breaks_later", "--budget", "0.5", "--out", "half"
    )
    assert done.returncode == 1
    assert done.stdout == ""
    assert "RuntimeError: the seventh call fails" in done.stderr
    assert "half" in done.stderr
    assert (folder / "half" / "recording.json").exists()


def test_ctrl_c_is_one_calm_line_and_what_was_recorded_is_kept(folder: Path) -> None:
    arguments = ("diagnose", "loop.py:waits", "--budget", "60", "--out", "so far")
    with subprocess.Popen(
        [sys.executable, "-m", "decodeprof", *arguments],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "waiting for good" in line:
                break
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert out == ""
    # A path with a blank is quoted, so that the command can be pasted.
    assert err.splitlines()[-1] == (
        "stopped by Ctrl-C in call 9; what was recorded: `decodeprof analyze 'so far'`"
    )
    assert "Traceback" not in err
    assert (folder / "so far" / "recording.json").exists()
