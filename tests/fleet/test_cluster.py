"""A real cluster of two workers: what is counted, and what a worker that is killed takes along."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from decodeprof.errors import DecodeprofError
from decodeprof.fleet.cluster import cluster
from decodeprof.fleet.run import _outcome, roll_up_all
from decodeprof.fleet.sources import Source, find_sources
from decodeprof.fleet.table import Table
from decodeprof.model.rollup import Progress
from tests.fleet.conftest import BAD, GOOD, expected_rows, rolled_up, table_rows, without_name

if TYPE_CHECKING:
    from distributed import LocalCluster


def test_a_killed_worker_loses_nothing_and_doubles_nothing(
    workers: LocalCluster, sources: list[Source], tmp_path: Path
) -> None:
    from distributed import Client

    killed: list[int] = []

    with Client(workers) as watching:
        pids = watching.run(os.getpid)

        def kill_one(progress: Progress) -> None:
            if progress.done < 3 or killed:
                return
            while not killed:
                busy = [address for address, keys in watching.processing().items() if keys]
                for address in busy[:1]:
                    os.kill(pids[address], signal.SIGKILL)
                    killed.append(pids[address])

        summary = rolled_up(workers, sources, tmp_path / "table", kill_one)
        until = time.monotonic() + 20
        while killed[0] in (now := watching.run(os.getpid)).values() or len(now) < 2:
            assert time.monotonic() < until, "no worker took the killed one's place"
            time.sleep(0.1)
    assert (summary.ok, summary.bad, summary.failed, summary.same) == (GOOD, BAD, 0, 1)
    rows = table_rows(tmp_path / "table")
    assert Counter(map(without_name, rows)) == expected_rows(sources)
    assert summary.steps == sum(row["level"] == "step" for row in rows)


def test_a_second_run_does_what_is_new_and_nothing_else(
    workers: LocalCluster, traces: Path, tmp_path: Path
) -> None:
    copied = tmp_path / "traces"
    shutil.copytree(traces / "host-0", copied)
    out = tmp_path / "table"
    first = rolled_up(workers, find_sources([str(copied)]), out)
    before = sorted(map(str, table_rows(out)))
    again = rolled_up(workers, find_sources([str(copied)]), out)
    assert (again.already, again.ok, again.bad) == (first.ok + first.bad, 0, 0)
    # Another name for known bytes, a trace with new bytes, and one that is new.
    shutil.move(copied / "trace-00.json.gz", copied / "renamed.json.gz")
    shutil.copy(traces / "host-1" / "trace-01.json.gz", copied / "notes.json")
    shutil.copy(traces / "host-1" / "trace-03.json.gz", copied)
    third = rolled_up(workers, find_sources([str(copied)]), out)
    assert (third.already, third.same, third.ok, third.bad) == (first.ok - 1, 1, 2, 0)
    rows = sorted(map(str, table_rows(out)))
    assert set(before) < set(rows)
    assert len(rows) == len(set(rows))


def test_a_run_that_is_broken_off_keeps_what_came_and_the_next_one_does_the_rest(
    workers: LocalCluster, sources: list[Source], tmp_path: Path
) -> None:
    def break_off(progress: Progress) -> None:
        if progress.done == 5:
            raise KeyboardInterrupt

    out = tmp_path / "table"
    with pytest.raises(KeyboardInterrupt):
        rolled_up(workers, sources, out, break_off)
    kept = {row["content_hash"] for row in table_rows(out)}
    assert 4 <= len(kept) <= 5  # two of the five may be copies of each other
    rest = rolled_up(workers, sources, out)
    assert rest.ok + rest.bad == GOOD + BAD - len(kept)
    assert Counter(map(without_name, table_rows(out))) == expected_rows(sources)


def test_what_failed_is_tried_again(workers: LocalCluster, traces: Path, tmp_path: Path) -> None:
    path = tmp_path / "late.json.gz"
    shutil.copy(traces / "host-0" / "trace-00.json.gz", path)
    found = find_sources([str(path)])
    path.unlink()
    first = rolled_up(workers, found, tmp_path / "table")
    assert first.failed == 1
    assert first.errors == [f"{found[0].url}: FileNotFoundError: {_gone(path)}"]
    assert [row["status"] for row in table_rows(tmp_path / "table")] == ["failed"]
    shutil.copy(traces / "host-0" / "trace-00.json.gz", path)
    second = rolled_up(workers, find_sources([str(path)]), tmp_path / "table")
    assert (second.ok, second.failed) == (1, 0)
    assert {row["status"] for row in table_rows(tmp_path / "table")} == {"ok"}


def _gone(path: Path) -> str:
    return f"[Errno 2] No such file or directory: '{path}'"


def test_a_trace_that_kills_its_workers_is_a_row_and_no_dead_job(
    workers: LocalCluster, sources: list[Source]
) -> None:
    from distributed import Client

    scheduler = workers.scheduler
    allowed, scheduler.allowed_failures = scheduler.allowed_failures, 0
    try:
        with Client(workers) as client:
            outcome = _outcome(sources[0], client.submit(os._exit, 1, pure=False))
    finally:
        scheduler.allowed_failures = allowed
    assert outcome.status == "failed"
    assert outcome.rows[0]["error"] == "KilledWorker"


def test_no_scheduler_is_an_error_that_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("decodeprof.fleet.cluster._CONNECT_S", 0.5)
    with (
        pytest.raises(DecodeprofError, match="no Dask scheduler answers"),
        cluster(scheduler="tcp://127.0.0.1:9", workers=None),
    ):
        pass


def test_where_nothing_is_new_no_cluster_is_started(traces: Path, tmp_path: Path) -> None:
    found = find_sources([str(traces / "host-0" / "trace-00.json.gz")])
    table = Table(str(tmp_path / "table"))
    done = table.read_done()
    done.seen.add((found[0].url, found[0].fingerprint))

    def no_cluster() -> None:
        raise AssertionError("a cluster was started")

    summary = roll_up_all(found, table, done=done, cluster=no_cluster)  # type: ignore[arg-type]
    assert (summary.already, summary.ok) == (1, 0)
