"""A recording with several sources: their table comes out of files, and a bad one spoils nothing.

The exports here are synthetic: they stand for no capture.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from decodeprof.diagnosis.pipeline import analyze_path
from decodeprof.model.diagnosis import AgreementRow, Diagnosis
from decodeprof.recording import (
    NSYS_FILE,
    TRACE_FILE,
    Site,
    SyncEvent,
    SyncPass,
    write_recording,
)
from tests import write_kineto, write_nsys
from tests.build import TraceBuilder
from tests.diagnosis.cases import recording, timing
from tests.scenario import Scenario
from tests.scenarios import US
from tests.write_nsys import as_nsys_sees

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"


def loop(*, driver_sync: bool = False, kernels: int = 6, gap_us: int = 20) -> Scenario:
    b = TraceBuilder()
    for index in range(8):
        with b.annotation(f"decodeprof.step phase={'decode' if index else 'prefill'}"):
            b.work(gap_us * US)
            for kernel in range(kernels):
                b.launch(f"kernel_{kernel}", 2 * US)
            b.graph([("node_a", 2 * US), ("node_b", 2 * US)])
            if driver_sync:
                b.sync("cuStreamSynchronize", stream=7)
            b.sync(stream=7)
    return as_nsys_sees(b.build())


def made(folder: Path, *, nsys: Scenario | None, graphs: str = "node", **passes: Any) -> Path:
    """A recording directory with a torch trace and, where given, an nsys export."""
    folder.mkdir()
    write_kineto.write(folder / TRACE_FILE, loop())
    if nsys is not None:
        write_nsys.write(folder / NSYS_FILE, nsys, graphs=graphs)
    write_recording(folder, recording(timing=timing([100 * US] * 8), **passes))
    return folder


def rows(found: Diagnosis) -> dict[str, AgreementRow]:
    assert found.agreement is not None
    return {row.quantity: row for row in found.agreement.rows}


def syncs_of(*places: tuple[str, int]) -> SyncPass:
    """One wait at each place in each of 7 decode steps."""
    sites = [Site(file=file, line=line, function="generate") for file, line in places]
    events = [
        SyncEvent(step=step, site=site, kind="stream")
        for step in range(8)
        for site in range(len(sites))
    ]
    return SyncPass(sites=sites, events=events, steps=7)


def test_the_same_run_seen_four_ways_agrees(tmp_path: Path) -> None:
    seen = syncs_of(("loop.py", 9))
    path = made(tmp_path / "r", nsys=loop(), sync_debug=seen, gpu_trace=seen)
    found = analyze_path(path).diagnosis
    assert found.agreement is not None
    assert found.agreement.sources == ["unprofiled", "sync_debug", "gpu_trace", "torch", "nsys"]
    table = rows(found)
    assert {row.agrees for name, row in table.items() if name != "step_ns"} == {True}
    assert table["kernels"].values == {
        **dict.fromkeys(("unprofiled", "sync_debug", "gpu_trace")),
        "torch": 8,
        "nsys": 8,
    }
    assert table["launches"].values["nsys"] == 6
    assert table["graph_launches"].values["nsys"] == 1
    assert [value for value in table["syncs"].values.values() if value is not None] == [1] * 4


def test_a_driver_call_that_only_nsys_sees(tmp_path: Path) -> None:
    path = made(tmp_path / "r", nsys=loop(driver_sync=True))
    row = rows(analyze_path(path).diagnosis)["syncs"]
    assert (row.values["torch"], row.values["nsys"], row.agrees) == (1, 2, False)
    assert row.explanation is not None
    assert "cuStreamSynchronize" in row.explanation


def test_a_difference_without_a_known_cause_has_none(tmp_path: Path) -> None:
    path = made(tmp_path / "r", nsys=loop(kernels=7))
    row = rows(analyze_path(path).diagnosis)["kernels"]
    assert (row.values["torch"], row.values["nsys"]) == (8, 9)
    assert (row.agrees, row.explanation) == (False, None)


def test_graphs_as_a_whole_leave_kernels_unknown(tmp_path: Path) -> None:
    path = made(tmp_path / "r", nsys=loop(), graphs="graph")
    table = rows(analyze_path(path).diagnosis)
    assert table["kernels"].values["nsys"] is None
    assert table["kernels"].explanation is not None
    assert table["graph_launches"].agrees is True


def test_only_the_same_steps_are_compared(tmp_path: Path) -> None:
    seen = syncs_of(("loop.py", 9))
    # A longer call, with two waits in each of the later steps.
    more = [SyncEvent(step=step, site=0, kind="stream") for step in range(8, 17)]
    late = SyncPass(sites=seen.sites, events=[*seen.events, *more, *more], steps=16)
    path = made(tmp_path / "r", nsys=None, gpu_trace=late)
    row = rows(analyze_path(path).diagnosis)["syncs"]
    assert (row.values["gpu_trace"], row.values["torch"]) == (1, 1)


def test_an_export_that_cannot_be_read_takes_nothing_with_it(tmp_path: Path) -> None:
    good = analyze_path(made(tmp_path / "good", nsys=None)).diagnosis
    path = made(tmp_path / "r", nsys=None)
    (path / NSYS_FILE).write_bytes(b"cut short")
    found = analyze_path(path).diagnosis
    assert found.step == good.step
    assert found.verdict == good.verdict
    assert found.agreement is None
    assert any("`nsys.sqlite` is no SQLite database" in text for text in found.caveats)


def test_an_export_without_steps_says_why_it_is_not_in_the_table(tmp_path: Path) -> None:
    b = TraceBuilder()
    b.launch("kernel", 2 * US)
    seen = syncs_of(("loop.py", 9))
    path = made(tmp_path / "r", nsys=as_nsys_sees(b.build()), gpu_trace=seen)
    found = analyze_path(path).diagnosis
    assert found.agreement is not None
    assert "nsys" not in found.agreement.sources
    assert any(text.startswith("nsys: no decode step was found") for text in found.caveats)


def test_a_trace_that_came_alone_has_no_table(tmp_path: Path) -> None:
    path = write_kineto.write(tmp_path / "trace.json", loop())
    assert analyze_path(path).diagnosis.agreement is None


@pytest.mark.skipif(not FIXTURES.is_dir(), reason="no recordings in this checkout")
def test_a_real_loop_whose_waits_sync_debug_cannot_see() -> None:
    """The pipelined stage waits by an event of its own, which no operator of torch's does."""
    row = rows(analyze_path(FIXTURES / "stage_pipelined").diagnosis)["syncs"]
    assert (row.values["sync_debug"], row.values["gpu_trace"], row.values["torch"]) == (0, 1, 1)
    assert row.explanation is not None
    assert row.explanation.endswith("decodeprof/reference/pipelined.py:57")
