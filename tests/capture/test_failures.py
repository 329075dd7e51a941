"""Targets that misbehave: a plain message, and what had been recorded is kept."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

import msgspec
import pytest
import torch

from decodeprof import mark
from decodeprof.capture import Job, RecordingStopped, new_directory, record
from decodeprof.capture.directory import prepare
from decodeprof.capture.failure import explain, user_frames
from decodeprof.capture.places import PYTHON, Places
from decodeprof.diagnosis.pipeline import analyze_path
from decodeprof.errors import UsageError
from decodeprof.recording import read_recording
from tests.capture.conftest import SCRIPTS, Ran, job

Runs = dict[str, Future[Ran]]


def stopped(runs: Runs, name: str) -> tuple[Ran, RecordingStopped]:
    ran = runs[name].result()
    assert isinstance(ran.error, RecordingStopped)
    return ran, ran.error


def torch_sees_a_gpu() -> bool:
    return bool(torch.cuda.is_available())


def test_missing_arguments_are_offered_from_the_script(runs: Runs) -> None:
    ran = runs["missing_arguments"].result()
    assert isinstance(ran.error, UsageError)
    assert "`model`, `max_seqlen`, `batch_size`" in ran.error.why
    assert "--arg model=@model --arg max_seqlen=N --arg batch_size=N" in ran.error.hint
    assert not ran.out.exists()


def test_an_exception_in_a_later_call_keeps_what_there_is(runs: Runs) -> None:
    ran, error = stopped(runs, "raises_at_call_3")
    assert error.what == "the target raised ValueError in call 3"
    first, second, message = error.why.splitlines()[:3]
    assert first.endswith("raises_at_call_3: helper()")
    assert second.endswith('helper: raise ValueError("the cache is full")')
    assert message == "ValueError: the cache is full"
    assert error.directory == ran.out
    assert ran.statuses == {"warmup": "partial"}


def test_an_exception_in_the_timing_keeps_the_runs_before_it(runs: Runs) -> None:
    ran, error = stopped(runs, "raises_late")
    assert error.what == "the target raised ValueError in call 9"
    assert f"kept in `{ran.out}`: warmup, timing" in error.why
    assert ran.recording is not None
    assert ran.recording.timing is not None
    assert len(ran.recording.timing.runs) == 1
    assert ran.statuses == {"warmup": "done", "timing": "partial"}
    assert error.hint == f"what was recorded: `decodeprof analyze {ran.out}`"
    found = analyze_path(ran.out).diagnosis
    assert found.step is not None
    assert found.step.unprofiled_ns is not None
    assert found.step.kernels is None
    assert "there was no profile pass" in found.verdict.sentence


def test_sys_exit_is_told(runs: Runs) -> None:
    ran, error = stopped(runs, "exits")
    assert error.what == "the target called sys.exit(3) in call 1"
    assert error.hint == "return instead: it is called several times in one process"
    assert error.directory is None
    assert not ran.out.exists()


def test_os_exit_is_told(runs: Runs) -> None:
    _, error = stopped(runs, "leaves")
    assert error.what == "the target ended its process in the warmup pass"
    assert "exit code 7" in error.why


def test_a_crash_names_the_signal_and_the_line(runs: Runs) -> None:
    ran, error = stopped(runs, "crashes")
    assert error.what == "the target's process was ended by SIGSEGV in the timing pass"
    assert "failing.py:" in error.why
    assert "crashes" in error.why
    assert error.directory == ran.out
    assert ran.statuses == {"warmup": "done", "timing": "partial"}


def test_a_hang_ends_at_the_time_limit_and_says_where_it_was(runs: Runs) -> None:
    ran, error = stopped(runs, "hangs")
    assert error.what == "the target did not finish within 20 s"
    assert "in the timing pass" in error.why
    assert " hangs" in error.why
    assert error.hint == (
        "give it more time with `--timeout`, or make fewer tokens; `--new-tokens N` ends "
        "a generator after N of them\n"
        f"what was recorded: `decodeprof analyze {ran.out}`"
    )
    assert f"kept in `{ran.out}`: warmup, timing" in error.why
    assert ran.statuses == {"warmup": "done", "timing": "partial"}
    assert ran.recording is not None
    assert ran.recording.timing is not None
    assert len(ran.recording.timing.runs) == 1
    assert ran.seconds < 40


def test_ctrl_c_keeps_what_was_recorded(tmp_path: Path) -> None:
    out = tmp_path / "out"
    code = f"""
import sys
from pathlib import Path
from decodeprof.capture import Job, RecordingStopped, record
job = Job(target={str(SCRIPTS / "failing.py:waits")!r}, budget_s=60)
try:
    record(job, out=Path({str(out)!r}), progress=lambda _: None)
except RecordingStopped as error:
    print(error.what)
    print(error.hint)
    sys.exit(error.exit_code)
"""
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "waiting for good" in line:
                break
        process.send_signal(signal.SIGINT)
        stdout, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert stdout == (
        f"stopped by Ctrl-C in call 9\nwhat was recorded: `decodeprof analyze {out}`\n"
    )
    # What the target prints on its stdout comes out of our stderr.
    assert "waiting for good" not in stdout
    statuses = {each.name: each.status for each in read_recording(out).passes}
    assert statuses == {"warmup": "done", "timing": "partial"}


def test_an_interruption_shows_the_users_frames_alone(tmp_path: Path) -> None:
    script = tmp_path / "loop.py"
    script.write_text(
        "import signal, statistics\n"
        "def step():\n"
        "    statistics.mean(map(signal.raise_signal, [signal.SIGINT]))\n"
    )
    scope: dict[str, Callable[[], None]] = {}
    exec(compile(script.read_text(), str(script), "exec"), scope)
    with pytest.raises(KeyboardInterrupt) as caught:
        scope["step"]()
    places = Places(str(tmp_path))
    assert user_frames(caught.value, places)[-1].startswith(f"{PYTHON}/statistics.py:")
    told = explain(caught.value, during="in call 2", places=places)
    assert told.what == "stopped by Ctrl-C in call 2"
    lines = [line for line in told.why.splitlines() if "test_failures.py" not in line]
    assert lines == ["loop.py:3 step: statistics.mean(map(signal.raise_signal, [signal.SIGINT]))"]


def test_no_process_is_left_behind(tmp_path: Path) -> None:
    script = tmp_path / "starts.py"
    script.write_text(
        "import subprocess, sys\n"
        "def generate():\n"
        "    child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"    open({str(tmp_path / 'pid')!r}, 'w').write(str(child.pid))\n"
        "    raise ValueError\n"
    )
    with pytest.raises(RecordingStopped):
        record(Job(target=f"{script}:generate"), out=tmp_path / "out", progress=lambda _: None)
    pid = int((tmp_path / "pid").read_text())
    for _ in range(50):
        if not _runs(pid):
            break
        time.sleep(0.1)
    assert not _runs(pid)


def _runs(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def test_an_existing_recording_is_never_overwritten(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("mine")
    with pytest.raises(UsageError, match="exists and is not empty"):
        record(job("loop.py:stream"), out=tmp_path, progress=lambda _: None)
    assert [each.name for each in tmp_path.iterdir()] == ["kept"]


def test_a_file_in_the_place_of_the_directory(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("mine")
    with pytest.raises(UsageError, match="is a file"):
        prepare(tmp_path / "out")
    with pytest.raises(UsageError, match="cannot write"):
        prepare(tmp_path / "out" / "below")


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is unwritable for root")
def test_a_directory_that_cannot_be_written(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(UsageError, match="cannot write"):
        prepare(tmp_path / "out")


def test_an_empty_directory_is_used_and_kept(tmp_path: Path) -> None:
    assert prepare(tmp_path) is False
    assert prepare(tmp_path / "new" / "deep") is True


def test_default_directories_are_numbered(tmp_path: Path) -> None:
    assert new_directory(tmp_path, "generate").name == "generate-001"
    (tmp_path / "generate-007").mkdir()
    (tmp_path / "generate-x").mkdir()
    assert new_directory(tmp_path, "generate").name == "generate-008"
    assert new_directory(tmp_path, "Engine/stream").name == "Engine-stream-001"
    assert new_directory(tmp_path / "none", "generate").name == "generate-001"


@pytest.mark.skipif(torch_sees_a_gpu(), reason="the GPU that is asked for exists here")
def test_a_gpu_that_does_not_exist(tmp_path: Path) -> None:
    wrong = msgspec.structs.replace(job("loop.py:stream"), device="cuda:0")
    with pytest.raises(UsageError, match="there is no device `cuda:0` here"):
        record(wrong, out=tmp_path / "out", progress=lambda _: None)
    assert not (tmp_path / "out").exists()


def test_a_device_that_is_none(tmp_path: Path) -> None:
    wrong = msgspec.structs.replace(job("loop.py:stream"), device="tpu")
    with pytest.raises(UsageError, match="`tpu` is no device"):
        record(wrong, out=tmp_path / "out", progress=lambda _: None)


@pytest.mark.parametrize("wrong", ["", " ", "build()"])
def test_a_set_up_function_that_is_no_name(tmp_path: Path, wrong: str) -> None:
    asked = msgspec.structs.replace(job("loop.py:stream"), setup=wrong)
    with pytest.raises(UsageError, match="`--setup` names no function"):
        record(asked, out=tmp_path / "out", progress=lambda _: None)


class _Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


def _told(error: BaseException, tmp_path: Path) -> tuple[str, str, str]:
    """What, why and hint of an exception, after it was raised."""
    try:
        raise error
    except BaseException as raised:
        found = explain(raised, during="in call 1", places=Places(str(tmp_path)))
    return found.what, found.why, found.hint


def _raised_from(cause: Exception, *, handled: bool) -> Exception:
    try:
        try:
            raise cause
        except Exception as error:
            if handled:
                raise ValueError("no cache")  # noqa: B904
            raise ValueError("no cache") from error
    except ValueError as found:
        return found


@pytest.mark.parametrize(("handled", "how"), [(False, "caused by"), (True, "while handling")])
def test_an_exception_keeps_its_cause(tmp_path: Path, *, handled: bool, how: str) -> None:
    _, why, _ = _told(_raised_from(KeyError("layer.3"), handled=handled), tmp_path)
    lines = why.splitlines()
    at = lines.index(f"{how} KeyError: 'layer.3'")
    assert "ValueError: no cache" in lines[:at]
    assert lines[at + 1].endswith("raise cause")


def test_causes_in_a_circle_end(tmp_path: Path) -> None:
    one, two = ValueError("one"), ValueError("two")
    one.__cause__, two.__cause__ = two, one
    assert _told(one, tmp_path)[1].count("caused by") == 1


def test_a_group_shows_its_members(tmp_path: Path) -> None:
    group = ExceptionGroup("two", [ValueError("a"), ExceptionGroup("in", [KeyError("b")] * 7)])
    lines = _told(group, tmp_path)[1].splitlines()
    assert "- ValueError: a" in lines
    assert lines.count("- KeyError: 'b'") == 4
    assert "- and 3 more" in lines


def test_messages_that_break_or_run_on_are_told_in_short(tmp_path: Path) -> None:
    what, why, _ = _told(_Unspeakable(), tmp_path)
    assert what == "the target raised _Unspeakable in call 1"
    assert "<exception str() failed>" in why
    _, why, _ = _told(ValueError("x" * 100_000), tmp_path)
    assert len(why) < 2_000
    assert why.endswith("x…")


def test_the_machines_memory_is_told_from_other_errors(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError) as caught:
        torch.empty(10**15)
    what, _, hint = _told(caught.value, tmp_path)
    assert what == "the machine ran out of memory in call 1"
    assert "batch" in hint


@pytest.mark.skipif(torch_sees_a_gpu(), reason="there is a GPU")
def test_a_script_that_wants_a_gpu_is_sent_to_the_doctor(tmp_path: Path) -> None:
    with pytest.raises((AssertionError, RuntimeError)) as caught:
        torch.zeros(1).cuda()
    assert "`decodeprof doctor`" in _told(caught.value, tmp_path)[2]


def test_a_mark_that_was_called_wrongly_shows_the_users_line_alone(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="phase is") as caught:
        mark.step("both")
    _, why, _ = _told(caught.value, tmp_path)
    assert "mark.step(" in why
    assert "mark.py" not in why
