from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

import decodeprof
from decodeprof.cli import group
from decodeprof.cli.errors import run
from decodeprof.model.diagnosis import Diagnosis
from decodeprof.report.as_json import diagnosis_json
from decodeprof.report.terminal import text
from decodeprof.report.view import view
from tests.scenarios import decode_loop
from tests.write_kineto import write

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("traces") / "trace.json.gz", decode_loop().build())


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_report_goes_to_stdout_and_the_pages_place_to_stderr(
    trace: Path, capsys: Capture
) -> None:
    assert run(group, ["analyze", str(trace), "--width", "100"]) == 0
    captured = capsys.readouterr()
    assert captured.out == text(view(decodeprof.analyze(trace)), width=100)
    assert captured.err == "page: decodeprof-runs/trace-001/report.html\n"


def test_json_is_the_public_contract_and_nothing_else(trace: Path, capsysbinary: object) -> None:
    assert isinstance(capsysbinary, pytest.CaptureFixture)
    assert run(group, ["analyze", str(trace), "--json"]) == 0
    out = capsysbinary.readouterr().out
    assert out == diagnosis_json(decodeprof.analyze(trace))
    diagnosis = msgspec.json.decode(out, type=Diagnosis)
    assert diagnosis.counts.kernels == sum(
        activity.kind == "kernel" for activity in decode_loop().build().activities
    )


def test_the_budget_of_a_step_sums_to_it(trace: Path) -> None:
    step = decodeprof.analyze(trace).step
    assert step is not None
    assert step.idle_ns is not None
    assert step.busy_ns is not None
    idle = sum(getattr(step.idle_ns, cause) for cause in step.idle_ns.__struct_fields__)
    assert step.busy_ns + idle == step.profiled_ns


def test_a_missing_file_is_an_error_with_a_reason(tmp_path: Path, capsys: Capture) -> None:
    missing = tmp_path / "missing.json"
    assert run(group, ["analyze", str(missing)]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith(f"error: there is no file `{missing}`\n")
    assert "Traceback" not in captured.err
    assert captured.out == ""


def test_what_is_missing_is_asked_wrongly_in_every_command(tmp_path: Path, capsys: Capture) -> None:
    missing = str(tmp_path / "missing.py")
    for arguments in (
        ["analyze", missing],
        ["compare", missing, missing],
        ["check", missing, "--max-syncs", "1"],
        ["diagnose", f"{missing}:generate"],
    ):
        assert run(group, arguments) == 2, arguments
        assert capsys.readouterr().err.startswith(f"error: there is no file `{missing}`\n")


def test_a_pipe_is_refused_and_not_waited_on(tmp_path: Path, capsys: Capture) -> None:
    pipe = tmp_path / "trace.json"
    os.mkfifo(pipe)
    assert run(group, ["analyze", str(pipe)]) == 2
    assert capsys.readouterr().err == (
        f"error: `{pipe}` is a pipe, no file or folder\n"
        "  a trace is read from its beginning more than once\n"
        "hint: write it to a file, and name that\n"
    )
    assert run(group, ["analyze", "/dev/null"]) == 2
    assert "is a character device" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["n" * 300, "trace.json/below"])
def test_a_name_that_cannot_be_a_file(name: str, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "trace.json").write_text("{}")
    assert run(group, ["analyze", str(tmp_path / name)]) == 2
    assert "unforeseen" not in capsys.readouterr().err


def test_a_file_that_is_no_trace_is_an_error(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "notes.json"
    path.write_text('{"a": 1}')
    assert run(group, ["analyze", str(path)]) == 1
    err = capsys.readouterr().err
    assert err.startswith("error: ")
    assert "notes.json" in err
    assert "Traceback" not in err


def shell(arguments: list[str], **environment: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "decodeprof", *arguments],
        capture_output=True,
        check=True,
        env={**os.environ, **environment},
    )


def test_analysis_imports_no_torch(trace: Path) -> None:
    program = (
        "import sys, decodeprof\n"
        f"decodeprof.analyze({str(trace)!r})\n"
        "assert 'torch' not in sys.modules and 'pandas' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


# A terminal of which nothing is known may say that it has 0 columns.
@pytest.mark.parametrize("columns", ["", "0"])
def test_a_pipe_gets_80_columns_and_no_escape(columns: str, trace: Path) -> None:
    out = shell(["analyze", str(trace)], COLUMNS=columns, NO_COLOR="").stdout.decode()
    assert out == text(view(decodeprof.analyze(trace)), width=80)


@pytest.mark.parametrize(
    ("arguments", "environment"), [(["--no-color"], {}), ([], {"NO_COLOR": "1"})]
)
def test_no_colour_when_asked(
    arguments: list[str], environment: dict[str, str], trace: Path
) -> None:
    forced = {"FORCE_COLOR": "1", "TERM": "xterm-256color", "COLUMNS": "80"}
    coloured = shell(["analyze", str(trace)], **forced).stdout
    assert b"\x1b[32m" in coloured
    plain = shell(["analyze", str(trace), *arguments], **forced, **environment).stdout
    assert b"\x1b[32m" not in plain


def test_a_terminal_that_cannot_write_a_letter_gets_another(trace: Path) -> None:
    out = shell(["analyze", str(trace)], PYTHONIOENCODING="ascii").stdout
    assert b"?s" in out


def test_a_reader_that_leaves_early_gets_no_traceback(trace: Path) -> None:
    child = subprocess.Popen(
        [sys.executable, "-m", "decodeprof", "analyze", str(trace), "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert child.stdout is not None
    assert child.stderr is not None
    child.stdout.close()
    err = child.stderr.read()
    child.wait()
    child.stderr.close()
    assert b"Traceback" not in err
