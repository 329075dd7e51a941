"""One way of reading a torch trace, in a process of its own, which says what that took.

    python tests/bench/loader_ways.py "json + pandas" trace.json

Each way ends with columns that kernels can be summed over, but the floor, which stops at structs.
The last line is JSON. It needs no more than the way itself: HTA pins packages of its own, and runs
in an environment of its own, by its interpreter.
"""

from __future__ import annotations

import gzip
import importlib
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


def decodeprof_one(path: Path) -> dict[str, Any]:
    """Joined, sorted columns."""
    return _decodeprof(path, two_processes=False)


def decodeprof_two(path: Path) -> dict[str, Any]:
    """The same, with a second process."""
    return _decodeprof(path, two_processes=True)


def _decodeprof(path: Path, *, two_processes: bool) -> dict[str, Any]:
    from decodeprof.ingest.torch_trace import parse_file

    trace, taken = _timed(lambda: parse_file(path, two_processes=two_processes))
    kernels = trace.device.kind == 0
    lengths = trace.device.end_ns - trace.device.start_ns
    return {"kernels": int(kernels.sum()), "kernel_ns": int(lengths[kernels].sum()), **taken}


def _timed(read: Callable[[], Any]) -> tuple[Any, dict[str, float]]:
    """What a parse gives, and its seconds: without the imports, with the processes it started."""
    wall, own = time.perf_counter(), sum(os.times()[:4])
    found = read()
    return found, {
        "parse_wall_s": time.perf_counter() - wall,
        "parse_cpu_s": sum(os.times()[:4]) - own,
    }


def msgspec_floor(path: Path) -> dict[str, int]:
    """The file at once into typed structs of the fields that are needed; no columns."""
    import msgspec

    from decodeprof.ingest.kineto_events import Event

    whole: Any = msgspec.defstruct("Whole", [("traceEvents", list[Event])])
    return {"events": len(msgspec.json.decode(_text(path), type=whole).traceEvents)}


def json_pandas(path: Path) -> dict[str, int]:
    """The standard library's parser, a frame of events, kernels joined to their launches."""
    import pandas as pd

    frame = pd.DataFrame(json.loads(_text(path))["traceEvents"])
    frame = frame[frame["ph"] == "X"].drop(columns=["ph", "id", "bp", "s"], errors="ignore")
    arguments = ["correlation", "stream", "External id"]
    for name in arguments:
        frame[name] = [a.get(name) if isinstance(a, dict) else None for a in frame["args"]]
    frame = frame.drop(columns="args").sort_values("ts")
    kernels = frame[frame["cat"] == "kernel"]
    launches = frame[frame["cat"] == "cuda_runtime"]
    joined = kernels.merge(launches, on="correlation", how="left", suffixes=("", "_launch"))
    return {"kernels": len(joined), "kernel_ns": round(float(joined["dur"].sum()) * 1000)}


def hta(path: Path) -> dict[str, Any]:
    """`TraceAnalysis`, as its users make it; its bare parse is timed on the way."""
    module = importlib.import_module("hta.common.trace")
    analysis = importlib.import_module("hta.trace_analysis")
    bare = module.parse_trace_dataframe
    parse: dict[str, float] = {}

    def timed(*args: Any, **kwargs: Any) -> Any:
        found, taken = _timed(lambda: bare(*args, **kwargs))
        parse.update(taken)
        return found

    module.parse_trace_dataframe = timed  # type: ignore[attr-defined]
    trace = analysis.TraceAnalysis(trace_files={0: str(path)}, trace_dir=str(path.parent)).t
    frame = trace.get_trace(0)
    categories = frame["cat"].map(dict(enumerate(trace.symbol_table.get_sym_table())))
    kernels = frame[categories == "kernel"]
    total_ns = round(float(kernels["dur"].sum()) * 1000)
    return {"kernels": len(kernels), "kernel_ns": total_ns, **parse}


def _text(path: Path) -> bytes:
    data = path.read_bytes()
    return gzip.decompress(data) if path.suffix == ".gz" else data


WAYS: dict[str, Callable[[Path], dict[str, Any]]] = {
    "decodeprof, one process": decodeprof_one,
    "decodeprof, two processes": decodeprof_two,
    "msgspec, floor": msgspec_floor,
    "json + pandas": json_pandas,
    "HTA": hta,
}


def main(way: str, path: str) -> None:
    """Read once; print what was found and the seconds, imports included, as JSON."""
    wall = time.perf_counter()
    found = WAYS[way](Path(path))
    wall_s = time.perf_counter() - wall
    # Of the process since it began, and of those that it started.
    print(json.dumps({**found, "wall_s": wall_s, "cpu_s": sum(os.times()[:4])}))


if __name__ == "__main__":
    main(*sys.argv[1:])
