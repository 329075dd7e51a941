"""A trace of very many events, made as columns; what its timeline takes: ``python -m`` this.

    python -m tests.export.perfetto.many 1000000 timeline.pftrace

prints the CPU seconds that writing took, the bytes by which the process grew meanwhile beyond its
peak before, and the bytes of the file, as JSON.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

from decodeprof.diagnosis.evidence import gather
from decodeprof.diagnosis.load import Loaded
from decodeprof.export.perfetto.timeline import write_timeline
from decodeprof.model.calls import CallKind
from decodeprof.model.trace import CallTable, DeviceTable, Trace


def many(events: int) -> Trace:
    """Half the events are launches, half the kernels that they launch, one after another."""
    n = events // 2
    starts = np.arange(n, dtype=np.int64) * 5_000
    numbers = np.arange(1, n + 1, dtype=np.int64)
    none = np.full(n, -1, np.int64)
    calls = CallTable(
        start_ns=starts,
        end_ns=starts + 3_000,
        name=np.zeros(n, np.int32),
        kind=np.full(n, int(CallKind.LAUNCH), np.int8),
        thread=np.zeros(n, np.int32),
        correlation=numbers,
        external=none,
    )
    device = DeviceTable(
        start_ns=starts + 4_000,
        end_ns=starts + 6_000,
        kind=np.zeros(n, np.int8),
        name=(1 + np.arange(n) % 50).astype(np.int32),
        device=np.zeros(n, np.int32),
        stream=np.full(n, 7, np.int64),
        correlation=numbers,
        call=np.arange(n, dtype=np.int64),
        bytes=none,
        graph_node=none,
        external=none,
        blocks=np.full(n, 4, np.int64),
        threads_per_block=np.full(n, 128, np.int64),
    )
    nothing = Trace.nothing("many")
    names = ("cudaLaunchKernel", *(f"kernel_{k}" for k in range(50)))
    return Trace(
        **{
            **vars(nothing),
            "names": names,
            "threads": ("1",),
            "calls": calls,
            "device": device,
            "captured": frozenset({"device", "calls"}),
        }
    )


class Written(NamedTuple):
    """What a timeline took."""

    seconds: float
    grown_bytes: int
    """By how much the process's peak memory grew."""
    file_bytes: int


def written(events: int, file: Path) -> Written:
    """What the timeline of so many events takes, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", __name__, str(events), str(file)],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[3],
    )
    return Written(*json.loads(done.stdout))


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _write(events: int, file: Path) -> Written:
    evidence = gather(Loaded(trace=many(events), recording=None, name="many"))
    before, began = _peak_bytes(), time.process_time()
    with file.open("wb") as opened:
        write_timeline(evidence, opened)
    seconds = time.process_time() - began
    return Written(seconds, _peak_bytes() - before, file.stat().st_size)


if __name__ == "__main__":
    print(json.dumps(_write(int(sys.argv[1]), Path(sys.argv[2]))))
