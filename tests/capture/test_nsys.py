"""A run under nsys that goes wrong is told, and what it left is kept; a real nsys where one is.

Real copies are those of this machine. Stand-ins are for what needs a GPU or a broken machine: they
show what decodeprof makes of it, and capture nothing.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from decodeprof.capture import Job
from decodeprof.capture.job import Order
from decodeprof.capture.nsys import CHILD, arguments, left_raw, record_nsys
from decodeprof.capture.nsys_watch import agents_of
from decodeprof.capture.passes import NO_DEVICE
from decodeprof.capture.supervise import record_under_nsys
from decodeprof.diagnosis.pipeline import analyze_path
from decodeprof.hardware.nsys import Installed, importer_of, installed
from decodeprof.recording import NSYS_FILE, PassReport, read_recording, write_recording
from tests import write_nsys
from tests.capture import nsys_programs as programs
from tests.capture.conftest import SCRIPTS
from tests.diagnosis.cases import recording, timing
from tests.scenarios import US, decode_loop
from tests.write_nsys import as_nsys_sees

COPIES = installed()
REAL = COPIES[0].path if COPIES else None
needs_nsys = pytest.mark.skipif(REAL is None, reason="needs Nsight Systems")
needs_importer = pytest.mark.skipif(
    REAL is None or importer_of(REAL) is None, reason="needs Nsight Systems with its importer"
)


def run(
    nsys: Path | None, out: Path, *, target: str = "loop.py:arithmetic", limit_s: float = 60
) -> PassReport:
    """Run a target under an nsys, and give what the pass says."""
    out.mkdir(exist_ok=True)
    order = Order(job=Job(target=f"{SCRIPTS}/{target}", nsys=True), out=str(out))
    copies = [] if nsys is None else [Installed(nsys, on_path=True)]
    return record_nsys(order, out=out, copies=copies, limit_s=limit_s, progress=lambda _: None)


def faked(tmp_path: Path, text: str, **values: object) -> PassReport:
    return run(programs.program(tmp_path, text, **values), tmp_path / "out")


@pytest.fixture
def export(tmp_path: Path) -> Path:
    return write_nsys.write(tmp_path / "made.sqlite", as_nsys_sees(decode_loop().build()))


def test_the_argument_list() -> None:
    made = arguments(
        Path("/opt/a folder/nsys"), Path("/50%/run 1"), order=Path("/t/o"), messages=Path("/t/m")
    )
    assert made == [
        "/opt/a folder/nsys",
        "profile",
        "--trace=cuda,nvtx,osrt",
        "--sample=none",
        "--cpuctxsw=none",
        "--cuda-graph-trace=node",
        "--capture-range=cudaProfilerApi",
        "--capture-range-end=stop",
        "--wait=primary",
        "--export=sqlite",
        "--output=/50%%/run 1/nsys",
        sys.executable,
        "-P",
        "-m",
        "decodeprof.capture.nsys_child",
        "/t/o",
        "/t/m",
    ]


@needs_nsys
def test_a_real_nsys_knows_every_argument(tmp_path: Path) -> None:
    assert REAL is not None
    command = arguments(REAL, tmp_path, order=tmp_path, messages=tmp_path)
    told = subprocess.run([REAL, "profile", "--help"], capture_output=True, text=True, check=False)
    known = told.stdout + told.stderr
    for option in (each.partition("=")[0] for each in command if each.startswith("--")):
        assert option in known


def test_no_nsys(tmp_path: Path) -> None:
    told = run(None, tmp_path / "out")
    assert told.status == "failed"
    assert told.reason.startswith("there is no `nsys`, neither on the PATH nor in an installer's")
    assert "install Nsight Systems" in told.reason


def test_a_whole_run_leaves_the_export_without_what_tells_of_the_machine(
    tmp_path: Path, export: Path
) -> None:
    told = faked(tmp_path, programs.RUNS_AND_EXPORTS, export=export)
    assert (told.status, told.reason) == ("done", "")
    found = analyze_path(tmp_path / "out" / NSYS_FILE).diagnosis
    assert found.counts == analyze_path(export).diagnosis.counts


def test_without_importer_the_collected_file_is_kept_though_nsys_left_with_0(
    tmp_path: Path,
) -> None:
    told = faked(tmp_path, programs.WITHOUT_IMPORTER)
    assert told.status == "failed"
    assert "since its importer is missing; it left with code 0" in told.reason
    assert "kept: `nsys.qdstrm` (9 kB)" in told.reason
    assert "`QdstrmImporter -i nsys.qdstrm -o nsys.nsys-rep`" in told.reason
    assert (tmp_path / "out" / "nsys.qdstrm").stat().st_size == 9000
    assert "environment variables" in left_raw(tmp_path / "out")[0]


def test_an_importer_that_fails_is_not_called_missing(tmp_path: Path) -> None:
    told = faked(tmp_path, programs.IMPORTER_FAILS)
    assert "its importer failed: Importer error status: Importation failed." in told.reason
    assert "kept: `nsys.qdstrm`" in told.reason


def test_a_report_without_export_comes_with_the_command(tmp_path: Path) -> None:
    told = faked(tmp_path, programs.WITHOUT_EXPORT)
    assert "`nsys export --type sqlite --output nsys.sqlite nsys.nsys-rep`" in told.reason
    assert "kept: `nsys.nsys-rep` (6 B)" in told.reason


def test_a_full_disk_names_the_file_and_brings_it_where_there_is_room(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    told = faked(tmp_path, programs.DISK_FULL, temporary=tmp_path / "tmp")
    assert told.reason.startswith("the disk is full: nsys could not write its report")
    assert "kept: `nsys.qdstrm` (9 B)" in told.reason
    assert "`--out`; nsys collects in TMPDIR first" in told.reason
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_file_that_cannot_be_brought_stays_and_is_named(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    (tmp_path / "out" / "nsys.qdstrm").mkdir(parents=True)
    told = faked(tmp_path, programs.DISK_FULL, temporary=tmp_path / "tmp")
    assert "`nsys-report-d0d5.qdstrm` in the folder TMPDIR" in told.reason
    assert (tmp_path / "tmp" / "nsys-report-d0d5.qdstrm").read_bytes() == b"collected"


def test_no_permission(tmp_path: Path) -> None:
    told = faked(tmp_path, programs.NO_PERMISSION)
    assert told.reason.startswith("nsys lacks a permission: Permission denied")
    assert "SYS_ADMIN" in told.reason


@pytest.mark.parametrize(
    ("text", "option"),
    [(programs.OLD, "--cuda-graph-trace"), (programs.OLD_VALUE, "--capture-range-end")],
)
def test_a_version_too_old_for_an_option(tmp_path: Path, text: str, option: str) -> None:
    told = faked(tmp_path, text)
    assert told.reason.startswith(f"`nsys` does not know `{option}`")
    assert "Nsight Systems 2022.1 or newer" in told.reason


def test_a_program_that_cannot_be_run(tmp_path: Path) -> None:
    path = tmp_path / "nsys"
    path.write_text("no program")
    path.chmod(0o755)
    told = run(path, tmp_path / "out")
    assert told.reason.startswith("`nsys` could not be run: Exec format error")


def test_nothing_left_repeats_its_last_words_without_bars(tmp_path: Path) -> None:
    told = faked(tmp_path, programs.SAYS_NOTHING)
    assert told.reason == (
        "nsys left no report (exit code 0); its last words: Collecting data... | Generated:"
    )


def test_one_that_never_starts_the_target_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("decodeprof.capture.nsys_watch._START_S", 0.5)
    monkeypatch.setattr("decodeprof.capture.nsys_watch._STOP_GRACE_S", 0.5)
    begin = time.monotonic()
    told = faked(tmp_path, programs.NEVER_BEGINS)
    assert told.reason.startswith("nsys did not start the target and was ended")
    assert time.monotonic() - begin < 10


def test_a_target_that_crashes_is_told_though_nsys_does_not_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("decodeprof.capture.nsys_watch._AFTER_FAILURE_S", 0.5)
    nsys = programs.program(tmp_path, programs.OUTLIVES_A_CRASH)
    told = run(nsys, tmp_path / "out", target="failing.py:crashes_at_once")
    assert told.status == "failed"
    assert told.reason.startswith(
        "the target's process ended under nsys before it was through "
        "(Fatal Python error: Segmentation fault)"
    )


def test_a_target_that_raises_under_nsys_keeps_its_own_words(tmp_path: Path) -> None:
    nsys = programs.program(tmp_path, programs.RUNS_THE_TARGET)
    told = run(nsys, tmp_path / "out", target="failing.py:raises_at_call_3")
    assert told.reason.startswith("under nsys, the target raised ValueError in call 3")


def test_the_rest_of_the_diagnosis_stands(tmp_path: Path) -> None:
    told = faked(tmp_path, programs.WITHOUT_IMPORTER)
    made = recording(timing=timing([100 * US] * 8), passes=[told])
    write_recording(tmp_path / "out", made)
    found = analyze_path(tmp_path / "out").diagnosis
    assert found.step is not None
    assert found.step.unprofiled_ns is not None
    assert any("The nsys pass failed: nsys collected" in text for text in found.caveats)


@pytest.mark.parametrize("program", [None, programs.WITHOUT_IMPORTER])
def test_without_a_gpu_the_pass_has_failed_whether_or_not_there_is_an_nsys(
    program: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("bin", "out"):
        (tmp_path / name).mkdir()
    if program is not None:
        programs.program(tmp_path / "bin", program)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    out = tmp_path / "out"
    write_recording(out, recording(timing=timing([100 * US] * 8), device=None))
    order = Order(job=Job(target="loop.py:generate", nsys=True), out=str(out))
    record_under_nsys(order, 60.0, out, lambda _: None)
    (told,) = [each for each in read_recording(out).passes if each.name == "nsys"]
    assert told.status == "failed"
    assert told.reason == "the target ran on the CPU alone, and nsys would record what a GPU does"
    found = analyze_path(out).diagnosis
    assert found.step is not None
    assert found.step.unprofiled_ns is not None


def test_what_the_target_prints_is_none_of_nsyss_words(tmp_path: Path) -> None:
    order, messages = tmp_path / "order", tmp_path / "messages"
    job = Job(target=f"{SCRIPTS}/loop.py:generate", setup="arguments", nsys=True)
    order.write_bytes(msgspec.json.encode(Order(job=job, out=str(tmp_path / "out"))))
    messages.touch()
    done = subprocess.run(
        [sys.executable, "-P", "-m", CHILD, order, messages], capture_output=True, check=True
    )
    assert (done.stdout, done.stderr) == (b"", b"")
    # It ran: this machine's own word on it is there.
    assert NO_DEVICE in messages.read_text()


@needs_nsys
class TestReal:
    def test_a_target_on_the_cpu_says_so(self, tmp_path: Path) -> None:
        told = run(REAL, tmp_path / "out")
        assert told.reason.startswith(f"under nsys, {NO_DEVICE}")

    def test_a_target_that_crashes(self, tmp_path: Path) -> None:
        told = run(REAL, tmp_path / "out", target="failing.py:crashes_at_once", limit_s=100)
        assert "(Fatal Python error: Segmentation fault)" in told.reason

    def test_a_target_that_hangs_ends_with_nsys_and_its_agent(self, tmp_path: Path) -> None:
        told = run(REAL, tmp_path / "out", target="failing.py:sleeps", limit_s=15)
        assert told.reason.startswith("it did not end within 15 s")
        assert not [entry for entry in _commands() if str(tmp_path) in entry]

    def test_its_words_for_an_option_that_it_does_not_know(self, tmp_path: Path) -> None:
        assert REAL is not None
        wrapper = tmp_path / "nsys"
        wrapper.write_text(f'#!/bin/sh\nshift\nexec "{REAL}" profile --no-such-option=1 "$@"\n')
        wrapper.chmod(0o755)
        told = run(wrapper, tmp_path / "out")
        assert told.reason.startswith("`nsys` does not know `--no-such-option`")

    def test_its_agent_is_known_by_the_name_of_its_session(self, tmp_path: Path) -> None:
        assert REAL is not None
        command = [REAL, "profile", "--sample=none", f"--output={tmp_path}/r", "sleep", "20"]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 15
        while not (agents := agents_of(process.pid)) and time.monotonic() < deadline:
            time.sleep(0.1)
        process.kill()
        process.wait()
        for agent in agents:
            os.kill(agent, signal.SIGKILL)
        assert agents

    @needs_importer
    def test_its_export_is_read_as_one_without_gpu_activity(self, tmp_path: Path) -> None:
        assert REAL is not None
        command = [REAL, "profile", "--sample=none", "--export=sqlite", f"--output={tmp_path}/r"]
        subprocess.run([*command, "true"], capture_output=True, check=True)
        from decodeprof.errors import InputError

        for file in ("r.sqlite", "r.nsys-rep"):
            with pytest.raises(InputError) as caught:
                analyze_path(tmp_path / file)
            assert caught.value.what == f"`{file}` holds no GPU activity"


def _commands() -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue
    return found
