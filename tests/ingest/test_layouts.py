"""One recording, written by every version of the profiler, reads as one trace."""

from pathlib import Path

import pytest

from decodeprof.ingest.read import read_trace
from tests.build import TraceBuilder
from tests.reading import content, trace_of
from tests.scenario import Scenario
from tests.scenarios import decode_loop, graph_loop
from tests.write_kineto import (
    ABSOLUTE_2024,
    BASE_NS,
    LAYOUTS,
    LIST_2020,
    MODERN,
    OFFSET_NS,
    TEXT_TIMES,
    WHOLE_US_2021,
    Dialect,
    kineto,
    write,
)


def everything() -> Scenario:
    """Every kind of row, with times that need all their digits."""
    b = decode_loop(steps=2, layers=2)
    b.work(1_234_567)
    with (
        b.annotation("decodeprof.step phase=decode"),
        b.frame("C:\\my code\\loop.py(12): generate"),
    ):
        b.set(999, size=16)
        b.stream_wait(waiting=20, on=7, recorded=True)
        b.launch("side", 1_111, stream=20, api="cuLaunchKernelEx")
        b.graph([("a<x, y>", 777), ("b", 555), ("Memset", 1)])
        b.copy(333, name="Memcpy HtoD (Pageable -> Device)", waits=True, size=1 << 33)
        b.sync("cudaDeviceSynchronize", recorded=True)
    b.unlinked("launched before", start_ns=100, ns=50)
    b.pauses.append((5_000, 6_001))
    return b.build()


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dialect", [MODERN, TEXT_TIMES], ids=["numbers", "quoted times"])
def test_every_layout_reads_equal(layout: str, dialect: Dialect) -> None:
    scenario = everything()
    assert content(trace_of(scenario, layout, dialect)) == content(trace_of(scenario))


@pytest.mark.parametrize("layout", ["to_2_11", "from_2_13"])
def test_absolute_times_keep_their_digits(layout: str) -> None:
    scenario = everything()
    trace = trace_of(scenario, layout, ABSOLUTE_2024)
    assert content(trace) == content(trace_of(scenario))
    assert trace.origin_ns == BASE_NS + OFFSET_NS


def test_the_origin_is_absolute_with_and_without_a_base() -> None:
    scenario = everything()
    assert trace_of(scenario).origin_ns == trace_of(scenario, dialect=ABSOLUTE_2024).origin_ns


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dialect", [LIST_2020, WHOLE_US_2021], ids=["2020", "2021"])
def test_the_oldest_forms_read_equal(layout: str, dialect: Dialect) -> None:
    b = TraceBuilder()
    with b.op("aten::mm", after_ns=1_000, shapes=((2, 3), (3, 4))):
        b.launch("gemm", 3_000)
        b.copy(2_000)
        b.set(1_000)
        b.sync()
    scenario = b.build()
    old, new = content(trace_of(scenario, layout, dialect)), content(trace_of(scenario))
    if dialect.bare_list:  # which has no place for the devices' descriptions
        assert [d.name for d in old.pop("devices")] == [None]
        assert [d.name for d in new.pop("devices")] == ["NVIDIA H200"]
    assert old == new


def test_the_rows_are_what_was_built() -> None:
    scenario = everything()
    trace = trace_of(scenario)
    kinds = {"kernel": 0, "copy": 1, "set": 2}
    assert sorted(
        zip(
            trace.device.start_ns.tolist(),
            trace.device.end_ns.tolist(),
            trace.device.kind.tolist(),
            [trace.names[i] for i in trace.device.name],
            trace.device.stream.tolist(),
            trace.device.bytes.tolist(),
            trace.device.graph_node.tolist(),
            trace.device.blocks.tolist(),
            trace.device.threads_per_block.tolist(),
            strict=True,
        )
    ) == sorted(
        (
            a.start_ns,
            a.end_ns,
            kinds[a.kind],
            a.name,
            a.stream,
            a.bytes,
            a.node,
            16 if a.kind == "kernel" else -1,
            128 if a.kind == "kernel" else -1,
        )
        for a in scenario.activities
    )
    assert trace.span_ns() == scenario.span_ns()
    assert sorted(trace.calls.start_ns.tolist()) == sorted(c.start_ns for c in scenario.calls)
    assert trace.profiler_overhead_ns == scenario.pauses
    assert trace.captured == {
        "device", "calls", "ops", "annotations", "frames", "syncs", "shapes",
    }  # fmt: skip
    (detail,) = {trace.op_details[i].shapes for i in trace.ops.detail if i >= 0} - {
        ((1000, 64), (1, 16))
    }
    assert detail == ((1000, 64), (1, 1))
    (device,) = trace.devices
    assert (device.name, device.sm_count, device.memory_bytes, device.compute_capability) == (
        "NVIDIA H200", 132, 150109880320, "9.0",
    )  # fmt: skip


def test_each_activity_is_joined_to_its_launch() -> None:
    scenario = everything()
    trace = trace_of(scenario)
    truth = {(a.start_ns, a.name): a.call for a in scenario.activities}
    for row in range(len(trace.device)):
        call = truth[int(trace.device.start_ns[row]), trace.names[trace.device.name[row]]]
        found = int(trace.device.call[row])
        if call is None:
            assert found == -1
        else:
            assert int(trace.calls.start_ns[found]) == call.start_ns


@pytest.mark.parametrize("layout", LAYOUTS)
def test_order_in_the_file_is_no_matter(layout: str) -> None:
    scenario = graph_loop(replays=3).build()
    expected = content(trace_of(scenario))
    for seed in (1, 2):
        assert content(trace_of(scenario, layout, Dialect(seed=seed))) == expected


def test_rows_are_sorted_by_start_and_parents_come_first() -> None:
    b = TraceBuilder()
    for _ in range(3):
        with b.op("parent", before_ns=0), b.op("child", before_ns=0):
            b.launch("k", 1_000)
            b.graph([("a", 500), ("b", 700)], gap_ns=-500)  # which start at once
    trace = trace_of(b.build(), dialect=Dialect(seed=3))
    assert [trace.names[i] for i in trace.ops.name] == ["parent", "child"] * 3
    for table in (trace.device, trace.calls, trace.ops, trace.annotations, trace.frames):
        keys = list(zip(table.start_ns.tolist(), (-table.end_ns).tolist(), strict=True))
        assert keys == sorted(keys)


def test_packed_and_plain_read_equal(tmp_path: Path) -> None:
    scenario = everything()
    packed = read_trace(write(tmp_path / "a.json.gz", scenario))
    # The content decides, not the name: plain JSON under a packed file's name, and the reverse.
    misnamed = tmp_path / "b.json.gz"
    misnamed.write_bytes(kineto(scenario))
    renamed = tmp_path / "c.json"
    renamed.write_bytes((tmp_path / "a.json.gz").read_bytes())
    assert content(packed) == content(read_trace(misnamed)) == content(read_trace(renamed))
    assert packed.name == "a.json.gz"
