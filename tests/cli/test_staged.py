"""The stages' table: as recorded, and from what a child process says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

import decodeprof
from decodeprof.cli import demo, group, staged
from decodeprof.cli.errors import run
from decodeprof.errors import DecodeprofError
from decodeprof.recording import read_recording
from decodeprof.reference.lessons import LESSONS
from decodeprof.report.stages import StageTable, stages_view
from decodeprof.report.terminal import text
from tests.golden import check_golden
from tests.worked_example import recorded_stages

REPORT = Path(__file__).parents[2] / "reports/worked_example.txt"
Capture = pytest.CaptureFixture[str]

needs_recordings = pytest.mark.skipif(
    not (demo.FIXTURES / staged.TABLE).is_file(), reason="no recordings in this checkout"
)


@needs_recordings
def test_the_recorded_stages_are_the_committed_report(capsys: Capture) -> None:
    assert run(group, ["demo", "--stages", "--recorded", "--width", "100"]) == 0
    captured = capsys.readouterr()
    check_golden(REPORT, captured.out.encode())
    assert captured.err == ""


@needs_recordings
def test_no_stage_is_cut_at_80_columns() -> None:
    for told in text(stages_view(recorded_stages()), width=80).splitlines():
        assert len(told) <= 80
        assert not told.endswith("…")
    shown = text(stages_view(recorded_stages()), width=80)
    for name in LESSONS:
        assert f"\n  {name} " in shown


@needs_recordings
def test_every_figure_comes_from_the_recordings() -> None:
    table = recorded_stages()
    assert [row.name for row in table.rows] == list(LESSONS)
    for row in table.rows:
        name = "plain_0p6b" if row.name == "plain" else f"stage_{row.name}"
        diagnosis = decodeprof.analyze(demo.FIXTURES / name)
        assert diagnosis.step is not None
        assert diagnosis.step.unprofiled_ns is not None
        assert row.step_ns == diagnosis.step.unprofiled_ns.median
        assert row.kernels == diagnosis.step.kernels
        assert row.launches == diagnosis.step.launches
        assert row.graph_launches == diagnosis.step.graph_launches
        assert row.lesson == LESSONS[row.name]
        if diagnosis.findings:
            assert row.finding == diagnosis.findings[0].summary
        else:
            assert row.finding is None
            assert "clear" in row.why_no_finding
        ceilings = read_recording(demo.FIXTURES / name).ceilings
        assert ceilings is not None
        assert ceilings.read_bytes_per_s is not None
        seconds = row.step_ns / 1e9
        assert row.mbu_share == pytest.approx(1_192_099_840 / seconds / ceilings.read_bytes_per_s)


def test_as_json_it_is_the_same_table(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    table = measured(child(ABOUT, COUNTED))
    monkeypatch.setattr(staged, "recorded_stages", lambda _fixtures: table)
    assert run(group, ["demo", "--stages", "--recorded", "--json"]) == 0
    assert msgspec.json.decode(capsys.readouterr().out, type=StageTable) == table


@needs_recordings
def test_the_run_of_all_stages_counted_what_the_recordings_hold() -> None:
    together = json.loads((demo.FIXTURES / staged.TABLE).read_bytes())["stages"]
    recorded = {row.name: row for row in recorded_stages().rows}
    assert set(recorded) == {stage["name"] for stage in together}
    for stage in together:
        row = recorded[stage["name"]]
        # A run counts by differences: what is done once in a call is in it or not.
        assert row.kernels == pytest.approx(stage["kernels"], abs=1)
        assert row.launches == stage["launches"]
        assert row.graph_launches == stage["graph_launches"]


def test_without_a_checkout_it_says_where_they_lie(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setattr(demo, "FIXTURES", tmp_path)
    assert run(group, ["demo", "--stages", "--recorded"]) == 1
    assert capsys.readouterr().err == (
        "error: there are no recorded stages to show here\n"
        "  an installed wheel holds none; they lie in `fixtures` of the source checkout\n"
        "hint: run `decodeprof demo --stages` in a checkout, or on a machine with a GPU\n"
    )


def test_a_directory_for_the_recording_is_refused(capsys: Capture) -> None:
    assert run(group, ["demo", "--stages", "--out", "here"]) == 2
    assert "`--out` does not go with `--stages`" in capsys.readouterr().err


def child(*lines: Any, then: str = "") -> tuple[str, ...]:
    """A child that says these lines, and then does what it is told."""
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    program = f"import os, sys, time\nfor line in {texts!r}: print(line, flush=True)\n{then}"
    return (sys.executable, "-c", program)


ABOUT = {"device": "NVIDIA H200", "torch": "2.11.0"}
TIMED = {
    "name": "plain",
    "step_ns": 2_000_000,
    "mbu_share": 0.25,
    "same_tokens": 32,
    "compared_tokens": 32,
    "kernels": None,
    "rows": [],
}
COUNTED = {**TIMED, "kernels": 10.0, "launches": 9.5, "graph_launches": 0.0, "syncs": 1.0}


def measured(command: tuple[str, ...], *, timeout_s: float = 30.0) -> StageTable:
    table = staged.measured_stages(command, timeout_s=timeout_s)
    assert isinstance(table, StageTable)
    return table


def test_counts_join_the_times_and_other_output_is_passed_over() -> None:
    skipped = {"name": "norm", "reason": "Triton is not installed"}
    table = measured(child("a warning", ABOUT, TIMED, skipped, "[1]", COUNTED))
    assert table.device == "NVIDIA H200"
    (row,) = table.rows
    assert (row.name, row.step_ns, row.mbu_share) == ("plain", 2_000_000, 0.25)
    assert (row.kernels, row.launches, row.graph_launches, row.syncs) == (10.0, 9.5, 0.0, 1.0)
    assert row.lesson == LESSONS["plain"]
    assert row.finding is None
    assert table.left_out == ("norm: Triton is not installed",)


@pytest.mark.parametrize(
    ("then", "timeout_s", "ended"),
    [
        ("os.abort()", 30.0, "it was killed by SIGABRT"),
        ("sys.exit('out of memory')", 30.0, "it left with code 1: out of memory"),
        ("time.sleep(60)", 1.5, "it was stopped after 1.5 s"),
    ],
)
def test_what_was_timed_before_a_bad_end_is_kept(then: str, timeout_s: float, ended: str) -> None:
    table = measured(child(ABOUT, TIMED, then=then), timeout_s=timeout_s)
    assert [row.kernels for row in table.rows] == [None]
    assert table.left_out == (f"what is missing was not measured: {ended}",)
    with pytest.raises(DecodeprofError, match="the stages could not be run") as raised:
        staged.measured_stages(child(ABOUT, then=then), timeout_s=timeout_s)
    assert raised.value.why == ended


def test_no_gpu_and_no_torch_are_reasons_to_show_the_recordings() -> None:
    assert staged.measured_stages(child({"device": None})) == "torch finds no GPU"
    missing = child(then="raise ModuleNotFoundError(\"No module named 'torch'\")")
    reason = staged.measured_stages(missing)
    assert reason == "it left with code 1: ModuleNotFoundError: No module named 'torch'"


def on_this_machine(*, visible: str | None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "100"}
    if visible is not None:
        environment["CUDA_VISIBLE_DEVICES"] = visible
    return subprocess.run(
        [sys.executable, "-m", "decodeprof", "demo", "--stages"],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=staged.TIMEOUT_S,
    )


@needs_recordings
def test_without_a_gpu_the_recordings_are_shown_and_that_is_said() -> None:
    pytest.importorskip("torch")
    done = on_this_machine(visible="")
    assert done.returncode == 0, done.stderr
    assert "nothing was run: torch finds no GPU" in done.stderr
    assert "Recorded at the 0.6B shape" in done.stdout
    assert "finding: " in done.stdout


@pytest.mark.cuda
def test_on_a_gpu_every_stage_is_measured_and_counted() -> None:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device: it runs every stage")
    done = on_this_machine(visible=None)
    assert done.returncode == 0, done.stderr
    assert "Measured here" in done.stdout
    assert all(f"\n  {name} " in done.stdout for name in LESSONS)
    assert "not measured" not in done.stdout
