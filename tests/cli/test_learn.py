"""The page of `learn` is written, and nothing else is written over."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from decodeprof.cli import group
from decodeprof.cli.errors import run
from decodeprof.teach.page import MARK


def test_the_page_is_written_and_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(group, ["learn"]) == 0
    first = (tmp_path / "decodeprof-learn.html").read_bytes()
    assert run(group, ["learn"]) == 0
    assert (tmp_path / "decodeprof-learn.html").read_bytes() == first
    assert first.startswith(MARK.encode())
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "page: decodeprof-learn.html" in captured.err


def test_another_file_is_kept_unless_forced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mine.html"
    path.write_text("mine")
    assert run(group, ["learn", "--out", str(path)]) == 2
    assert path.read_text() == "mine"
    assert "--force" in capsys.readouterr().err
    assert run(group, ["learn", "--out", str(path), "--force"]) == 0
    assert path.read_text().startswith(MARK)


def test_what_is_no_file_is_neither_read_nor_replaced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert run(group, ["learn", "--out", str(pipe)]) == 1
    assert "it is no ordinary file" in capsys.readouterr().err
    assert pipe.is_fifo()
    assert run(group, ["learn", "--out", str(tmp_path)]) == 1
    assert "cannot write" in capsys.readouterr().err
    assert run(group, ["learn", "--out", ""]) == 2
    assert "it is empty" in capsys.readouterr().err


def test_a_folder_that_is_not_there_is_no_traceback(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(group, ["learn", "--out", str(tmp_path / "no" / "page.html")]) == 1
    assert "error: " in capsys.readouterr().err
