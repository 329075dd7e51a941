from __future__ import annotations

from pathlib import Path

import pytest

from decodeprof.errors import InputError, UsageError
from decodeprof.fleet.sources import Source, find_sources
from decodeprof.fleet.table import Table
from decodeprof.fleet.work import error_outcome, roll_up
from tests.fleet.conftest import table_rows


def filled(folder: Path, sources: list[Source]) -> Table:
    table = Table(str(folder / "table"))
    for source in sources:
        table.add(roll_up(source, frozenset()).rows)
    return table


def test_what_is_written_is_done(tmp_path: Path, sources: list[Source]) -> None:
    some = sources[:3]
    done = filled(tmp_path, some).read_done()
    assert done.seen == {(source.url, source.fingerprint) for source in some}
    for source in some:
        assert len(done.known(source)) == 1
    assert Table(str(tmp_path / "new")).read_done().seen == set()


def test_the_same_traces_are_the_same_file(tmp_path: Path, sources: list[Source]) -> None:
    filled(tmp_path, sources[:2])
    before = sorted(tmp_path.rglob("*.parquet")), table_rows(tmp_path / "table")
    filled(tmp_path, sources[:2])
    assert (sorted(tmp_path.rglob("*.parquet")), table_rows(tmp_path / "table")) == before


def test_failed_rows_are_replaced_and_go(tmp_path: Path, sources: list[Source]) -> None:
    table = Table(str(tmp_path / "table"))
    rows = [
        error_outcome(source, None, status="failed", what="gone", why="").rows[0]
        for source in sources[:2]
    ]
    table.put_failed(rows)
    assert [row["url"] for row in table.read_done().failed] == [s.url for s in sources[:2]]
    table.put_failed(rows[:1])
    assert len(table_rows(tmp_path / "table")) == 1
    table.put_failed([])
    table.put_failed([])
    assert list((tmp_path / "table").rglob("*.parquet")) == []


def test_pandas_reads_the_whole_table(tmp_path: Path, sources: list[Source]) -> None:
    pandas = pytest.importorskip("pandas")
    filled(tmp_path, sources)
    frame = pandas.read_parquet(tmp_path / "table")
    assert set(frame["day"].astype(str)) == {"unknown", "2026-11-29"}
    assert set(frame["schema_version"].astype(int)) == {1}
    assert (frame["level"] == "trace").sum() == len(sources) - 1  # one is another one's copy


def test_what_is_no_table_is_not_written_into(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "thesis.tex").write_text("")
    (tmp_path / "newer" / "schema_version=2").mkdir(parents=True)
    for name, why in (("file", "is a file"), ("folder", "no table"), ("newer", "=2")):
        with pytest.raises(UsageError, match=why):
            Table(str(tmp_path / name)).read_done()


def test_a_file_that_is_torn_is_named(tmp_path: Path, sources: list[Source]) -> None:
    table = filled(tmp_path, sources[:1])
    (part,) = (tmp_path / "table").rglob("*.parquet")
    part.write_bytes(part.read_bytes()[:-20])
    with pytest.raises(InputError, match=part.name):
        table.read_done()


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path, traces: Path) -> None:
    (tmp_path / "file").write_text("")
    (source,) = find_sources([str(traces / "host-0" / "trace-00.json.gz")])
    table = Table(str(tmp_path / "file" / "table"))
    with pytest.raises(InputError, match="cannot write"):
        table.add(roll_up(source, frozenset()).rows)
    with pytest.raises(InputError, match="cannot write"):
        table.check_writable()


def test_a_probe_leaves_nothing_behind(tmp_path: Path) -> None:
    Table(str(tmp_path / "table")).check_writable()
    assert [path.name for path in (tmp_path / "table").rglob("*")] == ["schema_version=1"]
