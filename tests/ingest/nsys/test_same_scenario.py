"""Two formats, one truth: an export says what torch.profiler's file of the same run says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from decodeprof.diagnosis.pipeline import analyze_path
from decodeprof.ingest.nsys.export import read_export
from decodeprof.model.trace import ActivityKind, Trace
from tests import write_kineto, write_nsys
from tests.build import TraceBuilder
from tests.reading import content, trace_of
from tests.scenario import Scenario
from tests.scenarios import US, decode_loop, graph_loop
from tests.write_nsys import SCHEMAS, Schema, as_nsys_sees


def everything() -> TraceBuilder:
    """A run with one of each thing that both formats can hold."""
    b = TraceBuilder()
    for index in range(5):
        with b.annotation(f"decodeprof.step phase={'decode' if index else 'prefill'}"):
            b.work(20 * US)
            for kernel in range(6):
                b.launch(f"void kernel_{kernel}<float>(float*)", 2 * US)
            b.launch("triton_", 3 * US, api="cuLaunchKernel")
            b.set(1 * US)
            b.copy(2 * US, name="Memcpy HtoD (Pinned -> Device)", size=64)
            b.stream_wait(waiting=20, on=7, recorded=True)
            b.launch("on_another_stream", 4 * US, stream=20)
            b.graph([("node_a", 2 * US), ("node_b", 3 * US), ("node_c", 1 * US)])
            b.copy(1 * US)
            b.sync(stream=7, recorded=True)
    b.on("430")
    b.now_ns["430"] = 15 * US
    b.call("cudaEventQuery")
    b.on("429")
    b.sync("cudaDeviceSynchronize", recorded=True)
    b.unlinked("launched_before", start_ns=2 * US, ns=1 * US)
    b.pauses.append((30 * US, 31 * US))
    return b


SCENARIOS = {
    "everything": everything,
    "decode loop": decode_loop,
    "graph loop": graph_loop,
}


def scenario(name: str) -> Scenario:
    return as_nsys_sees(SCENARIOS[name]().build())


def exported(folder: Path, what: Scenario, schema: Schema, **options: Any) -> Trace:
    path = write_nsys.write(folder / "report.sqlite", what, schema, **options)
    return read_export(path).process()


@pytest.mark.parametrize("name", SCENARIOS)
@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda schema: schema.version[:4])
def test_an_export_reads_as_the_same_trace(tmp_path: Path, schema: Schema, name: str) -> None:
    what = scenario(name)
    assert content(exported(tmp_path, what, schema)) == content(trace_of(what))


@pytest.mark.parametrize("name", SCENARIOS)
@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda schema: schema.version[:4])
def test_an_export_is_diagnosed_as_the_same_run(tmp_path: Path, schema: Schema, name: str) -> None:
    what = scenario(name)
    theirs = write_kineto.write(tmp_path / "trace.json", what)
    ours = write_nsys.write(tmp_path / "report.sqlite", what, schema)
    assert diagnosis(ours) == diagnosis(theirs)


def diagnosis(path: Path) -> dict[str, Any]:
    """All that was concluded, without what names the file and who wrote it."""
    found: dict[str, Any] = msgspec.to_builtins(analyze_path(path).diagnosis)
    assert found["counts"]["kernels"]
    kind = found["source"].pop("kind")
    assert all(site.pop("seen_by") == [kind] for site in found["syncs"])
    del found["source"]["name"], found["about"]["environment"]
    return found


def test_times_are_those_of_the_session_to_the_nanosecond(tmp_path: Path) -> None:
    what = scenario("decode loop")
    trace = exported(tmp_path, what, write_nsys.NSYS_2026)
    first = min(event.start_ns for event in (*what.activities, *what.calls))
    assert trace.origin_ns == write_nsys.SESSION_NS + write_nsys.OFFSET_NS + first
    starts = sorted(activity.start_ns - first for activity in what.activities)
    assert trace.device.start_ns.tolist() == starts
    assert trace.versions == (("nsys", "2026.2.1.210"),)


@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda schema: schema.version[:4])
def test_a_graph_recorded_as_a_whole_is_busy_as_a_whole(tmp_path: Path, schema: Schema) -> None:
    what = scenario("graph loop")
    trace = exported(tmp_path, what, schema, graphs="graph")
    spans = {}
    for activity in what.activities:
        start, end = spans.get(activity.correlation, (activity.start_ns, activity.end_ns))
        spans[activity.correlation] = (
            min(start, activity.start_ns),
            max(end, activity.end_ns),
        )
    table = trace.device
    assert table.kind.tolist() == [ActivityKind.GRAPH] * len(spans)
    assert sorted(zip(table.start_ns.tolist(), table.end_ns.tolist(), strict=True)) == sorted(
        spans.values()
    )
    assert (table.call >= 0).all()
    assert any("cannot be told" in text for text in trace.caveats)


def test_no_idle_and_no_kernel_count_is_claimed_inside_a_whole_graph(tmp_path: Path) -> None:
    b = TraceBuilder()
    for index in range(5):
        with b.annotation("decodeprof.step phase=decode"):
            b.work(10 * US)
            b.graph([(f"node_{n}", 2 * US) for n in range(60)], gap_ns=3 * US)
            b.launch("sample", 2 * US)
            b.sync(stream=7)
        assert index < 5
    what = as_nsys_sees(b.build())
    nodes = write_nsys.write(tmp_path / "nodes.sqlite", what)
    whole = write_nsys.write(tmp_path / "whole.sqlite", what, graphs="graph")
    known, blind = analyze_path(nodes).diagnosis, analyze_path(whole).diagnosis
    assert known.step is not None
    assert blind.step is not None
    assert known.step.kernels == 61
    assert blind.step.kernels is None
    assert blind.steps.rows[1].kernels is None
    assert blind.step.graph_launches == known.step.graph_launches == 1
    assert blind.step.profiled_ns == known.step.profiled_ns
    # 59 gaps of 3 µs between nodes: idle where nodes were recorded, unknown where they were not.
    assert known.step.idle_ns is not None
    assert blind.step.idle_ns is not None
    assert known.step.busy_ns is not None
    assert blind.step.busy_ns == known.step.busy_ns + 59 * 3 * US
    assert known.step.idle_ns.device == blind.step.idle_ns.device + 59 * 3 * US
