"""Tables hold what the diagnosis and its gaps say, exactly, with missing for unknown."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

import decodeprof
from decodeprof.diagnosis.pipeline import Analyzed, analyze_path
from decodeprof.errors import InputError, UsageError
from decodeprof.export.table_files import write_tables
from decodeprof.export.tables import TABLE_NAMES, Tables, idle_of, tables_of
from decodeprof.model.diagnosis import IDLE_CAUSES
from tests.build import TraceBuilder
from tests.scenarios import US, decode_loop
from tests.write_kineto import write

PLAIN = Path(__file__).parents[2] / "fixtures" / "plain_0p6b"
CAUSES = [f"{cause}_ns" for cause in IDLE_CAUSES]


@pytest.fixture(scope="module")
def analyzed() -> Analyzed:
    return analyze_path(PLAIN)


@pytest.fixture(scope="module")
def tables(analyzed: Analyzed) -> Tables:
    return tables_of(analyzed.diagnosis, idle_of(analyzed.evidence))


def gaps_of(tables: Tables) -> pd.DataFrame:
    assert tables.gaps is not None
    return tables.gaps


def test_busy_and_idle_of_a_step_are_the_step(analyzed: Analyzed, tables: Tables) -> None:
    steps = tables.steps
    assert steps["step"].tolist() == [row.index for row in analyzed.diagnosis.steps.rows]
    parts = steps["busy_ns"] + sum(steps[f"idle_{cause}"] for cause in CAUSES)
    assert (parts == steps["step_ns"]).all()
    shown = analyzed.diagnosis.step
    assert shown is not None
    assert shown.idle_ns is not None
    row = steps.iloc[shown.row]
    assert {c: row[f"idle_{c}_ns"] for c in IDLE_CAUSES} == {
        cause: getattr(shown.idle_ns, cause) for cause in IDLE_CAUSES
    }


def test_the_gaps_of_a_step_are_its_idle_time(tables: Tables) -> None:
    gaps = gaps_of(tables)
    assert (gaps[CAUSES].sum(axis=1) == gaps["length_ns"]).all()
    by_step = gaps.groupby("step")[CAUSES].sum()
    steps = tables.steps.set_index("step")[[f"idle_{cause}" for cause in CAUSES]]
    assert by_step.to_numpy().tolist() == steps.to_numpy().tolist()
    assert gaps["step"].isna().any()  # before the first step, and after the last


def test_a_gap_is_where_the_program_made_it(tmp_path: Path) -> None:
    b = TraceBuilder()
    b.launch("first", 1 * US)  # 5,000 to 6,000
    b.sync()  # returns at 14,000
    b.launch("second", 1 * US)  # called at 14,000, arrives at 19,000
    found = analyze_path(write(tmp_path / "t.json", b.build()))
    gaps = gaps_of(tables_of(found.diagnosis, idle_of(found.evidence)))
    assert len(gaps) == 1
    row = gaps.iloc[0]
    assert (row["start_ns"], row["length_ns"]) == (6_000, 13_000)
    assert (row["ended_by"], row["opened_by"]) == ("second", "cudaStreamSynchronize")
    assert row["device"] == 0
    assert row["step"] is pd.NA


def test_the_other_tables_are_the_lists_of_the_diagnosis(
    analyzed: Analyzed, tables: Tables
) -> None:
    diagnosis = analyzed.diagnosis
    assert tables.syncs["exposed_ns_per_step"].isna().tolist() == [
        row.exposed_ns is None for row in diagnosis.syncs
    ]
    assert tables.syncs["line"].tolist() == [row.line for row in diagnosis.syncs]
    named = [row for row in diagnosis.kernels if row.name is not None]
    assert tables.kernels["name"].tolist() == [row.name for row in named]
    assert tables.kernels["time_ns_per_step"].sum() == sum(r.time_ns_per_step for r in named)
    graph = diagnosis.what_if.cuda_graph
    assert graph is not None
    row = tables.what_ifs.set_index("change").loc["cuda_graph"]
    assert row["step_expected_ns"] == graph.step_ns.expected
    assert tables.findings["code"].tolist() == [row.code for row in diagnosis.findings]


def test_no_number_is_a_float_of_nanoseconds_and_units_are_in_names(tables: Tables) -> None:
    for _, frame in tables.named():
        for name, dtype in frame.dtypes.items():
            if "_ns" in str(name):
                assert str(dtype) == "Int64", name


def test_without_a_trace_gaps_are_unknown_and_not_none(analyzed: Analyzed) -> None:
    tables = tables_of(analyzed.diagnosis)
    assert tables.gaps is None
    assert "idle_sync_ns" not in tables.steps
    assert [name for name, _ in tables.named()] == [n for n in TABLE_NAMES if n != "gaps"]


def test_a_result_makes_the_same_tables(tables: Tables) -> None:
    found = decodeprof.analyze(PLAIN).tables()
    for (name, frame), (other, expected) in zip(found.named(), tables.named(), strict=True):
        assert name == other
        pd.testing.assert_frame_equal(frame, expected)


def test_tables_of_a_trace_without_steps_are_there_and_empty(tmp_path: Path) -> None:
    b = TraceBuilder()
    b.launch("alone", 1 * US)
    found = analyze_path(write(tmp_path / "t.json", b.build()))
    tables = tables_of(found.diagnosis, idle_of(found.evidence))
    assert len(tables.steps) == len(gaps_of(tables)) == len(tables.syncs) == 0
    assert tables.kernels["name"].tolist() == ["alone"]


@pytest.mark.parametrize("format_", ["csv", "parquet"])
def test_files_hold_what_the_tables_hold(tables: Tables, format_: str, tmp_path: Path) -> None:
    folder = tmp_path / "tables"
    assert format_ in ("csv", "parquet")
    paths = write_tables(tables, folder, [format_])  # type: ignore[list-item]
    assert sorted(path.name for path in folder.iterdir()) == sorted(
        f"{name}.{format_}" for name in TABLE_NAMES
    )
    for (name, frame), path in zip(tables.named(), paths, strict=True):
        assert path == folder / f"{name}.{format_}"
        read = (
            pd.read_csv(path, dtype=dict(frame.dtypes))
            if format_ == "csv"
            else pd.read_parquet(path)
        )
        pd.testing.assert_frame_equal(read, frame, check_dtype=False)


def test_names_that_are_hostile_change_no_table(tmp_path: Path) -> None:
    names = ['a,"b\nc', "=1+1", "\x1b[31m", "k" * 10_000]
    b = TraceBuilder()
    for name in names:
        b.launch(name, 1 * US)
    found = analyze_path(write(tmp_path / "t.json", b.build()))
    paths = write_tables(
        tables_of(found.diagnosis, idle_of(found.evidence)), tmp_path / "tables", ["csv"]
    )
    kernels = pd.read_csv(next(path for path in paths if path.name == "kernels.csv"))
    assert sorted(kernels["name"]) == sorted(names)


def test_one_file_that_exists_keeps_all_from_being_written(tables: Tables, tmp_path: Path) -> None:
    (tmp_path / "syncs.csv").write_text("mine")
    with pytest.raises(UsageError, match="exists"):
        write_tables(tables, tmp_path, ["csv"])
    assert [path.name for path in tmp_path.iterdir()] == ["syncs.csv"]
    write_tables(tables, tmp_path, ["csv"], force=True)
    assert (tmp_path / "syncs.csv").read_text() != "mine"
    assert len(list(tmp_path.iterdir())) == len(TABLE_NAMES)


def test_a_table_that_cannot_be_written_leaves_none(
    tables: Tables, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tables.findings, "to_csv", full, raising=True)
    with pytest.raises(InputError, match="cannot write") as raised:
        write_tables(tables, tmp_path / "tables", ["csv"])
    assert raised.value.why == "No space left on device"
    assert list(tmp_path.iterdir()) == []


def test_a_file_in_place_of_the_folder_is_an_error(tables: Tables, tmp_path: Path) -> None:
    (tmp_path / "tables").write_text("")
    with pytest.raises(InputError, match="cannot write into"):
        write_tables(tables, tmp_path / "tables", ["csv"])
    with pytest.raises(InputError, match="cannot write"):
        write_tables(tables, tmp_path / "no" / "tables", ["csv"])


MISSING = """
import sys
sys.modules[{module!r}] = None
from pathlib import Path
from decodeprof.cli import main
main(["export", {path!r}, *{options!r}])
"""


@pytest.mark.parametrize(
    ("module", "options", "error", "extra"),
    [
        ("pandas", ["--csv"], "tables need pandas", "pandas"),
        ("pyarrow", ["--parquet"], "Parquet files need pyarrow", "parquet"),
        (
            "perfetto",
            ["--perfetto"],
            "a Perfetto timeline needs the package `perfetto`",
            "perfetto",
        ),
    ],
)
def test_a_missing_package_is_an_error_that_names_the_extra(
    module: str, options: list[str], error: str, extra: str, tmp_path: Path
) -> None:
    path = write(tmp_path / "t.json", decode_loop().build())
    program = MISSING.format(module=module, path=str(path), options=options)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[0] == f"error: {error}"
    assert f"pip install 'decodeprof[{extra}]'" in done.stderr
    assert [each.name for each in tmp_path.iterdir()] == ["t.json"]
