"""Public exports of three versions: their counts, and something true and useful said of each."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from decodeprof.diagnosis.pipeline import analyze_path
from decodeprof.ingest.nsys.export import Export, read_export
from decodeprof.model.diagnosis import Diagnosis
from decodeprof.model.trace import ActivityKind
from tests.traces import folder, needs_traces

pytestmark = [pytest.mark.traces, needs_traces]
CHOSEN = (ActivityKind.KERNEL, ActivityKind.COPY, ActivityKind.SET, ActivityKind.GRAPH)


def path(name: str) -> Path:
    root = folder()
    assert root is not None
    return root / "nsys" / f"{name}.sqlite"


def read(name: str) -> Export:
    return read_export(path(name))


def diagnosis(name: str) -> Diagnosis:
    return analyze_path(path(name)).diagnosis


def kinds(export: Export) -> tuple[int, ...]:
    return tuple(int((export.whole.device.kind == kind).sum()) for kind in CHOSEN)


class TestTwoProcessesOf2026:
    def test_counts(self) -> None:
        export = read("h100_2gpu")
        whole = export.whole
        assert kinds(export) == (3442, 904, 22, 0)
        assert (len(whole.calls), len(whole.syncs), len(whole.annotations)) == (5796, 244, 16782)
        kernels = whole.device.kind == ActivityKind.KERNEL
        # A join by correlation alone would find launches for 11 more, in the other process.
        assert int((kernels & (whole.device.call == -1)).sum()) == 1810
        assert [(p.pid, p.activities) for p in export.processes] == [(111, 2184), (112, 2184)]

    def test_operators_are_among_its_ranges(self) -> None:
        whole = read("h100_2gpu").whole
        assert "ops" in whole.captured
        assert {"aten::mul", "aten::to"} <= {whole.names[i] for i in whole.ops.name.tolist()}

    def test_what_is_said(self) -> None:
        found = diagnosis("h100_2gpu")
        assert found.verdict.sentence.endswith(
            "Over the whole window the GPU is busy at least 99 %, 98 % of that with copies: 857 of "
            "1,673 launches have no kernel in the recording."
        )
        assert [device.index for device in found.devices] == [0, 1]
        assert any("2 processes used a GPU" in text for text in found.caveats)


class TestGraphsAsAWholeOf2025:
    def test_counts(self) -> None:
        export = read("graph_mode_2025.5")
        assert kinds(export) == (3, 1, 0, 2)
        assert len(export.whole.calls) == 33
        assert (export.whole.device.call != -1).all()

    def test_what_happens_inside_a_graph_is_not_claimed(self) -> None:
        found = diagnosis("graph_mode_2025.5")
        # From 339,231,173 to 339,417,988 ns; the union of 864, 1,440, 1,344, 1,056 ns of kernels
        # and a copy, and of graphs from first node to last: 1,728 and 1,376 ns.
        assert (found.devices[0].busy_ns, found.devices[0].span_ns) == (7_808, 186_815)
        assert "its inside is not known" in found.verdict.sentence
        assert any("--cuda-graph-trace=node" in text for text in found.caveats)
        assert found.counts.graph_launches == 2

    def test_a_launch_into_a_graph_lost_no_kernel(self) -> None:
        found = diagnosis("graph_mode_2025.5")
        assert found.counts.launches == 4
        assert "data-quality" not in [finding.code for finding in found.findings]


class TestEveryTableOf2022:
    def test_copies_that_are_missing_are_no_idle_time(self, tmp_path: Path) -> None:
        copy = tmp_path / "mpi.sqlite"
        copy.write_bytes(path("mpi_2022").read_bytes())
        with closing(sqlite3.connect(copy)) as database:
            database.execute("DROP TABLE CUPTI_ACTIVITY_KIND_MEMCPY")
            database.commit()
        found = analyze_path(copy).diagnosis
        assert found.verdict.sentence.endswith(
            "the GPU is busy at least 8.5 %: 15 calls copy, and no copy is in the recording."
        )

    def test_counts(self) -> None:
        export = read("mpi_2022")
        assert kinds(export) == (5, 15, 0, 0)
        # 95 rows, of which CUDA backtraces repeat 38.
        assert len(export.whole.calls) == 57
        assert (export.whole.device.call != -1).all()

    def test_what_is_said(self) -> None:
        found = diagnosis("mpi_2022")
        assert found.counts.launches == 5
        assert found.counts.launch_calls == {"cudaLaunchKernel": 5}
        assert "a period of 4 activities × 5" in found.verdict.sentence
        assert found.verdict.sentence.endswith(
            "the GPU is busy 34 %, 76 % of that with copies; 99 % of the rest no CUDA call is "
            "under way, and what the host does then was not recorded."
        )
        assert found.devices[0].name == "NVIDIA A100-SXM4-40GB"
