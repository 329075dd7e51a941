from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from decodeprof.errors import DecodeprofError, UsageError
from decodeprof.fleet.sources import find_sources, store_errors
from decodeprof.fleet.table import Table
from decodeprof.fleet.work import roll_up
from tests.fleet.conftest import BAD, GOOD


def names(*patterns: str) -> list[str]:
    return [source.url.rpartition("/")[2] for source in find_sources(patterns)]


def test_a_folder_is_all_traces_below_it(traces: Path) -> None:
    found = find_sources([str(traces)])
    assert len(found) == GOOD + BAD + 1
    assert [source.url for source in found] == sorted(source.url for source in found)
    assert all(source.url.startswith("file:///") for source in found)


def test_globs_and_names_that_meet_are_one_trace(traces: Path) -> None:
    one = str(traces / "host-0" / "trace-00.json.gz")
    assert names(f"{traces}/host-0/trace-0*.gz", one, f"file://{one}") == [
        f"trace-0{n}.json.gz" for n in (0, 2, 4, 6, 8)
    ]


def test_a_recording_is_one_source_and_its_files_are_none(tmp_path: Path) -> None:
    run = tmp_path / "runs" / "generate-001"
    run.mkdir(parents=True)
    for name in ("recording.json", "trace.json.gz", "diagnosis.json"):
        (run / name).write_text("{}")
    for name in ("loose.json", ".hidden.json", "_tmp.json", "notes.txt"):
        (tmp_path / "runs" / name).write_text("{}")
    found = find_sources([str(tmp_path / "runs")])
    assert [(s.url.rpartition("/")[2], s.recording) for s in found] == [
        ("generate-001", True),
        ("loose.json", False),
    ]
    assert find_sources([str(run)]) == [found[0]]


def test_a_name_with_a_bracket_is_a_name(tmp_path: Path) -> None:
    (tmp_path / "a[1].json").write_text("{}")
    assert names(str(tmp_path / "a[1].json")) == ["a[1].json"]


def test_the_fingerprint_changes_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text("{}")
    (before,) = find_sources([str(path)])
    assert find_sources([str(tmp_path)]) == [before]
    path.write_text("{ }")
    (after,) = find_sources([str(path)])
    assert (after.url, after.bytes) == (before.url, 3)
    assert after.fingerprint != before.fingerprint


@pytest.mark.parametrize("name", ["nothing.json", "*.json", "folder"])
def test_what_names_nothing_is_asked_wrongly(name: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(UsageError, match="names no trace"):
        find_sources([str(tmp_path / name)])


def test_a_protocol_that_nobody_knows_is_told() -> None:
    with pytest.raises(DecodeprofError, match="cannot open `gopher://bucket/x`"):
        find_sources(["gopher://bucket/x"])


@pytest.mark.parametrize(
    ("url", "package", "hint"),
    [
        ("gs://bucket/x", "gcsfs", "pip install gcsfs"),
        ("s3://bucket/x", "s3fs", "pip install 'decodeprof[fleet]'"),
        (
            "hdfs://namenode/x",
            "pyarrow.fs",
            "hdfs:// needs a Hadoop client with its libhdfs and Java",
        ),
    ],
)
def test_a_protocol_whose_package_is_missing_says_what_to_install(
    url: str, package: str, hint: str
) -> None:
    # A process of its own, in which the package cannot be imported.
    program = (
        f"import sys; sys.modules[{package!r}] = None; from decodeprof.__main__ import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "rollup", url, "--out=table"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    what, why, told = done.stderr.splitlines()
    assert what == f"error: cannot open `{url}`"
    assert "Error: " in why
    assert told.startswith(f"hint: {hint}")


def test_a_store_that_only_fsspec_knows_holds_traces_and_a_table(traces: Path) -> None:
    import fsspec

    store = fsspec.filesystem("memory")
    for path in sorted(traces.rglob("trace-*.json.gz")):
        store.pipe_file(f"/lot/{path.name}", path.read_bytes())
    try:
        found = find_sources(["memory://lot/"])
        assert len(found) == GOOD
        table = Table("memory://table")
        table.check_writable()
        for source in found:
            outcome = roll_up(source, frozenset())
            assert outcome.status == "ok"
            table.add(outcome.rows)
        done = table.read_done()
        assert done.seen == {(source.url, source.fingerprint) for source in found}
        assert not [name for name in store.find("/table") if "unfinished" in name]
    finally:
        store.rm("/lot", recursive=True)
        store.rm("/table", recursive=True)


def test_a_store_behind_a_host_is_looked_for_there_by_the_workers(
    traces: Path, tmp_path: Path
) -> None:
    """The file system of hdfs:// is Arrow's adapter; here it is over Arrow's local files."""
    import fsspec
    import pyarrow.fs
    from fsspec.implementations.arrow import ArrowFSWrapper, HadoopFileSystem

    class Cluster(ArrowFSWrapper):
        protocol = "cluster"
        _get_kwargs_from_urls = staticmethod(HadoopFileSystem._get_kwargs_from_urls)

        def __init__(self, *, host: str, port: int = 0, **options: object) -> None:
            assert (host, port) == ("namenode", 8020)
            super().__init__(pyarrow.fs.LocalFileSystem(), **options)

        def mv(self, path1: str, path2: str, **options: object) -> None:
            assert not self.exists(path2), "as HDFS has it"
            super().mv(path1, path2, **options)

    fsspec.register_implementation("cluster", Cluster, clobber=True)
    found = find_sources([f"cluster://namenode:8020{traces}/"])
    assert len(found) == GOOD + BAD + 1
    assert all(s.url.startswith(f"cluster://namenode:8020{traces}/host-") for s in found)
    assert find_sources([f"cluster://namenode:8020{traces}/**/*.json*"]) == found
    table = Table(f"cluster://namenode:8020{tmp_path}/table")
    table.check_writable()
    failed = []
    for source in found:
        outcome = roll_up(source, frozenset())
        if outcome.status == "ok":
            table.add(outcome.rows)
        else:
            failed += outcome.rows
            table.put_failed(failed)
    assert table.read_done().seen >= {
        (s.url, s.fingerprint) for s in found if "trace-" in s.url and "trace-00" not in s.url
    }
    assert len(table.read_done().failed) == BAD
    assert not list(tmp_path.rglob("*unfinished*"))


def test_a_password_in_a_url_is_in_no_source(traces: Path) -> None:
    from decodeprof.fleet.sources import _at, _host_of

    class Store:
        @staticmethod
        def _get_kwargs_from_urls(url: str) -> dict[str, str]:
            return {"host": url}

    (one, *_) = find_sources([str(traces)])
    named = _at(one, _host_of(Store(), "ftp://me:secret@there:21/x"))
    assert named.url.startswith("file://me@there:21/")


def test_an_error_of_a_store_is_told_by_its_first_line() -> None:
    with (
        pytest.raises(DecodeprofError) as told,
        store_errors("cannot list `hdfs://x`", hint="install it"),
    ):
        raise OSError("no libjvm\nnot in /a\nnot in /b")
    assert (told.value.what, told.value.why) == ("cannot list `hdfs://x`", "OSError: no libjvm")
