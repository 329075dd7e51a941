"""`decodeprof check`, through the command line: exit codes, formats, settings and baselines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import decodeprof
from decodeprof.cli import group
from decodeprof.cli.errors import run
from tests.build import TraceBuilder
from tests.diagnosis.cases import US, busy, look_up, loop, read
from tests.scenarios import graph_loop
from tests.write_kineto import write

Capture = pytest.CaptureFixture[str]


def steps(*, reads: int) -> TraceBuilder:
    def body(b: TraceBuilder, index: int) -> None:
        del index
        look_up(b)
        busy(b, kernels=6)
        for _ in range(reads):
            read(b)

    return loop(body)


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("traces") / "trace.json.gz", steps(reads=1).build())


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder without a pyproject.toml above it that sets limits."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_trace_is_what_these_tests_say_of_it(trace: Path) -> None:
    step = decodeprof.analyze(trace).step
    assert step is not None
    assert (step.syncs, step.launches, step.kernels) == (1, 7, 7)


@pytest.mark.parametrize(
    ("limits", "code"),
    [
        (["--max-syncs", "1", "--max-launches", "7", "--max-kernels", "7"], 0),
        (["--max-syncs", "0"], 3),
        (["--max-launches-per-step", "6.9"], 3),
        (["--max-kernels", "6"], 3),
        (["--min-mbu", "0.5"], 4),
        (["--min-mbu", "0.5", "--max-kernels", "6"], 3),
        (["--max-syncs", "-1"], 2),
        (["--max-syncs", "nan"], 2),
        (["--min-mbu", "1.1"], 2),
        ([], 2),
        (["--no-new-syncs"], 2),
        (["--max-syncs", "1", "--json", "--format", "github"], 2),
    ],
)
def test_exit_codes(limits: list[str], code: int, trace: Path, capsys: Capture) -> None:
    assert run(group, ["check", str(trace), *limits]) == code
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    assert bool(captured.out) == (code in (0, 3, 4))


def test_a_missing_file_is_asked_wrongly(capsys: Capture) -> None:
    assert run(group, ["check", "nothing.json", "--max-syncs", "1"]) == 2
    assert capsys.readouterr().err.startswith("error: there is no file `nothing.json`\n")


def test_json_holds_every_answer(trace: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    limits = ["--max-syncs", "0", "--min-mbu", "0.5", "--json"]
    assert run(group, ["check", str(trace), *limits]) == 3
    found = json.loads(capsysbinary.readouterr().out)
    assert found["answer"] == "failed"
    assert [(each["name"], each["answer"]) for each in found["results"]] == [
        ("max-syncs", "failed"),
        ("min-mbu", "unknown"),
    ]
    assert found["results"][1]["found"] is None


def test_a_baseline_is_written_and_holds(trace: Path, folder: Path, capsys: Capture) -> None:
    assert run(group, ["check", str(trace), "--write-baseline", "syncs.json"]) == 0
    captured = capsys.readouterr()
    assert captured.err == "wrote 1 blocking call site to syncs.json\n"
    assert captured.out == ""
    assert run(group, ["check", str(trace), "--no-new-syncs", "--baseline", "syncs.json"]) == 0
    # Written again, it is the same file.
    before = (folder / "syncs.json").read_bytes()
    assert run(group, ["check", str(trace), "--write-baseline", "syncs.json"]) == 0
    assert (folder / "syncs.json").read_bytes() == before


def test_one_more_read_is_a_new_sync(trace: Path, folder: Path, capsys: Capture) -> None:
    more = write(folder / "more.json", steps(reads=2).build())
    assert run(group, ["check", str(trace), "--write-baseline", "syncs.json"]) == 0
    (folder / "engine.py").write_text("\n" * 11 + "token = int(last)\n")
    arguments = ["check", str(more), "--baseline", "syncs.json", "--max-syncs", "1"]
    assert run(group, [*arguments, "--format", "github"]) == 3
    out = capsys.readouterr().out
    assert "::error title=decodeprof::max-syncs failed: 2 blocking calls a step" in out
    assert "::error file=engine.py,line=12,title=decodeprof::blocking call (2 calls a" in out


def test_a_file_that_is_no_baseline_is_not_written_over(
    trace: Path, folder: Path, capsys: Capture
) -> None:
    (folder / "mine.py").write_text("x = 1\n")
    assert run(group, ["check", str(trace), "--write-baseline", "mine.py"]) == 2
    assert (folder / "mine.py").read_text() == "x = 1\n"
    assert "`mine.py` exists and is no baseline" in capsys.readouterr().err


def test_no_baseline_is_written_of_what_is_not_known(folder: Path, capsys: Capture) -> None:
    b = TraceBuilder()
    for index in range(5):
        b.unlinked("void kernel()", start_ns=index * 20 * US, ns=10 * US)
    path = write(folder / "kernels.json", b.build())
    assert run(group, ["check", str(path), "--write-baseline", "syncs.json"]) == 4
    assert not (folder / "syncs.json").exists()
    assert "no baseline was written" in capsys.readouterr().err


def test_limits_of_the_project(trace: Path, folder: Path, capsys: Capture) -> None:
    below = folder / "src" / "engine"
    below.mkdir(parents=True)
    (folder / "pyproject.toml").write_text("[tool.decodeprof.check]\nmax-syncs = 0\n")
    (folder / "src" / "pyproject.toml").write_text("[project]\nname = 'other'\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(below)
        assert run(group, ["check", str(trace)]) == 3
        assert run(group, ["check", str(trace), "--max-syncs", "1"]) == 0
    assert "max-syncs" in capsys.readouterr().out


def test_a_baseline_of_the_project_lies_beside_it(trace: Path, folder: Path) -> None:
    (folder / "pyproject.toml").write_text(
        '[tool.decodeprof.check]\nbaseline = "syncs.json"\nno-new-syncs = true\n'
    )
    assert run(group, ["check", str(trace)]) == 2
    assert run(group, ["check", str(trace), "--write-baseline", "syncs.json"]) == 0
    (folder / "below").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder / "below")
        assert run(group, ["check", str(trace)]) == 0
    more = write(folder / "more.json", steps(reads=2).build())
    assert run(group, ["check", str(more)]) == 0  # the line is known; its frame is recorded
    other = write(folder / "other.json", graph_loop().build())
    assert run(group, ["check", str(other)]) == 0


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("max-sync = 1", "did you mean `max-syncs`?"),
        ("max_syncs = 1", "did you mean `max-syncs`?"),
        ("max-syncs = 'one'", "Expected `float"),
        ("max-syncs = -1", "Expected `float` >= 0"),
        ("= 1", "is no TOML"),
    ],
)
def test_wrong_settings_are_named(
    table: str, said: str, trace: Path, folder: Path, capsys: Capture
) -> None:
    (folder / "pyproject.toml").write_text(f"[tool.decodeprof.check]\n{table}\n")
    assert run(group, ["check", str(trace)]) in (1, 2)
    assert said in capsys.readouterr().err


def test_the_shipped_recording_fails_and_says_where(capsys: Capture) -> None:
    path = Path(decodeprof.__file__).parents[1] / "fixtures" / "plain_0p6b"
    if not path.is_dir():
        pytest.skip("no recordings in this checkout")
    assert run(group, ["check", str(path), "--max-syncs", "1", "--width", "80"]) == 3
    out = capsys.readouterr().out
    assert "decodeprof/reference/plain.py:45 in generate" in out
    assert "token = int(logits[0, -1].argmax())" in out
