"""Schemas are probed: what is missing is named or unknown, and what is odd joins no strangers."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from decodeprof.diagnosis.pipeline import analyze_path
from decodeprof.errors import InputError, UsageError
from decodeprof.ingest.nsys.export import read_export
from decodeprof.ingest.read import read_trace
from decodeprof.model.calls import CallKind
from decodeprof.model.trace import SYNC_KINDS, Trace
from tests import write_nsys
from tests.build import TraceBuilder
from tests.reading import content
from tests.scenario import Scenario
from tests.scenarios import US, decode_loop
from tests.write_nsys import SCHEMAS, as_nsys_sees

KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"
CALLS = "CUPTI_ACTIVITY_KIND_RUNTIME"


def small() -> Scenario:
    return as_nsys_sees(decode_loop(steps=2, layers=1).build())


def edited(folder: Path, *statements: str, what: Scenario | None = None) -> Path:
    """An export with changes made to it afterwards."""
    path = write_nsys.write(folder / "report.sqlite", what or small())
    with closing(sqlite3.connect(path)) as database:
        for statement in statements:
            database.execute(statement)
        database.commit()
    return path


def names(trace: Trace) -> set[str]:
    return {trace.names[i] for i in trace.device.name.tolist()}


@pytest.mark.parametrize("version", [2, 3])
def test_a_table_may_have_a_number(tmp_path: Path, version: int) -> None:
    plain = read_trace(edited(tmp_path))
    (tmp_path / "report.sqlite").unlink()
    path = edited(
        tmp_path,
        f"ALTER TABLE {KERNELS} RENAME TO {KERNELS}_V{version}",
        f"CREATE TABLE {KERNELS} (start INTEGER, end INTEGER)",
    )
    assert content(read_trace(path)) == content(plain)


@pytest.mark.parametrize(
    ("table", "column"),
    [(KERNELS, "streamId"), (CALLS, "correlationId"), ("NVTX_EVENTS", "eventType")],
)
def test_a_missing_column_is_named(tmp_path: Path, table: str, column: str) -> None:
    path = edited(tmp_path, f"ALTER TABLE {table} DROP COLUMN {column}")
    with pytest.raises(InputError) as caught:
        read_trace(path)
    assert caught.value.why == f"table {table} has no {column}"


@pytest.mark.parametrize("column", ["gridX", "graphNodeId", "globalPid", "greenContextId"])
def test_columns_that_older_versions_lack_are_not_needed(tmp_path: Path, column: str) -> None:
    whole = read_trace(edited(tmp_path))
    (tmp_path / "report.sqlite").unlink()
    trace = read_trace(edited(tmp_path, f"ALTER TABLE {KERNELS} DROP COLUMN {column}"))
    assert (trace.device.call == whole.device.call).all()
    blocks = trace.device.blocks[trace.device.kind == 0]
    assert set(blocks.tolist()) == ({-1} if column == "gridX" else {16})


def test_short_names_stand_in_for_long_ones(tmp_path: Path) -> None:
    path = edited(tmp_path, f"ALTER TABLE {KERNELS} DROP COLUMN demangledName")
    assert "flash_fwd_kernel" in names(read_trace(path))


def test_without_calls_nothing_is_said_of_the_host(tmp_path: Path) -> None:
    path = edited(tmp_path, f"DROP TABLE {CALLS}")
    trace = read_trace(path)
    assert "calls" not in trace.captured
    assert (trace.device.call == -1).all()
    found = analyze_path(path).diagnosis
    assert "No API calls were recorded: why the device was idle is not known." in found.caveats


def test_an_export_without_devices_texts_or_processes_is_read(tmp_path: Path) -> None:
    tables = ("TARGET_INFO_GPU", "TARGET_INFO_CUDA_DEVICE", "PROCESSES", "StringIds")
    trace = read_trace(edited(tmp_path, *(f"DROP TABLE {table}" for table in tables)))
    assert [device.name for device in trace.devices] == [None]
    assert all(name.startswith(("kernel ", "Memcpy ")) for name in names(trace))


def test_without_names_no_call_is_counted_as_one_that_does_not_wait(tmp_path: Path) -> None:
    path = edited(tmp_path, "DROP TABLE StringIds")
    trace = read_trace(path)
    assert "calls" not in trace.captured
    assert trace.caveats == (
        f"{int((trace.device.kind == 0).sum())} kernels without a name in this export, named by "
        "number",
        "this export has no API call's name (table StringIds): which calls launch, wait or copy is "
        "not known, and none of them is counted",
    )
    found = analyze_path(path).diagnosis
    assert (found.counts.launches, found.counts.sync_calls) == (0, {})
    assert found.steps.decode == 0


def test_some_names_that_are_missing_are_counted(tmp_path: Path) -> None:
    whole = read_trace(edited(tmp_path))
    (tmp_path / "report.sqlite").unlink()
    trace = read_trace(edited(tmp_path, "DELETE FROM StringIds WHERE value LIKE 'cudaStream%'"))
    lost = int((whole.calls.kind == CallKind.SYNC).sum())
    assert lost
    assert trace.caveats == (
        f"{lost} API calls without a name in this export, taken for calls that neither launch nor "
        "wait",
    )


@pytest.mark.parametrize("column", ["id", "value"])
def test_names_without_their_columns_are_no_damage(tmp_path: Path, column: str) -> None:
    with pytest.raises(InputError) as caught:
        read_trace(edited(tmp_path, f"ALTER TABLE StringIds RENAME COLUMN {column} TO other"))
    assert caught.value.why == f"table StringIds has no {column}"


def test_a_table_whose_calls_are_there_is_missing_and_named(tmp_path: Path) -> None:
    trace = read_trace(edited(tmp_path, "DROP TABLE CUPTI_ACTIVITY_KIND_MEMCPY"))
    copies = int(np.isin(trace.calls.kind, [CallKind.COPY, CallKind.BLOCKING_COPY]).sum())
    assert trace.caveats == (
        f"this export has no table CUPTI_ACTIVITY_KIND_MEMCPY, and {copies} calls copy: the device "
        "counts as idle while it did that",
    )
    (tmp_path / "report.sqlite").unlink()
    with pytest.raises(InputError) as caught:
        analyze_path(edited(tmp_path, f"DROP TABLE {KERNELS}"))
    assert f"this export has no table {KERNELS}" in caught.value.why


def test_ranges_without_their_text_are_named_by_number(tmp_path: Path) -> None:
    b = decode_loop(steps=2, layers=1)
    with b.annotation("mine"):
        b.work(1 * US)
    what = as_nsys_sees(b.build())
    path = edited(tmp_path, "DELETE FROM StringIds WHERE value = 'mine'", what=what)
    trace = read_trace(path)
    assert trace.names[trace.annotations.name[0]].startswith("NVTX text ")
    assert "1 NVTX range without a text in this export, named by number" in trace.caveats


def test_a_range_that_was_never_closed_is_left_out_and_said(tmp_path: Path) -> None:
    b = decode_loop(steps=2, layers=1)
    for name in ("closed", "open"):
        with b.annotation(name):
            b.work(1 * US)
    statement = (
        "UPDATE NVTX_EVENTS SET end = NULL WHERE textId = "
        "(SELECT id FROM StringIds WHERE value = 'open')"
    )
    trace = read_trace(edited(tmp_path, statement, what=as_nsys_sees(b.build())))
    assert [trace.names[i] for i in trace.annotations.name.tolist()] == ["closed"]
    assert trace.caveats == ("1 NVTX range that was never closed was left out",)


def test_ranges_that_operators_push_are_operators(tmp_path: Path) -> None:
    b = decode_loop(steps=2, layers=1)
    with b.annotation("aten::argmax, op_id = 4711"):
        b.launch("reduce", 1 * US)
    with b.annotation("forward, seq = 3"):
        b.launch("reduce", 1 * US)
    path = write_nsys.write(tmp_path / "report.sqlite", as_nsys_sees(b.build()))
    trace = read_trace(path)
    assert "ops" in trace.captured
    assert [trace.names[i] for i in trace.ops.name.tolist()] == ["aten::argmax"]
    ranges = [trace.names[i] for i in trace.annotations.name.tolist()]
    assert ranges == ["aten::argmax", "forward, seq = 3"]


@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda schema: schema.version[:4])
def test_waits_are_told_by_what_was_called(tmp_path: Path, schema: write_nsys.Schema) -> None:
    b = TraceBuilder()
    b.launch("a", 9 * US)
    b.stream_wait(waiting=20, on=7, recorded=True)
    b.launch("b", 2 * US, stream=20)
    b.sync(stream=20, recorded=True)
    b.sync("cudaDeviceSynchronize", recorded=True)
    path = write_nsys.write(tmp_path / "report.sqlite", as_nsys_sees(b.build()), schema)
    kinds = [SYNC_KINDS[kind] for kind in read_trace(path).syncs.kind.tolist()]
    assert kinds == ["Stream Wait Event", "Stream Sync", "Context Sync"]


def test_a_wait_knows_the_call_that_recorded_its_event(tmp_path: Path) -> None:
    b = TraceBuilder()
    b.launch("a", 9 * US)
    b.stream_wait(waiting=20, on=7, recorded=True)
    b.launch("b", 2 * US, stream=20)
    what = as_nsys_sees(b.build())
    recorded = next(c for c in what.calls if c.name == "cudaEventRecord").correlation
    path = edited(
        tmp_path,
        "UPDATE CUPTI_ACTIVITY_KIND_SYNCHRONIZATION SET eventId = 7, eventSyncId = 70",
        "CREATE TABLE CUPTI_ACTIVITY_KIND_CUDA_EVENT AS SELECT globalPid, 7 AS eventId, "
        f"70 AS eventSyncId, {recorded} AS correlationId "
        "FROM CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
        what=what,
    )
    assert read_trace(path).syncs.recorded_by.tolist() == [recorded]


def test_a_call_that_backtraces_repeat_counts_once(tmp_path: Path) -> None:
    path = write_nsys.write(tmp_path / "report.sqlite", small(), write_nsys.NSYS_2022)
    trace = read_trace(path)
    assert len(trace.calls) == len(small().calls)
    starts = {call.start_ns for call in small().calls}
    first = min(starts)
    assert set(trace.calls.start_ns.tolist()) == {start - first for start in starts}


class TestSeveralProcesses:
    """Correlation ids are unique within a process, and steps are of one."""

    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        other = decode_loop(steps=3, layers=2, kernel_ns=5 * US).build()
        late = replace(
            as_nsys_sees(other),
            activities=tuple(replace(a, device=1) for a in other.activities),
            # What it launched first was launched before nsys began.
            calls=other.calls[3:],
        )
        return write_nsys.write(tmp_path / "two.sqlite", small(), also=[(430, late)])

    def test_launches_are_joined_within_a_process(self, path: Path) -> None:
        whole = read_export(path).whole
        linked = whole.device.call != -1
        of_device = [whole.threads[whole.calls.thread[c]] for c in whole.device.call[linked]]
        devices = whole.device.device[linked].tolist()
        assert {(t.partition("/")[0], d) for t, d in zip(of_device, devices, strict=True)} == {
            ("429", 0),
            ("430", 1),
        }
        assert int((~linked).sum()) == 3

    def test_the_busiest_is_taken_and_the_others_are_named(self, path: Path) -> None:
        found = analyze_path(path).diagnosis
        assert [device.index for device in found.devices] == [0, 1]
        assert found.counts.kernels > found.steps.rows[0].kernels * 3  # type: ignore[operator]
        (said,) = (text for text in found.caveats if "processes" in text)
        assert "steps and causes are of process 430 (python3), with 48 activities" in said
        assert "not of 429 (24 activities)" in said

    def test_one_that_launched_and_of_which_nothing_was_recorded_is_named(self, path: Path) -> None:
        with closing(sqlite3.connect(path)) as database:
            for kind in ("KERNEL", "MEMCPY"):
                table = f"CUPTI_ACTIVITY_KIND_{kind}"
                database.execute(f"DELETE FROM {table} WHERE globalPid >> 24 & 16777215 = 429")
            database.commit()
        found = analyze_path(path).diagnosis
        (said,) = (text for text in found.caveats if "processes" in text)
        assert "steps and causes are of process 430 (python3), with 48 activities" in said
        assert "launches, of which nothing was recorded)" in said
        # The other one's launches are no kernels that this one has lost.
        assert "have no kernel" not in found.verdict.sentence
        with pytest.raises(InputError, match="no process 429 with GPU activity"):
            analyze_path(path, process=429)

    @pytest.mark.parametrize(
        "change",
        [
            f"ALTER TABLE {KERNELS} DROP COLUMN globalPid",
            f"UPDATE {KERNELS} SET globalPid = NULL WHERE rowid = 1",
        ],
    )
    def test_kernels_of_nobody_are_not_given_to_a_process_of_their_own(
        self, path: Path, change: str
    ) -> None:
        with closing(sqlite3.connect(path)) as database:
            database.execute(change)
            database.commit()
        with pytest.raises(InputError, match="does not say whose") as caught:
            read_trace(path)
        assert caught.value.why is not None
        assert "2 processes called CUDA" in caught.value.why
        assert "globalPid" in caught.value.why

    def test_another_is_named(self, path: Path, tmp_path: Path) -> None:
        alone = write_nsys.write(tmp_path / "one.sqlite", small())
        named = analyze_path(path, process=429).diagnosis
        single = analyze_path(alone).diagnosis
        assert named.step == single.step
        assert named.steps == single.steps
        assert named.counts.kernels > single.counts.kernels

    def test_a_process_that_is_not_there_is_refused(self, path: Path) -> None:
        with pytest.raises(InputError, match="no process 1 with GPU activity") as caught:
            analyze_path(path, process=1)
        assert "430 (48 activities)" in caught.value.hint

    def test_no_process_can_be_named_of_a_torch_trace(self, tmp_path: Path) -> None:
        trace = tmp_path / "trace.json"
        trace.write_text('{"traceEvents": []}')
        with pytest.raises(UsageError, match="`--process` does not apply"):
            analyze_path(trace, process=1)


def test_an_unknown_call_is_neither_launch_nor_wait(tmp_path: Path) -> None:
    path = edited(tmp_path, "DELETE FROM StringIds WHERE value LIKE 'cudaLaunchKernel%'")
    trace = read_trace(path)
    assert not (trace.calls.kind == CallKind.LAUNCH).any()
    assert (trace.calls.kind == CallKind.OTHER).sum() > 5
