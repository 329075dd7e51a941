"""Blocks in Kineto's lines are read by their forms; others are left to the parser."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decodeprof.ingest import kineto_events, kineto_lines, torch_trace
from decodeprof.ingest.byte_source import PlainSource
from decodeprof.ingest.gather import Rows
from decodeprof.ingest.kineto_lines import KinetoLines
from decodeprof.model.trace import Trace
from tests.bench import generate
from tests.ingest import reference
from tests.scenarios import decode_loop
from tests.traces import needs_traces, path_of
from tests.write_kineto import kineto

BLOCK_BYTES = 20_000
# What there is of a block but its events.
END = b',\n  {\n    "'


def event(args: bytes = b"", *, cat: bytes = b"cpu_op", times: bytes = b"1.000, 2.000") -> bytes:
    """An event in the lines of torch up to 2.11."""
    start, length = times.split(b", ")
    inner = b',\n    "args": {\n      ' + args + b"\n    }" if args else b""
    return (
        b'{\n    "ph": "X", "cat": "' + cat + b'", "name": "a", "pid": 1, "tid": 2,\n'
        b'    "ts": ' + start + b', "dur": ' + length + inner + b"\n  }"
    )


def taken(*events: bytes) -> Rows | None:
    """The rows of a block; None where it is left to the parser."""
    rows = Rows()
    block = b",\n  ".join(events) + END
    return rows if KinetoLines(rows).take(memoryview(block)) else None


def watched(text: bytes, monkeypatch: pytest.MonkeyPatch) -> tuple[Trace, list[bool]]:
    """A trace that was read in small blocks, and which of them were taken."""
    found: list[bool] = []
    take = KinetoLines.take

    def watch(self: KinetoLines, block: memoryview) -> bool:
        found.append(take(self, block))
        return found[-1]

    monkeypatch.setattr(KinetoLines, "take", watch)
    trace = torch_trace.parse_source(
        lambda: PlainSource(io.BytesIO(text)), name="t", by_forms=True, block_bytes=BLOCK_BYTES
    )
    return trace, found


@pytest.mark.parametrize("layout", ["to_2_11", "from_2_13"])
def test_both_layouts_are_taken(layout: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = kineto(decode_loop(steps=6, layers=8).build(), layout)
    trace, found = watched(text, monkeypatch)
    assert len(found) > 5
    assert all(found)
    assert reference.rows_of(trace) == reference.read(text)


@pytest.mark.parametrize("layout", ["one_line", "indent_2", "indent_4"])
def test_other_layouts_are_not_asked_for(layout: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = kineto(decode_loop(steps=2, layers=8).build(), layout)
    assert watched(text, monkeypatch)[1] == []


def test_the_bench_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    truth = generate.write(tmp_path / "t.json", steps=3)
    text = (tmp_path / "t.json").read_bytes()
    trace, found = watched(text, monkeypatch)
    assert len(found) > 100
    assert all(found[:-1])
    assert (len(trace.ops), len(trace.calls)) == (truth.ops, truth.calls)
    assert reference.rows_of(trace) == reference.read(text)


def test_forms_are_learnt_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kineto_lines, "_MOST_FORMS", 50)
    generate.write(tmp_path / "t.json", steps=3)
    text = (tmp_path / "t.json").read_bytes()
    assert reference.rows_of(watched(text, monkeypatch)[0]) == reference.read(text)


def test_where_few_events_repeat_it_stops_looking(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kineto_lines, "_TRIAL_EVENTS", 200)
    lines = KinetoLines(Rows())
    blocks = [
        memoryview(b",\n  ".join(event(b'"x": [%d]' % (n + i)) for i in range(60)) + END)
        for n in range(0, 600, 60)
    ]
    taken = [lines.take(block) for block in blocks]
    assert taken == [True] * 4 + [False] * 6


def test_of_a_block_that_is_new_some_is_learnt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kineto_lines, "_MOST_LEARNT", 10)
    rows = Rows()
    lines = KinetoLines(rows)
    new = memoryview(b",\n  ".join(event(b'"x": [%d]' % i) for i in range(30)) + END)
    assert [lines.take(new) for _ in range(4)] == [False, False, True, True]
    assert len(rows.ops) == 60


@needs_traces
@pytest.mark.traces
@pytest.mark.parametrize("name", ["h200/qwen3_0p6b_naive.json.gz", "h200/qwen3_0p6b_graph.json.gz"])
def test_most_of_a_real_trace_is_taken(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = gzip.decompress(path_of(name).read_bytes())
    _, found = watched(text, monkeypatch)
    assert sum(found) > 0.9 * len(found)


def test_numbers_are_those_of_their_event() -> None:
    rows = taken(
        event(b'"External id": 5, "Ev Idx": 77', times=b"1000.001, 2.500"),
        event(b'"External id": 123456, "Ev Idx": 78', times=b"1234567890123.999, 10"),
        event(b'"Ev Idx": 79', times=b"17, 0.001"),
    )
    assert rows is not None
    ops = rows.ops.build(origin_ns=0)
    assert ops.start_ns.tolist() == [17_000, 1_000_001, 1_234_567_890_123_999]
    assert (ops.end_ns - ops.start_ns).tolist() == [1, 2_500, 10_000]
    assert ops.external.tolist() == [-1, 5, 123456]


def test_correlations_wherever_they_lie() -> None:
    kernels = [
        event(b'"External id": %d, "device": 0, "stream": %d, "correlation": %d, "x": 0' % place,
              cat=b"kernel")
        for place in ((1, 7, 100), (22, 7, 2**31), (3, 20, 5), (4, 20, 0))
    ]  # fmt: skip
    calls = [event(b'"cbid": 1, "correlation": %d' % n, cat=b"cuda_runtime") for n in (100, 7)]
    rows = Rows()
    lines = KinetoLines(rows)
    for _ in range(2):  # The second time their places are known.
        assert lines.take(memoryview(b",\n  ".join(kernels + calls) + END))
    device, found = rows.device.build(origin_ns=0), rows.calls.build(origin_ns=0)
    assert device.correlation.tolist() == [100, 2**31, 5, -1] * 2
    assert device.external.tolist() == [1, 22, 3, 4] * 2
    assert device.stream.tolist() == [7, 7, 20, 20] * 2
    assert found.correlation.tolist() == [100, 7] * 2


@pytest.mark.parametrize(
    "odd",
    [
        event(b'"External id": 07'),
        event(b'"External id": 1, "Ev Idx": 2, "Input Dims": [[ 3]]', times=b"1e3, 2.000"),
        event(times=b"-1.000, 2.000"),
        event(times=b'"1.000", 2.000'),
        event(times=b"1.000, null"),
        event(times=b"1.0000, 2.000"),
        event(times=b"1.000, 1606910596297023"),
        event(b'"x": "\x01"'),
        event(b'"External id": 1, "Input Dims": [[73051860]]'),
        event(b'"External id": 1, "Ev Idx": 1') + b" x",
        b'{\n    "name": "a", "ph": "X", "cat": "cpu_op", "ts": 1, "dur": 2\n  }',
        b'{\n    "ph": "f", "id": 1 2\n  }',
    ],
)
def test_what_is_not_understood_is_left_to_the_parser(odd: bytes) -> None:
    good = event(b'"External id": 1, "Ev Idx": 1')
    assert taken(good, good) is not None
    assert taken(good, odd, good) is None


def flow(value: bytes) -> bytes:
    return b'{\n    "ph": "s", "id": ' + value + b', "ts": 2\n  }'


@pytest.mark.parametrize(
    ("first", "second", "sound"),
    [
        (b"123", b"907", True),
        (b"100", b"012", False),
        (b"-10", b"-01", False),
        (b"1.20", b"1.02", True),
        (b"0.5", b"9.7", True),
        (b"1e5", b"1e9", True),
        (b"12", b"1x", False),
        (b"12", b"1:", False),
        (b"12", b"1/", False),
        (b'"1"', b'"x"', True),
        (b'"a0"', b'"a7"', True),
        (b'"\\ud700"', b'"\\ud800"', False),
        (b"[1]", b"[1}", False),
    ],
)
def test_flows_like_a_sound_one_are_sound(first: bytes, second: bytes, sound: bool) -> None:
    good = event(b'"External id": 1')
    assert (taken(good, flow(first), flow(second)) is not None) is sound
    assert (taken(good, flow(second), flow(first)) is not None) is sound


@given(
    st.sampled_from(
        [b'-105, "a": [1.05, 1e05, "90"], "b": 0', b'1, "a": ["\\u0041", "\\ud83d\\ude00"]']
    ),
    st.integers(0, 120),
    st.one_of(st.integers(9, 255), st.sampled_from(b'0123456789."-e')),
)
def test_a_flow_that_was_changed_is_not_taken_unless_it_is_sound(
    value: bytes, place: int, byte: int
) -> None:
    whole = flow(value)
    changed = bytearray(whole)
    changed[place % len(whole)] = byte
    if taken(event(b'"External id": 1'), whole, bytes(changed)) is not None:
        kineto_events.EVENTS.decode(b"[" + changed + b"]")


def test_a_number_inside_a_text_is_none_of_the_counted() -> None:
    rows = taken(
        event(b'"External id": 1, "Concrete Inputs": ["a 5"]'),
        event(b'"External id": 2, "Concrete Inputs": ["a 6"], "Input Dims": [[ 6]]'),
    )
    assert rows is not None
    assert [detail.scalars for detail in rows.details.all()] == [("a 6",)]


def test_events_of_a_kind_that_is_rare_and_others_are_parsed() -> None:
    rows = taken(
        event(b'"External id": 1'),
        event(b'"cuda_sync_kind": "Stream Sync", "stream": 7', cat=b"cuda_sync"),
        event(cat=b"overhead"),
        event(cat=b"something"),
        b'{\n    "ph": "f", "id": 1, "ts": 2,\n    "cat": "ac2g"\n  }',
        b'{\n    "name": "process_name", "ph": "M"\n  }',
    )
    assert rows is not None
    assert (len(rows.ops), len(rows.syncs), rows.overhead, rows.events) == (
        1, 1, [(1000, 3000)], 6,
    )  # fmt: skip
