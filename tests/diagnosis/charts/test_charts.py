"""What is gathered for drawing, against the program that a synthetic trace tells."""

from __future__ import annotations

from pathlib import Path

import pytest

from decodeprof.diagnosis.charts import charts_of
from decodeprof.diagnosis.pipeline import Analyzed, analyze_path
from decodeprof.model.charts import Charts, Timeline
from tests.build import LATENCY_NS, TraceBuilder
from tests.scenario import Scenario
from tests.scenarios import decode_loop, graph_loop
from tests.write_kineto import write

FIXTURE = Path(__file__).parents[3] / "fixtures" / "plain_0p6b"
ACTIVITIES = 1 + 6 * 4 + 1 + 1 + 1
"""Of a step of `decode_loop`: embedding, six layers of four, head, argmax and the copy."""


def analyzed(folder: Path, scenario: Scenario) -> Analyzed:
    return analyze_path(write(folder / "trace.json", scenario))


def charts(found: Analyzed) -> Charts:
    return charts_of(found.evidence, found.diagnosis)


@pytest.fixture(scope="module")
def loop(tmp_path_factory: pytest.TempPathFactory) -> Analyzed:
    return analyzed(tmp_path_factory.mktemp("charts"), decode_loop().build())


@pytest.fixture(scope="module")
def timeline(loop: Analyzed) -> Timeline:
    found = charts(loop).timeline
    assert found is not None
    return found


def test_two_steady_steps_in_a_row_are_drawn(timeline: Timeline) -> None:
    assert timeline.caption == "two steady decode steps in a row"
    first, second = timeline.steps
    assert second.index == first.index + 1
    assert (first.start_ns, second.end_ns) == (0, timeline.length_ns)
    assert first.end_ns == second.start_ns
    assert sum(len(track.start_ns) for track in timeline.device) == 2 * ACTIVITIES


def test_busy_and_gaps_tile_the_stretch(timeline: Timeline) -> None:
    busy = sum(sum(track.length_ns) for track in timeline.device)  # one stream: nothing overlaps
    assert busy + sum(timeline.gaps.length_ns) == timeline.length_ns
    for length, parts in zip(timeline.gaps.length_ns, timeline.gaps.parts, strict=True):
        assert sum(ns for _, ns in parts) == length
    assert sorted(timeline.gaps.start_ns) == timeline.gaps.start_ns


def test_each_activity_knows_its_launch_and_its_op(timeline: Timeline) -> None:
    (track,) = timeline.device
    names = [timeline.names[i].text for i in track.name]
    ops = [timeline.names[i].text for i in track.op]
    assert names[0] == "indexSelectSmallIndex"
    assert ops[0] == "aten::embedding"
    assert track.latency_ns[0] == LATENCY_NS
    assert timeline.names[track.name[names.index("flash_fwd_kernel<dec>")]].family == "attention"


def test_the_host_is_drawn_by_level_and_its_calls_by_kind(timeline: Timeline) -> None:
    kinds = [(track.kind, track.depth) for track in timeline.host]
    assert kinds == [("op", 0), ("api", 0)]
    api = timeline.host[-1]
    assert set(api.call_kind) == {"launch", "sync"}
    assert api.call_kind.count("sync") == 2


def test_blocking_calls_name_their_row(timeline: Timeline, loop: Analyzed) -> None:
    assert [mark.site for mark in timeline.syncs] == [0, 0]
    assert loop.diagnosis.syncs[0].op == "aten::item"
    assert loop.diagnosis.syncs[0].phase == "decode"


def test_every_place_lies_in_the_stretch(loop: Analyzed, timeline: Timeline) -> None:
    places = charts(loop).places
    assert set(places) <= {finding.code for finding in loop.diagnosis.findings}
    assert "graph-missing" in places
    for place in places.values():
        assert 0 <= place.start_ns < place.end_ns <= timeline.length_ns
        assert place.label


def test_call_sites_sum_to_the_kernels(loop: Analyzed) -> None:
    sites = {site.where: site for site in charts(loop).call_sites}
    assert sites["aten::mm"].count == 6
    assert sites["aten::mm"].time_ns == 6 * 2_000
    total = sum(row.time_ns_per_step for row in loop.diagnosis.kernels if row.name is None)
    assert sum(site.time_ns for site in sites.values()) == total


def test_shapes_that_differ_between_steps_are_one_site(tmp_path: Path) -> None:
    b = TraceBuilder()
    for index in range(6):
        b.step("decode" if index else "prefill")
        with b.op("aten::embedding", shapes=((1000, 64), (1, 1 if index else 9))):
            b.launch("indexSelectSmallIndex", 2_000)
        for _ in range(8):
            with b.op("aten::bmm", shapes=((1, 1, 64), (1, 64, index + 9))):
                b.launch("gemm_kernel", 2_000)
        with b.op("aten::argmax"):
            b.launch("reduce_kernel", 2_000)
        with b.op("aten::item"):
            b.copy(1_000)
            b.sync(stream=7)
    found = charts(analyzed(tmp_path, b.build())).call_sites
    assert [(s.shapes, s.count) for s in found if s.where == "aten::bmm"] == [
        ("shapes differ between steps", 8)
    ]


def test_a_graphs_nodes_overlap_nowhere_and_have_one_launch(tmp_path: Path) -> None:
    found = charts(analyzed(tmp_path, graph_loop().build()))
    assert found.timeline is not None
    assert [site.where for site in found.call_sites] == ["cudaGraphLaunch"]
    for track in found.timeline.device:
        ends = [a + n for a, n in zip(track.start_ns, track.length_ns, strict=True)]
        assert all(b >= a for a, b in zip(ends, track.start_ns[1:], strict=False))


def test_without_steps_the_whole_trace_is_drawn(tmp_path: Path) -> None:
    b = TraceBuilder()
    for name in ("a", "b", "c"):
        b.launch(name, 5_000)
        b.work(20_000)
    found = charts(analyzed(tmp_path, b.build())).timeline
    assert found is not None
    assert found.steps == []
    assert "no step was found" in found.caption
    assert sum(len(track.start_ns) for track in found.device) == 3


def test_what_is_too_much_to_draw_is_cut_and_said(
    loop: Analyzed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("decodeprof.diagnosis.charts.window.MOST_ACTIVITIES", 40)
    found = charts(loop).timeline
    assert found is not None
    assert sum(len(track.start_ns) for track in found.device) == 40
    assert f"hold 40 of {2 * ACTIVITIES} device activities" in found.caption
    assert found.steps[-1].end_ns == found.length_ns


def test_pages_tell_why_and_when_not(loop: Analyzed) -> None:
    pages = charts(loop).pages
    assert set(pages) == {finding.code for finding in loop.diagnosis.findings}
    assert all(page.why and page.ignore for page in pages.values())


@pytest.fixture(scope="module")
def recorded() -> Analyzed:
    if not FIXTURE.is_dir():
        pytest.skip("no recordings in this checkout")
    return analyze_path(FIXTURE)


def test_the_rooflines_kernels_are_the_diagnosis_kernels(recorded: Analyzed) -> None:
    found = charts(recorded).roofline
    assert found is not None
    rows = {row.name: row for row in recorded.diagnosis.kernels if row.name is not None}
    for point in found.points:
        row = rows[point.name]
        assert (point.bytes, point.time_ns) == (row.bytes, row.time_ns_per_step)
        assert point.count == row.count_per_step
        # A count of bytes that no memory could deliver would be a wrong count.
        assert point.bytes / point.time_ns * 1e9 < 1.1 * found.bandwidth_bytes_per_s
    step = recorded.diagnosis.step
    assert step is not None
    assert step.busy_ns is not None
    known = sum(point.time_ns for point in found.points) / step.busy_ns
    assert found.known_time_share == pytest.approx(known, abs=0.02)
    products = [point for point in found.points if point.family == "matrix"]
    # One token times weights of two bytes: two operations for each weight, one a byte.
    assert all(0.9 < point.flops / point.bytes < 1.1 for point in products)


def test_samples_and_memory_are_those_of_the_recording(recorded: Analyzed) -> None:
    recording = recorded.evidence.recording
    assert recording is not None
    assert recording.timing is not None
    assert recording.allocator is not None
    found = charts(recorded)
    assert found.runs_step_ns == [list(run.step_ns) for run in recording.timing.runs]
    assert found.memory is not None
    assert found.memory.reserved_bytes == recording.allocator.peak_reserved_bytes
    assert found.memory.allocated_bytes == recording.allocator.peak_allocated_bytes
    parameters = found.memory.parameter_bytes
    assert parameters is not None
    assert 0 < parameters < recording.allocator.peak_allocated_bytes


def test_a_trace_alone_has_no_samples_and_no_memory(loop: Analyzed) -> None:
    found = charts(loop)
    assert found.runs_step_ns == []
    assert found.memory is None
