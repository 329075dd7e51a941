from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import decodeprof
from decodeprof.cli import demo, group
from decodeprof.cli.errors import run
from decodeprof.report.terminal import text
from decodeprof.report.view import view

Capture = pytest.CaptureFixture[str]


def test_without_a_checkout_it_says_where_the_recording_lies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setattr(demo, "FIXTURES", tmp_path)
    assert run(group, ["demo", "--recorded"]) == 1
    captured = capsys.readouterr()
    assert captured.err == (
        "error: there is no recording from a GPU to show here\n"
        "  an installed wheel holds none; they lie in `fixtures/plain_0p6b` of the source "
        "checkout\n"
        "hint: run `make demo` in a checkout\n"
    )
    assert captured.out == ""


needs_recording = pytest.mark.skipif(
    not (demo.FIXTURES / demo.RECORDED).is_dir(), reason="the recording is not in this checkout"
)


@needs_recording
def test_the_shipped_recording_is_reported(capsys: Capture) -> None:
    assert run(group, ["demo", "--recorded", "--width", "80"]) == 0
    captured = capsys.readouterr()
    assert captured.out == text(view(decodeprof.analyze(demo.FIXTURES / demo.RECORDED)), width=80)
    assert "Where one step's time goes" in captured.out
    assert captured.err == ""


@needs_recording
def test_the_whole_demo_runs_the_loop_here_and_then_shows_the_recording(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    done = subprocess.run(
        [sys.executable, "-m", "decodeprof", "demo", "--out", "live"],
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "COLUMNS": "80"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    live = text(view(decodeprof.analyze(tmp_path / "live")), width=80)
    recorded = text(view(decodeprof.analyze(demo.FIXTURES / demo.RECORDED)), width=80)
    assert done.stdout == live + recorded
    assert "A CPU run" in live
    assert "A CPU run" not in recorded
