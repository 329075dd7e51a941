"""A server that speaks Google Cloud Storage's API, on this machine, behind gs:// URLs."""

from __future__ import annotations

import importlib.util
import io
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from decodeprof.errors import UsageError
from decodeprof.fleet.sources import Source, find_sources
from tests.fleet.conftest import BAD, GOOD, expected_rows, rolled_up, without_name

if TYPE_CHECKING:
    from distributed import LocalCluster

# Not imported yet: gcsfs reads its settings from the environment when it is.
if any(importlib.util.find_spec(name) is None for name in ("gcsfs", "gcp_storage_emulator")):
    pytest.skip("gcsfs or gcp-storage-emulator is not installed", allow_module_level=True)

START_S = 30
SETTING = "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT"


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    """The server, a process of its own that keeps all in memory."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = ["start", "--host=127.0.0.1", f"--port={port}", "--in-memory"]
    server = subprocess.Popen(
        [sys.executable, "-m", "gcp_storage_emulator", *command],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait_for(f"http://127.0.0.1:{port}")
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait()


def _wait_for(endpoint: str) -> None:
    until = time.monotonic() + START_S
    while True:
        try:
            urllib.request.urlopen(f"{endpoint}/storage/v1/b?project=x", timeout=1).close()
        except (OSError, urllib.error.URLError):
            assert time.monotonic() < until, "the server did not start"
            time.sleep(0.1)
        else:
            return


def use(endpoint: str) -> None:
    """Let fsspec open gs:// at an endpoint, without credentials."""
    # Another API, for kinds of buckets that the server does not know, and which needs credentials.
    os.environ[SETTING] = "false"
    import fsspec

    fsspec.config.conf["gs"] = {"endpoint_url": endpoint, "token": "anon"}


@pytest.fixture
def workers_with_gs(
    endpoint: str, workers: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> Iterator[LocalCluster]:
    """The workers, which know where the server is; so does this process."""
    import fsspec
    from distributed import Client, WorkerPlugin

    class Uses(WorkerPlugin):  # type: ignore[misc]
        """On workers that take a killed one's place, too, whenever they come."""

        def setup(self, worker: Any) -> None:
            del worker
            use(endpoint)

    with Client(workers) as client:
        client.register_plugin(Uses(), name="gs")
    monkeypatch.setenv(SETTING, "false")  # Gone again after the test.
    use(endpoint)
    yield workers
    del fsspec.config.conf["gs"]


@pytest.fixture
def bucket(workers_with_gs: LocalCluster, traces: Path) -> Any:
    """The store, with the traces in a bucket."""
    del workers_with_gs
    import fsspec

    store = fsspec.filesystem("gs", use_listings_cache=False)
    store.mkdir("fleet")
    for path in sorted(traces.rglob("*.json*")):
        store.pipe_file(f"fleet/day/{path.relative_to(traces)}", path.read_bytes())
    return store


def rows(store: Any) -> list[dict[str, Any]]:
    import pyarrow.parquet as pq

    found: list[dict[str, Any]] = []
    for name in store.find("fleet/table"):
        found += pq.read_table(io.BytesIO(store.cat_file(name))).to_pylist()
    return found


def test_from_gs_to_gs_and_again(
    workers_with_gs: LocalCluster, bucket: Any, sources: list[Source]
) -> None:
    summary = rolled_up(workers_with_gs, find_sources(["gs://fleet/day/"]), "gs://fleet/table")
    assert (summary.found, summary.ok, summary.bad) == (GOOD + BAD + 1, GOOD, BAD)
    assert (summary.failed, summary.same) == (0, 1)
    assert Counter(map(without_name, rows(bucket))) == expected_rows(sources)
    assert all(row["url"].startswith("gs://fleet/day/host-") for row in rows(bucket))
    names = bucket.find("fleet/table")
    assert all(name.startswith("fleet/table/schema_version=1/day=") for name in names)
    assert all(name.endswith(".parquet") for name in names)

    again = rolled_up(
        workers_with_gs, find_sources(["gs://fleet/day/**/*.json*"]), "gs://fleet/table"
    )
    assert (again.ok, again.bad, again.failed) == (0, 0, 0)
    assert (again.already, again.same) == (GOOD + BAD, 1)

    with pytest.raises(UsageError, match="names no trace"):
        find_sources(["gs://nowhere/*.json"])
