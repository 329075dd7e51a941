"""Measure the sweeps of the passage from launch-bound to memory-bound on this GPU.

    PYTHONPATH=. python tests/gpu/sweep_h200.py --out DIR [--part toy …] [--seconds N]

Without a part, all of them run, each in a process of its own and within its own time; together in
seven minutes. Each point is written to DIR/<part>.jsonl as soon as it ends, so that a run that is
cut off loses one point, and a run with the same DIR goes on where it ended. The ceilings go to
DIR/ceilings.json. Traces of the ends, zipped, go to DIR/traces.
"""

from __future__ import annotations

import argparse
import gzip
import json
import subprocess
import sys
import time
from collections import defaultdict
from dataclasses import asdict
from pathlib import Path
from typing import Any

from decodeprof.reference.sweep.spec import SweepSpec

POWERS = tuple(2**power for power in range(15))


def upto(last: int, first: int = 1) -> tuple[int, ...]:
    return tuple(value for value in POWERS if first <= value <= last)


def batch(last: int, **settings: Any) -> SweepSpec:
    return SweepSpec(phase="decode", axis="batch", values=upto(last), **settings)


PARTS = {
    "toy": SweepSpec(phase="toy", axis="batch", values=upto(16_384)),
    "batch06": batch(1024, shape="0.6b"),
    "batch8x4": batch(1024, shape="8b", layers=4),
    "context": SweepSpec(
        phase="decode",
        axis="context",
        values=(128, 512, 1024, 2048, 4096, 8192, 16_384, 32_768),
        shape="0.6b",
    ),
    "prompt": SweepSpec(phase="prefill", axis="prompt", values=upto(8192, first=16), shape="0.6b"),
    "graph": batch(256, shape="0.6b", context=1024, fused=True),
    "layers": SweepSpec(phase="decode", axis="layers", values=(1, 4, 12, 28), shape="0.6b"),
    "width": SweepSpec(
        phase="decode", axis="width", values=(1024, 2048, 4096, 8192), shape="0.6b", layers=4
    ),
}
SECONDS = {
    "toy": 45, "batch06": 80, "batch8x4": 50, "context": 55, "prompt": 65, "graph": 60,
    "layers": 25, "width": 25, "speculative": 60,
}  # fmt: skip
LAST_TRACE = ("toy", "batch06", "batch8x4", "prompt")
CHOSEN = ("toy", "batch06", "batch8x4", "context", "prompt", "graph", "speculative")
"""The parts that run when none is named."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--part", action="append", choices=sorted(SECONDS))
    parser.add_argument("--seconds", type=float)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    parts = arguments.part or list(CHOSEN)
    write_ceilings(arguments.out)
    if len(parts) == 1:
        run_part(parts[0], arguments.out, arguments.seconds or SECONDS[parts[0]])
        return 0
    began = time.monotonic()
    for part in parts:
        # A profiler stays attached to its process: the next part's times need a fresh one.
        seconds = arguments.seconds or SECONDS[part]
        command = [sys.executable, __file__, "--out", str(arguments.out), "--part", part]
        try:
            subprocess.run([*command, "--seconds", str(seconds)], timeout=2 * seconds + 30)
        except subprocess.TimeoutExpired:
            print(f"{part}: stopped after {2 * seconds + 30:.0f} s", flush=True)
        print(f"{time.monotonic() - began:.0f} s so far\n", flush=True)
    return 0


def write_ceilings(out: Path) -> None:
    path = out / "ceilings.json"
    if path.exists():
        return
    done = subprocess.run(
        [sys.executable, "-m", "decodeprof.capture.measure_ceilings"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    print(done.stdout, done.stderr[-2000:], flush=True)
    if done.returncode == 0:
        path.write_text(done.stdout)


def run_part(part: str, out: Path, seconds: float) -> None:
    import torch

    began = time.monotonic()
    path = out / f"{part}.jsonl"
    lines = [json.loads(text) for text in path.read_text().splitlines()] if path.exists() else []
    if part == "speculative":
        from tests.gpu.speculative_h200 import measure_speculative

        messages = measure_speculative(lines, seconds=seconds)
    else:
        from decodeprof.reference.sweep.points import Limits, device_about, measure

        spec = PARTS[part]
        done: dict[int, set[str]] = defaultdict(set)
        for line in lines:
            if "value" in line:
                done[line["value"]].add(line["kind"])
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        traces = out / "traces" / part
        traces.mkdir(parents=True, exist_ok=True)
        if not lines:
            append(path, {"spec": asdict(spec), **device_about(device)})
        limits = Limits(seconds=seconds, traces=traces, last_trace=part in LAST_TRACE)
        messages = measure(spec, done, device=device, limits=limits)
    for message in messages:
        append(path, message)
        print(f"{part} {time.monotonic() - began:5.1f} s  {told(message)}", flush=True)
    for trace in sorted((out / "traces" / part).glob("*.json")):
        trace.with_suffix(".json.gz").write_bytes(gzip.compress(trace.read_bytes()))
        trace.unlink()


def append(path: Path, message: dict[str, Any]) -> None:
    with path.open("a") as file:
        file.write(json.dumps(message) + "\n")


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
    return json.dumps(message)


if __name__ == "__main__":
    sys.exit(main())
