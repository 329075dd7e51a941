"""`decodeprof.diagnose` in a notebook's process."""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import decodeprof
from decodeprof.api.result import Result
from decodeprof.errors import UsageError
from decodeprof.report.as_json import diagnosis_json
from tests.readme import README


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Result:
    model = nn.Sequential(nn.Embedding(64, 16), nn.Linear(16, 64))

    @torch.no_grad()
    def generate(max_new_tokens: int) -> list[int]:
        tokens = [7]
        for _ in range(max_new_tokens):
            tokens.append(int(model(torch.tensor([tokens[-1]])).argmax()))
        return tokens[1:]

    out = tmp_path_factory.mktemp("runs") / "run"
    return decodeprof.diagnose(generate, out=out, budget_s=0.1, max_new_tokens=12)


def test_it_is_the_diagnosis_of_its_recording(result: Result) -> None:
    assert result.recording is not None
    assert diagnosis_json(decodeprof.analyze(result.recording)) == diagnosis_json(result)
    assert (result.recording / "diagnosis.json").read_bytes() == diagnosis_json(result)
    assert result.steps.method == "forwards"
    assert result.step is not None
    assert result.step.unprofiled_ns is not None
    assert result.about.target == "test_diagnose.py:result.generate"


def test_a_notebook_shows_the_page_in_a_frame_of_its_own(result: Result) -> None:
    assert result.recording is not None
    shown = result._repr_html_()
    found = re.fullmatch(r'<iframe srcdoc="([^"]*)" sandbox="allow-scripts" [^>]*></iframe>', shown)
    assert found
    assert html.unescape(found[1]) == (result.recording / "report.html").read_text()


def test_each_pass_is_a_line_on_stderr_and_runs_are_numbered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    linear = nn.Linear(4, 4)

    def tokens() -> list[int]:
        return [int(linear(torch.ones(1, 1, 4)).argmax()) for _ in range(8)]

    for number in (1, 2):
        found = decodeprof.diagnose(tokens, budget_s=0.05)
        assert found.recording == Path(f"decodeprof-runs/tokens-00{number}")
    captured = capsys.readouterr()
    assert captured.out == ""
    lines = captured.err.splitlines()
    assert lines[:2] == ["decodeprof: warmup", "decodeprof: timing"]
    assert lines[: len(lines) // 2] == lines[len(lines) // 2 :]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"new_tokens": 0}, "`new_tokens` is a number of tokens from 1, not 0"),
        ({"new_tokens": "8"}, "`new_tokens` is a number of tokens from 1, not '8'"),
        ({"new_tokens": True}, "`new_tokens` is a number of tokens from 1, not True"),
        ({"budget_s": 0}, "`budget_s` is a number of seconds above 0, not 0"),
        ({"budget_s": -1.0}, "`budget_s` is a number of seconds above 0, not -1.0"),
        ({"budget_s": float("nan")}, "`budget_s` is a number of seconds above 0, not nan"),
        ({"budget_s": float("inf")}, "`budget_s` is a number of seconds above 0, not inf"),
        ({"budget_s": "3"}, "`budget_s` is a number of seconds above 0, not '3'"),
    ],
)
def test_options_that_mean_nothing_are_refused_before_anything_runs(
    options: dict[str, Any], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    def generate() -> None:
        raise AssertionError("it ran")

    with pytest.raises(UsageError) as raised:
        decodeprof.diagnose(generate, **options)
    assert raised.value.what == said
    assert list(tmp_path.iterdir()) == []


def test_the_readmes_notebook_cell_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    readme = README.read_text()
    script = re.search(r"<!-- file: my_script.py -->\n```python\n(.*?)```", readme, re.S)
    cell = re.search(r"```python\n(decodeprof\.diagnose\(.*?)```", readme, re.S)
    assert script
    assert cell
    names: dict[str, Any] = {"decodeprof": decodeprof}
    exec(script[1], names)
    result = eval(cell[1], names)
    assert isinstance(result, Result)
    assert result.recording == Path("decodeprof-runs/generate-001")
    assert result._repr_html_().startswith("<iframe")
    assert "decodeprof: timing" in capsys.readouterr().err
