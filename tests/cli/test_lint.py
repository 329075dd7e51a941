"""`decodeprof lint` in a child process: reports, JSON, and targets that misbehave."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from decodeprof.errors import EXIT_INTERRUPTED
from decodeprof.model.lint import LintReport

pytest.importorskip("torch")
LOOPS = Path(__file__).parents[1] / "lint" / "targets" / "loops.py"


def lint(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "decodeprof", "lint", *arguments],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_the_report_names_lines_and_says_that_it_predicts() -> None:
    done = lint(f"{LOOPS}:branching", "--width", "100")
    assert done.returncode == 0, done.stderr
    told = " ".join(done.stdout.split())
    assert "Predicted, without a GPU: 1 wait for the device per decode step" in told
    assert "made.append(int(token))" in told
    assert "capture fails" in told
    assert "replays wrongly" in told
    assert "What this prediction cannot see" in told
    assert "CUDA extensions and Triton kernels" in told


def test_a_script_that_names_no_device_can_be_put_on_one() -> None:
    script = str(LOOPS.with_name("on_the_host.py"))
    done = lint(f"{script}:on_the_host", "--on-cuda", "--json", "--arg", "steps=5")
    assert done.returncode == 0, done.stderr
    report = msgspec.json.decode(done.stdout, type=LintReport)
    assert report.predicted
    assert report.on_device
    assert report.decode_steps == 3
    assert [sync.place.code for sync in report.syncs if sync.per_step] == ["made.append(int(ids))"]
    assert report.hazards is not None
    assert report.cannot_see


@pytest.mark.parametrize(
    ("name", "options", "code", "words"),
    [
        ("needs_extension", (), 1, ("needs a real GPU", "flash_attn", "decodeprof diagnose")),
        (
            "needs_registered",
            (),
            1,
            ("needs a compiled extension", "some_engine", "fused_norm", "decodeprof diagnose"),
        ),
        ("fails_to_say_why", (), 1, ("raised Speechless in call 1", "loops.py")),
        # A busy machine may not even have loaded torch by then.
        ("hangs", ("--timeout", "8"), 1, ("did not finish within 8 s", "--timeout")),
        ("clean", ("--arg", "stops=3"), 2, ("no parameter `stops`", "steps")),
    ],
)
def test_a_target_that_misbehaves_ends_in_a_message(
    name: str, options: tuple[str, ...], code: int, words: tuple[str, ...]
) -> None:
    done = lint(f"{LOOPS}:{name}", *options)
    assert done.returncode == code, done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    for word in words:
        assert word in done.stderr


def test_what_was_predicted_before_an_error_is_told() -> None:
    done = lint(f"{LOOPS}:fails", "--width", "100")
    assert done.returncode == 1
    assert "error: the target raised ValueError in call 1" in done.stderr
    assert "half-way" in done.stderr
    told = " ".join(done.stdout.split())
    assert "until the run ended early: 8 waits for the device in the call" in told
    assert "the target raised ValueError in call 1: what would have come after" in told
    assert "no decode step was seen whole" in told
    assert "made.append(int(token))" in told


def test_what_was_predicted_before_a_hang_is_told() -> None:
    arguments = ("--arg", "at=6", "--arg", "hang=true", "--timeout", "15", "--json")
    done = lint(f"{LOOPS}:ends_early", *arguments)
    assert done.returncode == 1, done.stderr
    assert "error: the target did not finish within 15 s" in done.stderr
    report = msgspec.json.decode(done.stdout, type=LintReport)
    assert report.stopped == "the target did not finish within 15 s"
    assert report.decode_steps == 5
    assert [sync.place.code for sync in report.syncs if sync.per_step] == [
        "made.append(int(token))"
    ]
    assert report.hazards is not None
    assert {hazard.kind for hazard in report.hazards} == {"sync", "scalar"}


def test_an_end_between_the_two_steps_to_compare_leaves_hazards_unknown() -> None:
    done = lint(f"{LOOPS}:ends_early", "--arg", "at=4", "--json")
    assert done.returncode == 1
    report = msgspec.json.decode(done.stdout, type=LintReport)
    assert report.decode_steps == 3
    assert report.hazards is None
    assert "before two consecutive decode steps could be compared" in report.why_no_hazards


def test_ctrl_c_ends_in_a_message_and_its_exit_code() -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "decodeprof", "lint", f"{LOOPS}:hangs"],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A shell that started the tests in the background has it ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "first call" in line:
                break
        time.sleep(1)  # The call has begun by then, on any machine that is not at a standstill.
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == EXIT_INTERRUPTED
    assert out == ""
    assert "stopped by Ctrl-C in call 1" in err
    assert "Traceback" not in err
