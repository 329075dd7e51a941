from __future__ import annotations

import inspect
import json
import re

import pytest

from decodeprof.cli import group
from decodeprof.cli.errors import run
from decodeprof.diagnosis.judging import all_rules

Capture = pytest.CaptureFixture[str]
CODES = [str(rule.CODE) for rule in all_rules()]


def test_without_a_code_all_rules_are_listed(capsys: Capture) -> None:
    assert run(group, ["explain", "--width", "100"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines if line.split()[:1] and line.split()[0] in CODES] == (
        CODES
    )
    assert lines[-1].strip() == "one in full: decodeprof explain CODE"


def test_no_rules_title_is_cut(capsys: Capture) -> None:
    assert run(group, ["explain", "--width", "64"]) == 0
    out = capsys.readouterr().out
    assert "…" not in out
    assert "a matrix kernel far below the device's bandwidth and arithmetic rate" in " ".join(
        out.split()
    )


@pytest.mark.parametrize("code", CODES)
def test_a_page_holds_all_that_the_docstring_says(code: str, capsys: Capture) -> None:
    assert run(group, ["explain", code, "--width", "72"]) == 0
    out = capsys.readouterr().out
    rule = next(rule for rule in all_rules() if code == rule.CODE)
    # A heading loses its colon; nothing else is lost, added or reordered.
    wanted = re.sub(r"^([A-Z][a-z ]+):$", r"\1", inspect.cleandoc(rule.__doc__ or ""), flags=re.M)
    assert out.split() == [code, *wanted.split()]
    assert max(map(len, out.splitlines())) <= 72


@pytest.mark.parametrize("wrong", ["graph-mising", "graph_missing", "GRAPH-MISING"])
def test_a_wrong_code_is_answered_with_the_nearest(wrong: str, capsys: Capture) -> None:
    assert run(group, ["explain", wrong]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == (
        f"error: no rule is called `{wrong}`\nhint: did you mean `graph-missing`?\n"
    )


def test_a_code_like_no_other_is_answered_with_the_list(capsys: Capture) -> None:
    assert run(group, ["explain", "zzz"]) == 2
    assert capsys.readouterr().err == (
        "error: no rule is called `zzz`\nhint: `decodeprof explain` lists them\n"
    )


def test_pages_are_data_too(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    assert run(group, ["explain", "--json"]) == 0
    pages = json.loads(capsysbinary.readouterr().out)
    assert [page["code"] for page in pages] == CODES
    assert all(page["title"] and "What to do:" in page["page"] for page in pages)
