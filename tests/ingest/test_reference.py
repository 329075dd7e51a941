"""The fast reader and the slow, obvious one agree on every event, whatever the block size."""

from __future__ import annotations

import gzip
import io
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from decodeprof.errors import InputError
from decodeprof.ingest import torch_trace
from decodeprof.ingest.byte_source import PlainSource
from decodeprof.model.trace import Trace
from tests.ingest import reference
from tests.traces import folder, needs_traces, path_of
from tests.write_kineto import LAYOUTS, Number, lay_out

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"


def in_blocks(text: bytes, size: int, *, by_forms: bool = True) -> Trace:
    return torch_trace.parse_source(
        lambda: PlainSource(io.BytesIO(text)), name="t.json", by_forms=by_forms, block_bytes=size
    )


def compare(text: bytes, *sizes: int) -> None:
    expected = reference.read(text)
    for size in sizes:
        for by_forms in (True, False):
            found = reference.rows_of(in_blocks(text, size, by_forms=by_forms))
            for table, rows in expected.items():
                assert found[table] == rows, f"{table} in blocks of {size}, by forms: {by_forms}"


def paths(*folders: Path) -> list[Path]:
    return sorted(path for base in folders for path in base.rglob("*.json.gz"))


@needs_traces
@pytest.mark.traces
@pytest.mark.parametrize(
    "name", [str(p.relative_to(folder())) for p in paths(folder())] if folder() else ["none"]
)
def test_every_real_trace(name: str) -> None:
    text = gzip.decompress(path_of(name).read_bytes())
    compare(text, 1 << 20)


def test_a_recording_that_ships() -> None:
    compare(gzip.decompress((FIXTURES / "stage_matvec" / "trace.json.gz").read_bytes()), 100_000)


numbers = st.integers(0, 10**16).map(lambda ns: Number(f"{ns // 1000}.{ns % 1000:03d}"))
times = numbers | st.sampled_from([
    Number("0"), Number("0.000"), Number("17"), Number("1606910596297023"), Number("12.5"),
    Number("1790857026123456.789"), Number("0.0005"), Number("4398046511104.00049"),
    Number("-3.5"), Number("1e3"), Number("99999999999999999999"), "5123.280", "nan", None,
])  # fmt: skip
ids = st.integers(-2, 200) | st.sampled_from(
    [2**63 + 5, 2**70, -(2**63), "7", "stream 9", "", None]
)
names = st.sampled_from([
    "aten::mm", "gemm", "cudaLaunchKernel", "cudaGraphLaunch_v10000", "Stream Sync", "",
    'a "quoted" one', "C:\\x\\y.py(3): f", "f<{lambda()#1}>, {", "}, {", "},\n  {\n    ",
    "名前", "😀",
])  # fmt: skip
arguments = st.fixed_dictionaries({}, optional={
    "External id": ids, "external id": ids, "device": ids, "stream": ids, "correlation": ids,
    "bytes": ids, "Bytes": ids, "graph node id": ids, "Ev Idx": ids,
    "grid": st.lists(ids, max_size=3), "block": st.lists(st.integers(1, 1024), max_size=3),
    "Input Dims": st.lists(st.lists(st.integers(0, 9), max_size=3), max_size=2),
    "Input type": st.lists(st.sampled_from(["float", "", "c10::BFloat16"]), max_size=2),
    "Concrete Inputs": st.lists(st.sampled_from(["", "[1, 2]", "False"]), max_size=2),
    "cuda_sync_kind": st.sampled_from(["Stream Sync", "Stream Wait Event", "Odd"]),
    "wait_on_cuda_event_record_corr_id": ids, "objects": st.just([{"ph": 1}, {"ph": 2}]),
})  # fmt: skip
events = st.fixed_dictionaries(
    {"ph": st.sampled_from("XXXXXXif"), "ts": times, "dur": times},
    optional={
        "cat": st.sampled_from([
            "cpu_op", "kernel", "gpu_memcpy", "gpu_memset", "cuda_runtime", "cuda_driver",
            "user_annotation", "python_function", "cuda_sync", "overhead", "ac2g", "Kernel",
            "Runtime", "Operator", "Memcpy", "fwdbwd", "",
        ]),
        "name": names,
        "pid": st.sampled_from([0, 1, 414, "Spans", "", -1]),
        "tid": st.sampled_from([7, 414, 1_000_007, "stream 7", "a/b", ""]),
        "args": arguments,
    },
)  # fmt: skip


@settings(max_examples=150)
@given(
    rows=st.lists(events, min_size=1, max_size=40),
    layout=st.sampled_from(LAYOUTS),
    size=st.integers(200, 4_000),
    bare=st.booleans(),
)
def test_any_events_in_any_layout(
    rows: list[dict[str, Any]], layout: str, size: int, bare: bool
) -> None:
    text = lay_out({"schemaVersion": 1}, rows, layout, bare_list=bare).encode()
    if any(reference.read(text)[table] for table in reference.TABLES[:5]):
        compare(text, size, 1 << 20)
    else:
        with pytest.raises(InputError, match="holds no events"):
            in_blocks(text, size)
