"""A real server that speaks S3, on this machine: traces come from it, and the table goes to it."""

from __future__ import annotations

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

from decodeprof.errors import InputError
from decodeprof.fleet.sources import Source, find_sources
from tests.fleet.conftest import BAD, GOOD, expected_rows, rolled_up, without_name

if TYPE_CHECKING:
    from distributed import LocalCluster

for package in ("s3fs", "moto", "boto3", "flask"):
    pytest.importorskip(package, reason=f"the extra `fleet` or `dev` is not installed: {package}")

START_S = 30


@pytest.fixture(scope="module")
def s3() -> Iterator[dict[str, str]]:
    """An S3 server of its own process; what a program needs in its environment to use it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    endpoint = f"http://127.0.0.1:{port}"
    server = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait_for(endpoint)
        yield {
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_ACCESS_KEY_ID": "testing",
            "AWS_SECRET_ACCESS_KEY": "testing",
            "AWS_DEFAULT_REGION": "us-east-1",
        }
    finally:
        server.terminate()
        server.wait()


def _wait_for(endpoint: str) -> None:
    until = time.monotonic() + START_S
    while True:
        try:
            urllib.request.urlopen(f"{endpoint}/moto-api/", timeout=1).close()
        except (OSError, urllib.error.URLError):
            assert time.monotonic() < until, "the S3 server did not start"
            time.sleep(0.1)
        else:
            return


@pytest.fixture(scope="module")
def bucket(s3: dict[str, str], traces: Path) -> Iterator[Any]:
    """A client of the server, with the traces in a bucket."""
    import boto3

    client = boto3.client(
        "s3",
        endpoint_url=s3["AWS_ENDPOINT_URL"],
        aws_access_key_id="testing",
        aws_secret_access_key="testing",
        region_name="us-east-1",
    )
    client.create_bucket(Bucket="fleet")
    for path in sorted(traces.rglob("*.json*")):
        name = f"day/{path.relative_to(traces)}"
        client.put_object(Bucket="fleet", Key=name, Body=path.read_bytes())
    yield client
    client.close()


def use(endpoint: str) -> None:
    """Let fsspec open s3:// at an endpoint, as its configuration file would."""
    import fsspec

    fsspec.config.conf["s3"] = {"endpoint_url": endpoint, "key": "testing", "secret": "testing"}


@pytest.fixture
def workers_with_s3(s3: dict[str, str], workers: LocalCluster) -> Iterator[LocalCluster]:
    """The workers, which know where the server is; so does this process."""
    import fsspec
    from distributed import Client

    with Client(workers) as client:
        client.run(use, s3["AWS_ENDPOINT_URL"])
    use(s3["AWS_ENDPOINT_URL"])
    yield workers
    del fsspec.config.conf["s3"]


def keys(client: Any) -> list[str]:
    listed = client.list_objects_v2(Bucket="fleet", Prefix="table/").get("Contents", [])
    return [one["Key"] for one in listed]


def rows(client: Any) -> list[dict[str, Any]]:
    import pyarrow.parquet as pq

    found: list[dict[str, Any]] = []
    for key in keys(client):
        data = client.get_object(Bucket="fleet", Key=key)["Body"].read()
        found += pq.read_table(io.BytesIO(data)).to_pylist()
    return found


def test_from_s3_to_s3_and_again(
    workers_with_s3: LocalCluster, bucket: Any, sources: list[Source]
) -> None:
    summary = rolled_up(workers_with_s3, find_sources(["s3://fleet/day/"]), "s3://fleet/table")
    assert (summary.found, summary.ok, summary.bad) == (GOOD + BAD + 1, GOOD, BAD)
    assert (summary.failed, summary.same) == (0, 1)
    assert Counter(map(without_name, rows(bucket))) == expected_rows(sources)
    assert all(row["url"].startswith("s3://fleet/day/host-") for row in rows(bucket))
    names = keys(bucket)
    assert all(name.startswith("table/schema_version=1/day=") for name in names)
    assert all(name.endswith(".parquet") for name in names)

    bucket.put_object(Bucket="fleet", Key="day/new.json", Body=b"[]")
    found = find_sources(["s3://fleet/day/**/*.json*", "s3://fleet/day/"])
    again = rolled_up(workers_with_s3, found, "s3://fleet/table")
    assert (again.ok, again.bad, again.failed) == (0, 1, 0)
    # The one that is another one's copy has no row, so that it is read again, and found to be it.
    assert (again.already, again.same) == (GOOD + BAD, 1)


def test_the_command_takes_the_endpoint_from_the_environment_and_tells_what_is_not_there(
    s3: dict[str, str], bucket: Any
) -> None:
    assert bucket is not None
    done = subprocess.run(
        [sys.executable, "-m", "decodeprof", "rollup", "s3://nowhere/*.json", "--out=s3://fleet/o"],
        env={**os.environ, **s3},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("error: `s3://nowhere/*.json` names no trace\n")


def test_no_bucket_is_made_for_a_table(
    workers_with_s3: LocalCluster, bucket: Any, sources: list[Source]
) -> None:
    with pytest.raises(InputError, match="cannot write the table `s3://mistyped/o`"):
        rolled_up(workers_with_s3, sources, "s3://mistyped/o")
    assert [one["Name"] for one in bucket.list_buckets()["Buckets"]] == ["fleet"]


def test_a_server_that_is_not_there_is_told_before_any_work(traces: Path) -> None:
    gone = {"AWS_ENDPOINT_URL": "http://127.0.0.1:9", "AWS_ACCESS_KEY_ID": "a"}
    done = subprocess.run(
        [sys.executable, "-m", "decodeprof", "rollup", str(traces), "--out=s3://fleet/o"],
        env={**os.environ, **gone, "AWS_SECRET_ACCESS_KEY": "b", "AWS_MAX_ATTEMPTS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("error: cannot read the table `s3://fleet/o`\n")
    assert "127.0.0.1:9" in done.stderr
