from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path

import pytest

import decodeprof
from decodeprof.cli import group
from decodeprof.cli.errors import run
from decodeprof.cli.pages import page_text
from decodeprof.diagnosis.pipeline import analyze_path
from decodeprof.report.html import MARK
from decodeprof.report.terminal import text
from decodeprof.report.view import view
from tests.report.html.pages import Structure
from tests.report.test_terminal import HOSTILE
from tests.scenarios import decode_loop, graph_loop
from tests.traces import folder as real_traces
from tests.traces import needs_traces
from tests.write_kineto import write

Capture = pytest.CaptureFixture[str]
FIXTURE = Path(__file__).parents[2] / "fixtures" / "stage_matvec"
PAGE = Path("decodeprof-runs/trace-001/report.html")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def trace(folder: Path) -> Path:
    place = folder / "theirs"
    place.mkdir()
    return write(place / "trace.json.gz", decode_loop().build())


@pytest.fixture
def recording(folder: Path) -> Path:
    if not FIXTURE.is_dir():
        pytest.skip("no recordings in this checkout")
    return Path(shutil.copytree(FIXTURE, folder / "mine"))


def test_the_page_of_a_trace_goes_into_a_folder_of_our_own(trace: Path, capsys: Capture) -> None:
    assert run(group, ["analyze", str(trace)]) == 0
    assert capsys.readouterr().err == f"page: {PAGE}\n"
    assert PAGE.read_text().startswith(MARK)
    assert list(trace.parent.iterdir()) == [trace]


def test_the_same_trace_has_one_page_and_another_has_its_own(trace: Path, folder: Path) -> None:
    for _ in range(2):
        assert run(group, ["analyze", str(trace)]) == 0
    before = PAGE.read_bytes()
    other = write(folder / "trace.json", graph_loop().build())
    assert run(group, ["analyze", str(other)]) == 0
    assert PAGE.read_bytes() == before
    pages = sorted(path.parent.name for path in folder.glob("decodeprof-runs/*/report.html"))
    assert pages == ["trace-001", "trace-002"]


def test_the_page_of_a_recording_lies_in_it_and_is_made_again(recording: Path) -> None:
    page = recording / "report.html"
    assert run(group, ["analyze", str(recording)]) == 0
    first = page.read_bytes()
    page.write_text(MARK + "an older page")
    assert run(group, ["analyze", str(recording / "recording.json")]) == 0
    assert page.read_bytes() == first


def test_what_is_no_page_is_replaced_with_force_only(recording: Path, capsys: Capture) -> None:
    page = recording / "report.html"
    page.write_text("my notes")
    assert run(group, ["analyze", str(recording)]) == 2
    captured = capsys.readouterr()
    assert captured.out  # the report in the terminal is there all the same
    assert captured.err == (
        f"error: `{page}` exists and is no page of decodeprof's\nhint: `--force` replaces it\n"
    )
    assert page.read_text() == "my notes"
    assert run(group, ["analyze", str(recording), "--force"]) == 0
    assert page.read_text().startswith(MARK)


def test_html_names_the_place_and_replaces_nothing_unasked(trace: Path, capsys: Capture) -> None:
    assert run(group, ["analyze", str(trace), "--html", "page.html"]) == 0
    assert capsys.readouterr().err == "page: page.html\n"
    assert not Path("decodeprof-runs").exists()
    Path("page.html").write_text("mine")
    assert run(group, ["analyze", str(trace), "--html", "page.html"]) == 2
    captured = capsys.readouterr()
    assert captured.err == "error: `page.html` exists\nhint: `--force` replaces it\n"
    assert captured.out == ""
    assert Path("page.html").read_text() == "mine"
    assert run(group, ["analyze", str(trace), "--html", "page.html", "--force"]) == 0
    assert Path("page.html").read_text().startswith(MARK)


@pytest.mark.parametrize("place", ["missing/page.html", "file/page.html"])
def test_a_place_that_cannot_be_written_is_an_error_after_the_report(
    place: str, trace: Path, capsys: Capture
) -> None:
    Path("file").write_text("a file")
    assert run(group, ["analyze", str(trace), "--html", place, "--width", "100"]) == 1
    captured = capsys.readouterr()
    assert captured.out == text(view(decodeprof.analyze(trace)), width=100)
    assert captured.err.startswith(f"error: cannot write `{place}`\n  ")
    assert captured.err.endswith(
        "hint: name another place with `--html PATH`, or write none with `--no-html`\n"
    )


def test_a_folder_in_the_pages_place_is_an_error(trace: Path, capsys: Capture) -> None:
    Path("page.html").mkdir()
    assert run(group, ["analyze", str(trace), "--html", "page.html", "--force"]) == 1
    assert capsys.readouterr().err.startswith("error: cannot write `page.html`\n")


def test_runs_that_is_a_file_is_an_error_after_the_report(trace: Path, capsys: Capture) -> None:
    Path("decodeprof-runs").write_text("a file")
    assert run(group, ["analyze", str(trace)]) == 1
    captured = capsys.readouterr()
    assert captured.out
    assert captured.err.startswith("error: cannot write below `decodeprof-runs`\n")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_recording_that_cannot_be_written_has_its_page_below_runs(recording: Path) -> None:
    recording.chmod(0o555)
    assert run(group, ["analyze", str(recording)]) == 0
    assert Path("decodeprof-runs/mine-001/report.html").is_file()


def test_no_page_is_written_where_none_is_wanted(trace: Path, folder: Path) -> None:
    for arguments in (["--no-html"], ["--json"]):
        assert run(group, ["analyze", str(trace), *arguments]) == 0
    assert sorted(path.name for path in folder.iterdir()) == ["theirs"]
    assert run(group, ["analyze", str(trace), "--json", "--html", "page.html"]) == 0
    assert Path("page.html").is_file()


def test_html_and_no_html_exclude_each_other(trace: Path, capsys: Capture) -> None:
    assert run(group, ["analyze", str(trace), "--html", "a.html", "--no-html"]) == 2
    assert capsys.readouterr().err.startswith("error: `--html` and `--no-html` exclude each other")


@pytest.mark.parametrize(
    "name",
    [*HOSTILE.values(), "</script><script>alert(1)</script>", "<!--<script>", "k" * 10_000 + "<b>"],
    ids=[*HOSTILE, "ends a script", "comment", "long with markup"],
)
def test_hostile_names_in_a_trace_change_no_page(name: str, folder: Path, capsys: Capture) -> None:
    def tags(kernel: str, file: str) -> list[str]:
        path = write(folder / file, decode_loop().build())
        trace = json.loads(path.read_text())
        for event in trace["traceEvents"]:
            if event.get("cat") == "kernel" or event["name"] == "thread_name":
                event["name"] = kernel if event.get("cat") else event["name"]
                event["args"]["name"] = kernel
        trace["deviceProperties"][0]["name"] = kernel
        path.write_text(json.dumps(trace))
        assert run(group, ["analyze", str(path), "--html", f"{file}.html"]) == 0
        page = Path(f"{file}.html").read_text()
        assert len(page) < 1_000_000
        assert not any(c in page for c in "\x1b\x07\x00\r\u202e\u2066\u200f\u2028")
        return [tag for tag in Structure(page).tags if tag not in {"code", "text", "title"}]

    # JSON forbids half a surrogate pair: such a text is mended, which the caveats say.
    plain = "plain \udcff" if name == HOSTILE["surrogate"] else "plain"
    assert tags(name, "hostile.json") == tags(plain, "plain.json")
    told = capsys.readouterr().out
    assert not any(c in told for c in "\x1b\x07\x00\r\u202e\u2066\u200f\u2028")
    assert max(len(line) for line in told.splitlines()) <= 120


@pytest.mark.parametrize(
    ("content", "error"),
    [
        ("", "is empty"),
        ('{"traceEvents": []}', "holds no events of torch.profiler"),
        ('{"traceEvents": null}', "no torch.profiler trace"),
        ("[]", "holds no events of torch.profiler"),
    ],
    ids=["nothing", "no events", "null", "an empty list"],
)
def test_an_empty_trace_has_no_page_and_a_clear_error(
    content: str, error: str, folder: Path, capsys: Capture
) -> None:
    Path("empty.json").write_text(content)
    assert run(group, ["analyze", "empty.json"]) in {1, 2}
    captured = capsys.readouterr()
    assert captured.err.startswith("error: ")
    assert error in captured.err
    assert "Traceback" not in captured.err
    assert sorted(path.name for path in folder.iterdir()) == ["empty.json"]


def test_the_page_of_a_recording_without_its_trace_says_what_is_unknown(recording: Path) -> None:
    (recording / "trace.json.gz").unlink()
    assert run(group, ["analyze", str(recording)]) == 0
    page = (recording / "report.html").read_text()
    assert "unknown: no device activity was captured" in Structure(page).text
    assert "<script" not in page


@pytest.mark.traces
@needs_traces
def test_a_large_traces_page_is_made_in_two_seconds() -> None:
    traces = real_traces()
    assert traces is not None
    analyzed = analyze_path(traces / "h200" / "qwen3_0p6b_naive.json.gz")
    began = time.process_time()
    page = page_text(analyzed)
    assert time.process_time() - began < 2
    assert len(page) < 1_000_000
