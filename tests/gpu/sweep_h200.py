"""Measure the sweeps of the passage from launch-bound to memory-bound on this GPU.

    PYTHONPATH=. python tests/gpu/sweep_h200.py --out DIR [--part toy …] [--seconds N] [--gpus N]

Without a part, all that are chosen below run, each in a process of its own and within its own
time; with several GPUs as many at a time. DIR/<part> is what `decodeprof sweep --show` reads. Each
point is written as soon as it ends, so that a run that is cut off loses one point, and a run with
the same DIR goes on where it ended. Traces, zipped, lie beside the points: of the first one, from
which the others are predicted, of the first behind the crossing, and of the last.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import queue
import statistics
import subprocess
import sys
import tarfile
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

from decodeprof.reference.sweep.spec import SweepSpec

POWERS = tuple(2**power for power in range(18))


def upto(last: int, first: int = 1) -> tuple[int, ...]:
    return tuple(value for value in POWERS if first <= value <= last)


def batch(last: int, **settings: Any) -> SweepSpec:
    return SweepSpec(phase="decode", axis="batch", values=upto(last), **settings)


PARTS = {
    "toy": SweepSpec(phase="toy", axis="batch", values=upto(16_384)),
    "batch06": batch(1024, shape="0.6b"),
    "batch8x4": batch(1024, shape="8b", layers=4),
    # Rows of one text: attention has one block a head, and no more of the device to spread over.
    "context": SweepSpec(
        phase="decode", axis="context", values=upto(131_072, first=128), shape="0.6b"
    ),
    "prompt": SweepSpec(
        phase="prefill", axis="prompt", values=upto(16_384, first=16), shape="0.6b"
    ),
    "graph": batch(512, shape="0.6b", context=1024, fused=True),
    "layers": SweepSpec(phase="decode", axis="layers", values=(1, 4, 12, 28), shape="0.6b"),
    "width": SweepSpec(
        phase="decode", axis="width", values=(1024, 2048, 4096, 8192), shape="0.6b", layers=4
    ),
}
SECONDS = {
    "toy": 150, "batch06": 170, "batch8x4": 130, "context": 170, "prompt": 180, "graph": 150,
    "layers": 60, "width": 60, "speculative": 150,
}  # fmt: skip
CHOSEN = ("prompt", "batch06", "context", "graph", "speculative", "toy", "batch8x4")
"""The parts that run when none is named, longest first."""
TRACED_STEPS = {"first": 3, "crossing": 2, "last": 2}
"""Of three steps the second is whole and steady; of the others only the structure is asked."""
GRAPH_REPLAYS = 4
CONVERGED = 1.1
"""A graph gains less than this behind the crossing, where both curves run together."""
GRACE_SECONDS = 60.0
"""For starting torch, and for a point that was begun before the end; and the traces behind it."""
POINTS, CEILINGS = "sweep.jsonl", "ceilings.json"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--part", action="append", choices=sorted(SECONDS))
    parser.add_argument("--seconds", type=float, help="for each part; its own when not given")
    parser.add_argument("--gpus", type=int, default=1, help="parts that run at a time")
    parser.add_argument("--tar", type=Path, help="packed anew after each part")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    parts = arguments.part or list(CHOSEN)
    if arguments.here:
        run_part(parts[0], arguments.out / parts[0], arguments.seconds or SECONDS[parts[0]])
        return 0
    write_ceilings(arguments.out)
    gpus: queue.SimpleQueue[str] = queue.SimpleQueue()
    for gpu in visible(arguments.gpus, os.environ.get("CUDA_VISIBLE_DEVICES")):
        gpus.put(gpu)

    def start(part: str) -> None:
        gpu = gpus.get()
        try:
            run_child(part, arguments.out, arguments.seconds or SECONDS[part], gpu=gpu)
        finally:
            gpus.put(gpu)

    with ThreadPoolExecutor(arguments.gpus) as pool:
        for _ in pool.map(start, parts):
            if arguments.tar is not None:
                pack(arguments.out, arguments.tar)
    return 0


def visible(count: int, told: str | None) -> list[str]:
    """The GPUs to use, out of those that this process was told to use."""
    known = [name for name in (told or "").split(",") if name]
    return known[:count] if known else [str(index) for index in range(count)]


def run_child(part: str, out: Path, seconds: float, *, gpu: str) -> None:
    """A profiler stays attached to its process: the next part's times need a fresh one."""
    folder = out / part
    folder.mkdir(exist_ok=True)
    if (out / CEILINGS).exists():
        (folder / CEILINGS).write_bytes((out / CEILINGS).read_bytes())
    command = [sys.executable, __file__, "--out", str(out), "--part", part, "--here"]
    began = time.monotonic()
    try:
        done = subprocess.run(
            [*command, "--seconds", str(seconds)],
            timeout=seconds + GRACE_SECONDS,
            env=os.environ | {"CUDA_VISIBLE_DEVICES": gpu},
        )
        ended = f"exit {done.returncode}"
    except subprocess.TimeoutExpired:
        ended = "stopped"
    print(f"{part}: {ended} after {time.monotonic() - began:.0f} s, GPU {gpu}\n", flush=True)


def pack(out: Path, target: Path) -> None:
    unfinished = target.with_suffix(".unfinished")
    with tarfile.open(unfinished, "w") as archive:
        archive.add(out, arcname=out.name)
    unfinished.replace(target)


def write_ceilings(out: Path) -> None:
    path = out / CEILINGS
    if path.exists():
        return
    try:
        done = subprocess.run(
            [sys.executable, "-m", "decodeprof.capture.measure_ceilings"],
            capture_output=True,
            text=True,
            timeout=120,
        )
    except subprocess.TimeoutExpired:
        print("the ceilings took too long", flush=True)
        return
    print(done.stdout, done.stderr[-2000:], flush=True)
    if done.returncode == 0:
        path.write_text(done.stdout)


def run_part(part: str, out: Path, seconds: float) -> None:
    began = time.monotonic()
    path = out / ("rounds.jsonl" if part == "speculative" else POINTS)
    lines = [json.loads(text) for text in whole_lines(path)]

    def keep(message: dict[str, Any]) -> None:
        with path.open("a") as file:
            file.write(json.dumps(message) + "\n")
        lines.append(message)
        print(f"{part} {time.monotonic() - began:5.1f} s  {told(message)}", flush=True)

    if part == "speculative":
        from tests.gpu.speculative_h200 import measure_speculative

        for message in measure_speculative(list(lines), seconds=seconds):
            keep(message)
        return

    import torch

    from decodeprof.reference.sweep.points import Limits, device_about, measure

    spec = PARTS[part]
    done: dict[int, set[str]] = defaultdict(set)
    for line in lines:
        if "value" in line:
            done[line["value"]].add(line["kind"])
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if not lines:
        keep({"spec": asdict(spec), **device_about(device)})
    for message in measure(spec, done, device=device, limits=Limits(seconds=seconds)):
        keep(message)
        if message["kind"] == "counted" and message["value"] == min(spec.values):
            # What everything is predicted from must not be lost with the end of the run.
            write_traces(part, {message["value"]: TRACED_STEPS["first"]}, out)
    write_traces(part, traced(lines), out)


def whole_lines(path: Path) -> list[str]:
    """The lines of a file, without a last one that was cut off; it is mended, too."""
    if not path.exists():
        return []
    text = path.read_text()
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        path.write_text(whole)
    return whole.splitlines()


def traced(lines: list[dict[str, Any]]) -> dict[int, int]:
    """The points of which a trace is kept, and how many steps of each."""
    failed = {line["value"] for line in lines if line.get("kind") == "failed"}
    times = {
        line["value"]: [statistics.median(line[name]) for name in ("eager_ns", "graph_ns")]
        for line in lines
        if line.get("kind") == "timed" and "graph_ns" in line and line["value"] not in failed
    }
    if not times:
        return {}
    found = {max(times): TRACED_STEPS["last"], min(times): TRACED_STEPS["first"]}
    gaining = [value for value, (eager, graph) in times.items() if eager > CONVERGED * graph]
    behind = [value for value in times if value > max(gaining, default=0)]
    if behind:
        found.setdefault(min(behind), TRACED_STEPS["crossing"])
    return found


def write_traces(part: str, values: dict[int, int], out: Path) -> None:
    import torch

    from decodeprof.reference.sweep.points import record

    spec = PARTS[part]
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    kinds = (False, True) if part == "graph" and device.type == "cuda" else (False,)
    for value, steps in values.items():
        for graph in kinds:
            path = out / f"{spec.axis}_{value}{'_graph' if graph else ''}.json.gz"
            if path.exists():
                continue
            count = GRAPH_REPLAYS if graph else steps
            message = record(spec, value, device=device, steps=count, graph=graph)
            if "trace" in message:
                path.write_bytes(gzip.compress(message["trace"], 6))
                print(f"{part} {path.name}: {path.stat().st_size:,} bytes", flush=True)
            else:
                print(f"{part} {path.name}: {message['reason']}", flush=True)


def told(message: dict[str, Any]) -> str:
    """One point in a line, for the eye."""

    def median_us(name: str) -> str:
        samples = sorted(message.get(name, []))
        return f"{samples[len(samples) // 2] / 1e3:,.1f} µs" if samples else "-"

    kind = message.get("kind")
    if kind in ("timed", "again"):
        return (
            f"{message['value']:>6} {kind}: eager {median_us('eager_ns')}, "
            f"graph {median_us('graph_ns')}, launch {message.get('launch_ns')} ns"
        )
    if kind == "counted":
        eager, graph = message["eager"], message["graph"]
        return (
            f"{message['value']:>6} counted: {eager['activities']:g} activities, busy "
            f"{eager['busy_ns'] / 1e3:,.1f} eager {graph['busy_ns'] / 1e3:,.1f} graph µs, TKLQT "
            f"{eager['tklqt_ns']}, settled {eager['settled']} {graph['settled']}"
        )
    return json.dumps(message)[:300]


if __name__ == "__main__":
    sys.exit(main())
