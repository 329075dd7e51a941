"""`decodeprof open`, as a person calls it."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from decodeprof.cli import group
from decodeprof.cli.errors import run
from tests.scenarios import decode_loop
from tests.write_kineto import write

FIXTURES = Path(__file__).parents[2] / "fixtures"
TIMEOUT_S = 60.0


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def opened(path: Path, port: int, *options: str, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "decodeprof", "open", str(path), "--port", str(port), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )


def test_a_trace_is_served_from_a_temporary_timeline(tmp_path: Path) -> None:
    trace = write(tmp_path / "trace.json", decode_loop().build())
    port = free_port()
    process = opened(trace, port, "--no-browser")
    assert process.stdout is not None
    link = process.stdout.readline().strip()
    assert link == "https://ui.perfetto.dev/#!/?url=http://127.0.0.1:9001/trace.pftrace"
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/trace.pftrace") as answer:
        data = answer.read()
    out, err = process.communicate(timeout=TIMEOUT_S)
    assert (process.returncode, out) == (0, "")
    assert "the page has read the timeline" in err
    assert "open this link in a browser" in err
    assert len(data) > 10_000
    assert [path.name for path in tmp_path.iterdir()] == ["trace.json"]


def test_a_recordings_own_timeline_is_served(tmp_path: Path) -> None:
    recording = tmp_path / "recording"
    shutil.copytree(FIXTURES / "stage_matvec", recording)
    (recording / "timeline.pftrace").write_bytes(b"mine")
    port = free_port()
    process = opened(recording, port, "--no-browser")
    assert process.stdout is not None
    assert process.stdout.readline().endswith("/timeline.pftrace\n")
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/timeline.pftrace") as answer:
        assert answer.read() == b"mine"
    process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0


def test_ctrl_c_ends_it(tmp_path: Path) -> None:
    file = tmp_path / "t.pftrace"
    file.write_bytes(b"x")
    process = opened(file, free_port(), "--no-browser")
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 130
    assert err.endswith("interrupted\n")
    assert "Traceback" not in err


def test_a_browser_that_is_not_there_leaves_the_link(tmp_path: Path) -> None:
    file = tmp_path / "t.pftrace"
    file.write_bytes(b"x")
    port = free_port()
    process = opened(file, port, BROWSER="/nonexistent/browser", PATH=str(tmp_path))
    assert process.stdout is not None
    assert process.stdout.readline().startswith("https://ui.perfetto.dev/")
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/t.pftrace") as answer:
        answer.read()
    _, err = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0
    assert "open this link in a browser" in err


def test_a_missing_file_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("no.pftrace", "no.json"):
        assert run(group, ["open", str(tmp_path / name), "--no-browser"]) in (1, 2)
        captured = capsys.readouterr()
        assert captured.err.startswith("error: ")
        assert captured.out == ""
