"""How many traces a second does a rollup do? ``python -m tests.bench.rollup_rate``.

Traces of one size, all different and packed, are rolled up by one worker and by two, each time into
a new table and on a cluster that runs already: starting it takes seconds once, whatever the number
of traces. Then a rerun, which finds everything done. Each figure is the fastest of several runs:
other work on the machine can only add to it. Every table is held against the first one, so that no
rate is of work that was left out.
"""

from __future__ import annotations

import argparse
import gzip
import os
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import pyarrow.dataset as ds
from rich.console import Console
from rich.table import Table as Shown

from decodeprof.fleet.cluster import cluster
from decodeprof.fleet.run import roll_up_all
from decodeprof.fleet.sources import Source, find_sources
from decodeprof.fleet.table import Table
from tests.bench.generate import steps_for, write

WORKERS = (1, 2)


def make(folder: Path, *, traces: int, megabytes: float) -> float:
    """Write packed traces, all different; how many megabytes they are unpacked."""
    plain = folder / "plain.json"
    total = 0
    for index in range(traces):
        write(plain, steps=steps_for(megabytes) + index % 3)
        # A name of its own makes each a different trace.
        text = plain.read_bytes().replace(b"generated.json", f"generated-{index}.json".encode())
        (folder / f"trace-{index:04}.json.gz").write_bytes(gzip.compress(text, 1, mtime=0))
        total += len(text)
    plain.unlink()
    return total / 1e6


@dataclass(frozen=True)
class Timed:
    """Seconds of a rollup on a cluster that runs, and of a rerun."""

    seconds: float
    worker_cpu_s: float
    """Processor time of the workers: other work on the machine does not add to it."""
    rerun_s: float


def rolled_up(sources: list[Source], out: Path, *, workers: int, runs: int) -> Timed:
    """The fastest of some rollups, each into a new table, with a rerun."""
    with cluster(scheduler=None, workers=workers) as client:
        address = client.scheduler_info()["address"]

        def once(table: Table) -> float:
            began = time.perf_counter()
            done = table.read_done()
            roll_up_all(
                sources,
                table,
                done=done,
                cluster=lambda: cluster(scheduler=address, workers=None),
            )
            return time.perf_counter() - began

        timed = []
        for _ in range(runs):
            shutil.rmtree(out, ignore_errors=True)
            table = Table(str(out))
            before = sum(client.run(time.process_time).values())
            seconds = once(table)
            spent = sum(client.run(time.process_time).values()) - before
            timed.append(Timed(seconds=seconds, worker_cpu_s=spent, rerun_s=once(table)))
    return min(timed, key=lambda one: one.seconds)


def content(out: Path) -> list[str]:
    """What a table says, in order."""
    return sorted(map(str, ds.dataset(out, partitioning="hive").to_table().to_pylist()))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--traces", type=int, default=24)
    parser.add_argument("--megabytes", type=float, default=20, help="of one trace, unpacked")
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    shown = Shown("workers", "seconds", "traces/s", "MB/s", "× one", "CPU s a trace", "rerun, s")
    with tempfile.TemporaryDirectory(prefix="decodeprof-bench-") as name:
        folder = Path(name)
        (folder / "traces").mkdir()
        megabytes = make(folder / "traces", traces=options.traces, megabytes=options.megabytes)
        sources = find_sources([str(folder / "traces")])
        first: tuple[float, list[str]] | None = None
        for workers in WORKERS:
            out = folder / f"table-{workers}"
            timed = rolled_up(sources, out, workers=workers, runs=options.runs)
            seconds, found = timed.seconds, content(out)
            first = first or (seconds, found)
            assert found == first[1], "the tables differ"
            shown.add_row(
                str(workers),
                f"{seconds:.1f}",
                f"{len(sources) / seconds:.2f}",
                f"{megabytes / seconds:.0f}",
                f"{first[0] / seconds:.2f}",
                f"{timed.worker_cpu_s / len(sources):.2f}",
                f"{timed.rerun_s:.2f}",
            )
    load = os.getloadavg()[0]
    shown.title = (
        f"{options.traces} traces of {megabytes / options.traces:.0f} MB unpacked; load {load:.1f}"
    )
    Console(width=100).print(shown)


if __name__ == "__main__":
    main()
