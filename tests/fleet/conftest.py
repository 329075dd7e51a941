"""The packages of the extra `fleet`, traces to roll up, and what a table says of them."""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from decodeprof.fleet.cluster import cluster
from decodeprof.fleet.run import roll_up_all
from decodeprof.fleet.schema import COLUMNS, arrow_schema
from decodeprof.fleet.sources import Source, find_sources
from decodeprof.fleet.table import Table
from decodeprof.fleet.work import roll_up
from decodeprof.model.rollup import Progress, Summary
from tests.scenarios import US, decode_loop
from tests.write_kineto import kineto

if TYPE_CHECKING:
    from distributed import LocalCluster

for package in ("distributed", "fsspec", "pyarrow"):
    pytest.importorskip(package, reason=f"the extra `fleet` is not installed: no {package}")

GOOD, BAD = 10, 2
"""Traces below `traces`: all different, and of two no trace can be made."""


@pytest.fixture(scope="session")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tree of traces, two of which are bad, and one that is another one's copy."""
    folder = tmp_path_factory.mktemp("fleet") / "traces"
    for index in range(GOOD):
        scenario = decode_loop(steps=4 + index % 3, layers=8, kernel_ns=(2 + index) * US).build()
        path = folder / f"host-{index % 2}" / f"trace-{index:02}.json.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(kineto(scenario), 1, mtime=0))
    (folder / "host-0" / "notes.json").write_text('{"a": 1}')
    (folder / "host-1" / "empty.json").touch()
    copy = (folder / "host-0" / "trace-00.json.gz").read_bytes()
    (folder / "host-1" / "again.json.gz").write_bytes(copy)
    return folder


@pytest.fixture(scope="session")
def workers() -> Iterator[LocalCluster]:
    """A cluster of two worker processes on this machine."""
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        processes=True,
        dashboard_address=None,
        silence_logs=50,
    ) as started:
        yield started


def rolled_up(
    workers: LocalCluster,
    sources: list[Source],
    out: Path | str,
    told: Callable[[Progress], None] = lambda _: None,
) -> Summary:
    """Roll up on a cluster that runs, as `--scheduler` does."""
    table = Table(str(out))
    return roll_up_all(
        sources,
        table,
        done=table.read_done(),
        cluster=lambda: cluster(scheduler=workers.scheduler_address, workers=None),
        told=told,
    )


def table_rows(folder: Path) -> list[dict[str, Any]]:
    """All rows of a table, as any program would read them."""
    import pyarrow.dataset as ds

    return ds.dataset(folder, partitioning="hive").to_table().to_pylist()


def without_name(row: dict[str, Any]) -> str:
    """A row less what depends on which of two copies was read, and on the partition."""
    dropped = {"url", "fingerprint", "day", "schema_version", "started_at"}
    shown = {k: v for k, v in row.items() if k not in dropped and v is not None}
    return repr(sorted(shown.items()))


def expected_rows(sources: list[Source]) -> Counter[str]:
    """The rows of all different traces, made one after another in this process."""
    import pyarrow as pa

    by_hash = {}
    for source in sources:
        outcome = roll_up(source, frozenset())
        by_hash[outcome.content_hash] = outcome.rows
    rows = [{**dict.fromkeys(COLUMNS), **row} for some in by_hash.values() for row in some]
    typed = pa.Table.from_pylist(rows, schema=arrow_schema()).to_pylist()
    return Counter(map(without_name, typed))


@pytest.fixture
def sources(traces: Path) -> list[Source]:
    """What `traces` holds."""
    return find_sources([str(traces)])
