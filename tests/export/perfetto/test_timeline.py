"""What Perfetto's own trace processor finds in a timeline is what was in the trace."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from decodeprof.diagnosis.evidence import Evidence, gather
from decodeprof.diagnosis.load import Loaded, load
from decodeprof.errors import DecodeprofError, InputError, UsageError
from decodeprof.export.perfetto.file import write_timeline_file
from decodeprof.model.diagnosis import IDLE_CAUSES
from decodeprof.model.trace import Table, Trace
from tests import traces
from tests.build import TraceBuilder
from tests.export.perfetto.many import written
from tests.export.perfetto.trace_processor import (
    TraceProcessor,
    needs_trace_processor,
    processed,
)
from tests.reading import trace_of
from tests.scenarios import US, decode_loop, graph_loop, layer, take_token

FIXTURES = Path(__file__).parents[3] / "fixtures"
Row = tuple[Any, ...]


def evidence_of(b: TraceBuilder) -> Evidence:
    trace = trace_of(b.build())
    return gather(Loaded(trace=trace, recording=None, name=trace.name))


def spans(trace: Trace, table: Any) -> Counter[Row]:
    """The rows of a table as (name, start, duration)."""
    assert isinstance(table, Table)
    columns: Any = table
    return Counter(
        (trace.names[name], start, end - start)
        for name, start, end in zip(
            columns.name.tolist(), columns.start_ns.tolist(), columns.end_ns.tolist(), strict=True
        )
    )


def slices(found: TraceProcessor, *categories: str) -> Counter[Row]:
    """The slices of some categories as (name, start, duration)."""
    listed = ", ".join(f"'{category}'" for category in categories)
    return Counter(found.query(f"select name, ts, dur from slice where category in ({listed})"))


def arguments(found: TraceProcessor, where: str) -> list[dict[str, Any]]:
    """The arguments of each slice that a condition holds for, in order of time."""
    rows = found.query(
        "select s.id, a.key, coalesce(a.int_value, a.string_value) from slice s "
        f"left join args a using (arg_set_id) where {where} order by s.ts, s.id"
    )
    by_slice: dict[int, dict[str, Any]] = {}
    for ident, key, value in rows:
        by_slice.setdefault(ident, {})[str(key).removeprefix("debug.")] = value
    return list(by_slice.values())


def check_all_is_there(found: TraceProcessor, evidence: Evidence) -> None:
    """Every row that was read is a slice, with its name, its start and its duration."""
    trace = evidence.trace
    assert found.errors() == []
    assert slices(found, "kernel", "copy", "set", "graph") == spans(trace, trace.device)
    assert slices(found, "api") == spans(trace, trace.calls)
    assert slices(found, "op") == spans(trace, trace.ops)
    assert slices(found, "annotation") == spans(trace, trace.annotations)
    assert slices(found, "frame") == spans(trace, trace.frames)
    gaps = evidence.gaps
    assert gaps is not None
    assert sum(dur for _, _, dur in slices(found, "idle")) == int(
        (gaps.end_ns - gaps.start_ns).sum()
    )


@needs_trace_processor
def test_every_row_of_a_decode_loop_is_a_slice(tmp_path: Path) -> None:
    evidence = evidence_of(decode_loop())
    file = tmp_path / "timeline.pftrace"
    write_timeline_file(evidence, file)
    with processed(file) as found:
        check_all_is_there(found, evidence)
        steps = evidence.steps
        windows = slices(found, "step")
        for index, phase in enumerate(steps.phases):
            start, end = int(steps.device_start_ns[index]), int(steps.device_end_ns[index])
            assert windows[f"{phase} {index}", start, end - start] >= 1
        assert sum(windows.values()) == 2 * steps.count
    assert [path.name for path in tmp_path.iterdir()] == ["timeline.pftrace"]


@needs_trace_processor
def test_overlapping_kernels_get_lanes_of_their_own_and_none_is_lost(tmp_path: Path) -> None:
    b = TraceBuilder()
    for index in range(40):
        # Three streams of which each is busy when the next begins, and launches on two threads.
        b.on("429" if index % 2 else "io")
        b.launch(f"k{index % 5}", 50 * US, stream=7 + index % 3)
    trace = trace_of(b.build())
    # Programmatic dependent launches: on one stream the next kernel starts before the last ends.
    device = trace.device
    longer = device.end_ns + 120 * US * (np.arange(len(device)) % 2)
    early = Trace(**{**vars(trace), "device": type(device)(**{**vars(device), "end_ns": longer})})
    evidence = gather(Loaded(trace=early, recording=None, name="t"))
    file = tmp_path / "timeline.pftrace"
    write_timeline_file(evidence, file)
    with processed(file) as found:
        check_all_is_there(found, evidence)
        lanes = found.query(
            "select distinct t.name from slice s join track t on s.track_id = t.id "
            "where s.category = 'kernel'"
        )
        assert ("stream 7, overlap 1",) in lanes
        assert found.query("select max(depth) from slice where category = 'kernel'") == [(0,)]


@needs_trace_processor
def test_each_kernel_of_a_graph_has_a_flow_from_the_one_launch(tmp_path: Path) -> None:
    evidence = evidence_of(graph_loop(replays=4, nodes=60))
    file = tmp_path / "timeline.pftrace"
    write_timeline_file(evidence, file)
    with processed(file) as found:
        check_all_is_there(found, evidence)
        flows = found.query(
            "select a.name, count(*) from flow f join slice a on f.slice_out = a.id "
            "join slice b on f.slice_in = b.id where b.category = 'kernel' group by a.id"
        )
    assert flows == [("cudaGraphLaunch", 60)] * 4


@needs_trace_processor
def test_each_launch_of_a_kernel_has_its_flow(tmp_path: Path) -> None:
    evidence = evidence_of(decode_loop())
    file = tmp_path / "timeline.pftrace"
    write_timeline_file(evidence, file)
    with processed(file) as found:
        flows = found.query(
            "select a.ts as launched, b.ts as started, b.name from flow f "
            "join slice a on f.slice_out = a.id join slice b on f.slice_in = b.id"
        )
    table, trace = evidence.trace.device, evidence.trace
    assert Counter(flows) == Counter(
        (int(trace.calls.start_ns[call]), start, trace.names[name])
        for call, start, name in zip(
            table.call.tolist(), table.start_ns.tolist(), table.name.tolist(), strict=True
        )
    )


@needs_trace_processor
def test_a_gap_holds_its_causes_and_bears_the_name_of_the_largest(tmp_path: Path) -> None:
    evidence = evidence_of(decode_loop())
    file = tmp_path / "timeline.pftrace"
    write_timeline_file(evidence, file)
    gaps = evidence.gaps
    assert gaps is not None
    with processed(file) as found:
        told = arguments(found, "s.category = 'idle'")
        names = found.query("select name from slice where category = 'idle' order by ts")
    assert len(told) == len(gaps)
    for row, (args, (name,)) in enumerate(zip(told, names, strict=True)):
        causes = dict(zip(IDLE_CAUSES, gaps.causes_ns[row].tolist(), strict=True))
        assert {c: args[f"{c} ns"] for c in IDLE_CAUSES if f"{c} ns" in args} == {
            cause: ns for cause, ns in causes.items() if ns
        }
        assert causes[name] == max(causes.values())


@needs_trace_processor
def test_counters_say_what_is_queued_and_how_fast_bytes_move(tmp_path: Path) -> None:
    b = TraceBuilder()
    b.launch("long", 100 * US)  # called at 0, starts at 5,000
    b.copy(10 * US, size=1_000)  # called at 2,000, starts at 105,000
    b.launch("late", 1 * US)  # called at 5,000, starts at 115,000
    evidence = evidence_of(b)
    file = tmp_path / "timeline.pftrace"
    write_timeline_file(evidence, file)
    with processed(file) as found:
        points = found.query(
            "select t.name, c.ts, c.value from counter c join counter_track t "
            "on c.track_id = t.id order by t.name, c.ts"
        )
    assert points == [
        ("achieved bandwidth", 105_000, 100_000_000),
        ("achieved bandwidth", 115_000, 0),
        ("queue depth (device 0)", 0, 1),
        ("queue depth (device 0)", 2_000, 2),
        ("queue depth (device 0)", 5_000, 2),  # one starts as another is launched
        ("queue depth (device 0)", 105_000, 1),
        ("queue depth (device 0)", 115_000, 0),
    ]


@needs_trace_processor
def test_a_blocking_call_names_its_source_line(tmp_path: Path) -> None:
    evidence = gather(load(FIXTURES / "plain_0p6b"))
    file = tmp_path / "timeline.pftrace"
    write_timeline_file(evidence, file, steps=(2, 4))
    places = [s.place for s in evidence.decode_sites if s.place is not None]
    assert places
    with processed(file) as found:
        assert found.errors() == []
        told = arguments(found, "s.category = 'blocking'")
    placed = [args for args in told if "file" in args]
    assert {(args["file"], args["line"], args["function"], args["code"]) for args in placed} == {
        (place.file, place.line, place.function, place.code) for place in places
    }
    assert {args["step"] for args in told} == {2, 3}


@needs_trace_processor
def test_some_steps_alone_hold_what_belongs_to_them(tmp_path: Path) -> None:
    evidence = evidence_of(decode_loop(steps=5))
    file = tmp_path / "timeline.pftrace"
    write_timeline_file(evidence, file, steps=(2, 4))
    steps, table = evidence.steps, evidence.trace.device
    mine = np.isin(steps.activity_step, (2, 3))
    with processed(file) as found:
        assert found.errors() == []
        device = slices(found, "kernel", "copy", "set")
        assert device == spans(evidence.trace, table.take(mine))
        calls = evidence.trace.calls.take(np.isin(steps.call_step, (2, 3)))
        assert slices(found, "api") == spans(evidence.trace, calls)
        inside = found.query("select min(ts) from slice")[0][0]
        assert inside == int(steps.host_start_ns[2])
        idle = sum(dur * times for (_, _, dur), times in slices(found, "idle").items())
    gaps = evidence.gaps
    assert gaps is not None
    window = gaps.causes_within(int(steps.device_start_ns[2]), int(steps.device_end_ns[3]))
    assert idle == sum(window.values())


@needs_trace_processor
def test_hostile_names_reach_perfetto_as_text_and_change_nothing(tmp_path: Path) -> None:
    names = ["</script><b>", "[red]x", "\x1b[31mred", "\u202egnp.exe", "k" * 10_000, "\ud800", "µ"]
    b = TraceBuilder()
    for name in names:
        b.launch("x" if name == "\ud800" else name, 1 * US)
    trace = trace_of(b.build())
    torn = tuple("\ud800" if name == "x" else name for name in trace.names)
    evidence = gather(
        Loaded(trace=Trace(**{**vars(trace), "names": torn}), recording=None, name="")
    )
    file = tmp_path / "timeline.pftrace"
    write_timeline_file(evidence, file)
    with processed(file) as found:
        assert found.errors() == []
        shown = [n for (n,) in found.query("select name from slice where category = 'kernel'")]
    bad = "\N{REPLACEMENT CHARACTER}"
    assert shown == [
        "</script><b>",
        "[red]x",
        f"{bad}[31mred",
        f"{bad}gnp.exe",
        "k" * 10_000,
        bad,
        "µ",
    ]


@needs_trace_processor
def test_a_flow_never_leads_back_in_time(tmp_path: Path) -> None:
    b = TraceBuilder(latency_ns=dict.fromkeys(("kernel", "copy", "set", "graph"), -3 * US))
    b.work(10 * US)
    for _ in range(30):
        layer(b)
        take_token(b)
    evidence = evidence_of(b)
    file = tmp_path / "timeline.pftrace"
    write_timeline_file(evidence, file)
    with processed(file) as found:
        check_all_is_there(found, evidence)
        backwards = found.query(
            "select count(*) from flow f join slice a on f.slice_out = a.id "
            "join slice b on f.slice_in = b.id where b.ts < a.ts"
        )
    assert backwards == [(0,)]


def test_a_trace_without_events_gives_an_empty_timeline(tmp_path: Path) -> None:
    evidence = gather(Loaded(trace=Trace.nothing("t"), recording=None, name="t"))
    file = tmp_path / "timeline.pftrace"
    write_timeline_file(evidence, file)
    assert file.stat().st_size > 0


@traces.needs_traces
@needs_trace_processor
@pytest.mark.traces
@pytest.mark.parametrize(
    "name",
    [
        "h200/qwen3_0p6b_graph.json.gz",
        "torch/sglang_decode_cudagraph_b300.json.gz",
        "torch/unsorted_graphs_a100.json.gz",
        "torch/event_sync_a100.json.gz",
        "torch/string_tids_v100_2021.json.gz",
        "torch/hf_qwen_h100_unlinked.json.gz",
    ],
)
def test_every_row_of_a_real_trace_is_a_slice(name: str, tmp_path: Path) -> None:
    folder = traces.folder()
    assert folder is not None
    evidence = gather(load(folder / name))
    file = tmp_path / "timeline.pftrace"
    write_timeline_file(evidence, file)
    with processed(file) as found:
        check_all_is_there(found, evidence)


def test_steps_that_are_not_there_are_an_error_and_leave_nothing(tmp_path: Path) -> None:
    evidence = evidence_of(decode_loop(steps=4))
    file = tmp_path / "timeline.pftrace"
    with pytest.raises(DecodeprofError, match="has no such steps") as raised:
        write_timeline_file(evidence, file, steps=(7, 9))
    assert raised.value.why == "it has 5 steps: 0 to 4"
    assert list(tmp_path.iterdir()) == []


def test_an_existing_file_is_kept_unless_forced(tmp_path: Path) -> None:
    evidence = evidence_of(graph_loop())
    file = tmp_path / "timeline.pftrace"
    file.write_text("mine")
    with pytest.raises(UsageError, match="exists"):
        write_timeline_file(evidence, file)
    assert file.read_text() == "mine"
    write_timeline_file(evidence, file, force=True)
    assert file.read_bytes() != b"mine"


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot write"):
        write_timeline_file(evidence_of(graph_loop()), tmp_path / "no" / "timeline.pftrace")


def test_very_many_events_are_written_in_bounded_memory(tmp_path: Path) -> None:
    taken = written(300_000, tmp_path / "t.pftrace")
    assert taken.file_bytes > 30_000_000
    # Held as packets they are several times the file; what is allowed is a few columns of numbers.
    assert taken.grown_bytes < 40_000_000
