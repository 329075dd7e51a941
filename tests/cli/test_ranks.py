from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from decodeprof.cli import group
from decodeprof.cli.errors import run
from decodeprof.cli.ranks import traces_of
from decodeprof.model.ranks import RankReport
from decodeprof.report.html import MARK
from decodeprof.report.ranks import ranks_view
from decodeprof.report.terminal import text
from tests import traces
from tests.ranks import write_ranks
from tests.scenarios import US

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    made = tmp_path / "ranks"
    made.mkdir()
    write_ranks(made, [0, 50 * US])
    return made


def test_a_folder_is_all_of_its_ranks(folder: Path, capsys: Capture) -> None:
    assert run(group, ["analyze", str(folder), "--json"]) == 0
    one = capsys.readouterr().out
    names = [str(folder / "rank0.json.gz"), str(folder / "rank1.json.gz")]
    assert run(group, ["analyze", *names, "--json"]) == 0
    assert capsys.readouterr().out == one
    report = msgspec.json.decode(one, type=RankReport)
    assert report.slowest == 1
    assert run(group, ["analyze", str(folder), "--width", "100"]) == 0
    captured = capsys.readouterr()
    assert captured.out == text(ranks_view(report), width=100)
    assert "Rank 1 holds the others up" in captured.out
    assert captured.err.endswith("page: decodeprof-runs/ranks-ranks-001/report.html\n")


def test_the_page_of_all_ranks_goes_where_it_is_wanted(folder: Path, capsys: Capture) -> None:
    assert run(group, ["analyze", str(folder), "--html", "all.html"]) == 0
    assert capsys.readouterr().err.endswith("page: all.html\n")
    page = Path("all.html").read_text()
    assert page.startswith(MARK)
    assert not Path("decodeprof-runs").exists()
    assert run(group, ["analyze", str(folder)]) == 0
    assert Path("decodeprof-runs/ranks-ranks-001/report.html").read_text() == page
    # The same traces have the same page; other ones have their own.
    assert run(group, ["analyze", str(folder)]) == 0
    assert len(list(Path("decodeprof-runs").iterdir())) == 1
    for none in ("--json", "--no-html"):
        Path("all.html").unlink(missing_ok=True)
        assert run(group, ["analyze", str(folder), none]) == 0
        assert len(list(Path("decodeprof-runs").iterdir())) == 1
    assert run(group, ["analyze", str(folder), "--json", "--html", "all.html"]) == 0
    assert Path("all.html").read_text() == page


def test_the_page_replaces_nothing_unasked_and_never_a_trace(folder: Path, capsys: Capture) -> None:
    Path("all.html").write_text("mine")
    assert run(group, ["analyze", str(folder), "--html", "all.html"]) == 2
    assert capsys.readouterr().err == "error: `all.html` exists\nhint: `--force` replaces it\n"
    assert Path("all.html").read_text() == "mine"
    trace = folder / "rank1.json.gz"
    before = trace.read_bytes()
    assert run(group, ["analyze", str(folder), "--html", str(trace), "--force"]) == 2
    assert "is what is read" in capsys.readouterr().err
    assert trace.read_bytes() == before
    assert run(group, ["analyze", str(folder), "--html", "all.html", "--force"]) == 0
    assert Path("all.html").read_text().startswith(MARK)


def test_a_bad_file_is_named_and_the_exit_code_tells(folder: Path, capsys: Capture) -> None:
    (folder / "rank2.json").write_text("[]")
    assert run(group, ["analyze", str(folder)]) == 1
    captured = capsys.readouterr()
    assert "rank2.json" in captured.out
    assert "Rank 1 holds the others up" in captured.out
    assert f"not analysed: {folder / 'rank2.json'}" in captured.err
    assert "Traceback" not in captured.err


def test_json_of_something_else_in_a_folder_is_left_out_and_named(
    folder: Path, capsys: Capture
) -> None:
    assert run(group, ["analyze", str(folder), "--json"]) == 0
    before = capsys.readouterr().out
    (folder / "config.json").write_text('{"model": "Qwen3", "layers": [1, 2]}')
    (folder / "vocab.json").write_text('["<pad>", "a"]')
    assert run(group, ["analyze", str(folder), "--json"]) == 0
    captured = capsys.readouterr()
    assert captured.out == before
    assert captured.err.startswith("left out, since it is no trace: config.json, vocab.json\n")
    # Named on the command line, it is what was asked for, and cannot be read.
    names = [str(folder / name) for name in ("rank0.json.gz", "rank1.json.gz", "config.json")]
    assert run(group, ["analyze", *names, "--json"]) == 1
    assert "not analysed: " in capsys.readouterr().err
    (folder / "rank1.json.gz").unlink()
    assert run(group, ["analyze", str(folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["source"]["name"] == "rank0.json.gz"


def test_a_folder_of_json_of_something_else_alone_is_an_error(
    tmp_path: Path, capsys: Capture
) -> None:
    (tmp_path / "config.json").write_text("{}")
    assert run(group, ["analyze", str(tmp_path)]) == 1
    assert capsys.readouterr().err.startswith(
        f"error: `{tmp_path}` holds no trace\n  config.json: JSON of something else\nhint: "
    )


def test_a_folder_with_one_trace_is_that_trace(folder: Path, capsys: Capture) -> None:
    (folder / "rank1.json.gz").unlink()
    assert run(group, ["analyze", str(folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["source"]["name"] == "rank0.json.gz"


def test_ten_comes_after_two(tmp_path: Path) -> None:
    names = ["rank10.json", "rank2.json", "2.json", "a.json.gz", ".hidden.json", "notes.txt"]
    for name in names:
        (tmp_path / name).touch()
    found = [path.name for path in traces_of([tmp_path])]
    assert found == ["2.json", "a.json.gz", "rank2.json", "rank10.json"]


def test_a_recording_stays_one_recording() -> None:
    recording = Path(__file__).parents[2] / "fixtures" / "plain_0p6b"
    assert traces_of([recording]) == [recording]


def test_a_rank_named_twice_is_refused(folder: Path, capsys: Capture) -> None:
    path = str(folder / "rank0.json.gz")
    assert run(group, ["analyze", path, path]) == 2
    assert "is named twice" in capsys.readouterr().err


def test_a_link_to_itself_is_told(folder: Path, capsys: Capture) -> None:
    loop = folder / "loop.json"
    loop.symlink_to(loop)
    assert run(group, ["analyze", str(loop)]) == 2
    assert "Too many levels of symbolic links" in capsys.readouterr().err
    assert run(group, ["analyze", str(folder), "--json"]) == 1
    assert len(json.loads(capsys.readouterr().out)["ranks"]) == 2


@pytest.mark.parametrize("option", [["--process", "1"], ["--perfetto"]])
def test_what_is_of_one_trace_is_refused(option: list[str], folder: Path, capsys: Capture) -> None:
    assert run(group, ["analyze", str(folder), *option]) == 2
    assert f"`{option[0]}` takes one trace" in capsys.readouterr().err


def test_an_empty_folder_is_an_error(tmp_path: Path, capsys: Capture) -> None:
    assert run(group, ["analyze", str(tmp_path)]) == 1
    told = capsys.readouterr().err
    assert "is no recording" in told
    assert "it holds no recording.json and no trace" in told


@pytest.mark.traces
@traces.needs_traces
def test_real_traces_of_one_gpu_are_not_paired(capsys: Capture) -> None:
    real = traces.folder()
    assert real is not None
    names = [str(real / "h200" / f"hf_gpt2_{kind}.json.gz") for kind in ("dyn", "static")]
    assert run(group, ["analyze", *names, "--json"]) == 0
    report = msgspec.json.decode(capsys.readouterr().out, type=RankReport)
    assert [rank.waiting_ns for rank in report.ranks] == [0, 0]
    assert "no rank ran a collective" in report.sentence
    assert [rank.rank_from for rank in report.ranks] == ["order", "order"]
    assert {d.quantity for d in report.differences or ()} >= {"launches", "kernels"}
