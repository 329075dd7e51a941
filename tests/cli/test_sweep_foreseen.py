"""A sweep whose first point was traced: where the others cross is foreseen from that trace."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

from decodeprof.cli import sweep_foreseen
from decodeprof.cli.sweep_files import CEILINGS_FILE, POINTS_FILE, Rates, trace_file
from decodeprof.cli.sweep_foreseen import larger_of_target
from decodeprof.cli.sweep_judged import judged
from decodeprof.model.sweep import Measured
from decodeprof.recording import RECORDING_FILE, TRACE_FILE, read_recording, write_recording
from decodeprof.report import terminal
from decodeprof.report.sweep import sweep_view
from tests.cli.test_sweep import ABOUT, point

FIXTURES = Path(__file__).parents[2] / "fixtures"
EAGER = FIXTURES / "stage_eager"
"""A step of the 0.6B shape with 512 slots, all of which it attends to; 24 ms without a profiler."""
RATES = {
    "node_gap_ns": 420,
    "read_bytes_per_s": 4.36e12,
    "matmul_flops_per_s": 8.05e14,
}
HOST_NS = 24_000_000


def sweep(directory: Path, *, trace: Path | None) -> Path:
    directory.mkdir()
    messages: list[dict[str, Any]] = [ABOUT]
    for value, busy_ns in ((1, 3_500_000), (64, 16_000_000), (128, 30_000_000)):
        timed, counted = point(value, busy_ns)
        timed["eager_ns"] = [max(HOST_NS, busy_ns)]
        messages += [timed, counted]
    text = "".join(json.dumps(message) + "\n" for message in messages)
    (directory / POINTS_FILE).write_text(text)
    (directory / CEILINGS_FILE).write_text(json.dumps({"ceilings": RATES}))
    if trace is not None:
        shutil.copy(trace, trace_file(directory, "batch", 1))
    return directory


def test_the_recorded_step_is_replayed_with_more_rows(tmp_path: Path) -> None:
    found = judged(sweep(tmp_path / "s", trace=EAGER / TRACE_FILE))
    prediction = found.prediction
    assert prediction is not None
    assert prediction.method == "replay"
    assert prediction.eager_ns[0] == pytest.approx(HOST_NS, rel=0.001)
    # Recordings of 16 and 128 rows are busy for 6.69 and 25.4 ms: 0.167 ms for each row between, so
    # that with 0.74 ms of node gaps the floors cross at 115.
    row_ns = (prediction.device_ns[2] - prediction.device_ns[1]) / 64
    assert row_ns == pytest.approx(167_000, rel=0.05)
    assert prediction.at == pytest.approx(115, rel=0.1)
    assert prediction.plateau_at is not None
    assert prediction.plateau_at > prediction.at
    text = " ".join(terminal.text(sweep_view(found, width=120), width=120).split())
    assert "its recorded step replayed with kernels that grow" in text
    assert "and the eager step to leave its plateau at" in text


def test_without_a_trace_the_floors_are_all_there_is(tmp_path: Path) -> None:
    prediction = judged(sweep(tmp_path / "s", trace=None)).prediction
    assert prediction is not None
    assert prediction.method == "floors"


def test_a_trace_that_tells_no_shapes_is_said_to(tmp_path: Path) -> None:
    found = judged(sweep(tmp_path / "s", trace=FIXTURES / "stage_graph" / TRACE_FILE))
    assert found.prediction is not None
    assert found.prediction.method == "floors"
    assert any("was not replayed with more rows" in caveat for caveat in found.caveats)


def test_a_damaged_trace_is_no_traceback(tmp_path: Path) -> None:
    path = tmp_path / "junk"
    path.write_bytes(b"\x1f\x8bnothing")
    found = judged(sweep(tmp_path / "s", trace=path))
    assert any("was not replayed with more rows: its recording" in c for c in found.caveats)


def target_points(directory: Path, batches: list[int]) -> list[Measured]:
    """Recordings of a target at some batch sizes; the first is real, and so is its trace."""
    recording = read_recording(EAGER)
    for value, batch in zip((1, 64), batches, strict=True):
        target = directory / f"rows_{value}"
        target.mkdir(parents=True)
        told = msgspec.structs.replace(recording.target, batch=batch)
        write_recording(target, msgspec.structs.replace(recording, target=told))
        assert (target / RECORDING_FILE).is_file()
    shutil.copy(EAGER / TRACE_FILE, directory / "rows_1" / TRACE_FILE)
    return [Measured(value=value, eager_ns=[HOST_NS]) for value in (1, 64)]


def test_a_targets_argument_is_its_batch_where_the_recordings_say_so(tmp_path: Path) -> None:
    machine = sweep_foreseen.machine_of(Rates(**RATES))
    points = target_points(tmp_path / "batch", [1, 64])
    steps, caveats = larger_of_target(tmp_path / "batch", "rows", points, machine)
    assert caveats == []
    assert {step.value for step in steps} >= {1, 64}
    points = target_points(tmp_path / "other", [1, 1])
    assert larger_of_target(tmp_path / "other", "rows", points, machine) == ([], [])
