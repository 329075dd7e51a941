from __future__ import annotations

import os
import pty
import subprocess
import sys
from dataclasses import dataclass

import pytest

from decodeprof.cli.progress import _lines, shown_progress


@dataclass(frozen=True)
class Stage:
    pass_name: str
    text: str
    fraction: float | None = None


def test_a_log_gets_each_pass_and_little_more(capsys: pytest.CaptureFixture[str]) -> None:
    clock = iter([0.0, 0.0, 1.0, 4.9, 5.1, 5.1, 5.2])
    show = _lines(lambda: next(clock))
    show(Stage("timing", "run 1"))
    show(Stage("timing", "run 2", 0.5))
    show(Stage("timing", "run 3", 0.7))
    show(Stage("timing", "run 4", 0.9))
    show(Stage("profile", ""))
    captured = capsys.readouterr()
    assert captured.err == "timing: run 1\ntiming: run 4\nprofile\n"
    assert captured.out == ""


def test_without_a_terminal_lines_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    with shown_progress() as show:
        show(Stage("load", "importing torch"))
    assert capsys.readouterr().err == "load: importing torch\n"


def test_a_terminal_gets_a_live_display_that_markup_cannot_break() -> None:
    program = (
        "from dataclasses import dataclass\n"
        "from decodeprof.cli.progress import shown_progress\n"
        "from tests.cli.test_progress import Stage\n"
        "with shown_progress() as show:\n"
        "    show(Stage('timing', 'run [red]1[/nope]', 0.25))\n"
        "    show(Stage('profile', 'steps'))\n"
        "    show(Stage('profile', 'steps', 1.0))\n"
    )
    parent, child = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    done = subprocess.run(
        [sys.executable, "-c", program], stderr=child, stdout=subprocess.PIPE, env=environment
    )
    os.close(child)
    shown = os.read(parent, 100_000)
    os.close(parent)
    assert done.returncode == 0, shown.decode()
    assert done.stdout == b""
    assert b"run [red]1[/nope]" in shown
    assert b"profile" in shown
