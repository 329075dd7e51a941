"""Lint's prediction, made without the GPU, against what the GPU's own detectors saw.

    python tests/gpu/lint_agreement.py --out DIR [--only NAME …]

Each case is run twice, in processes of their own that run side by side: once by `decodeprof lint`,
from which GPUs are hidden, and once on the GPU under sync-debug mode, gpu_trace and torch.profiler
(CUPTI). All four see the same call, and are compared over the same whole decode steps. Without a
GPU only the predictions are made. Counts are compared, not times, so the GPU may be shared.
The rows that were kept lie in fixtures/lint_agreement; `report` is their text.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

CASES = (
    "stage_plain",
    "stage_eager",
    "stage_graph",
    "stage_fused",
    "stage_pipelined",
    "hf_gpt2_greedy",
    "hf_llama_sampling",
    "hf_qwen3_greedy",
    "hf_llama_beams",
    "hf_qwen3_static",
)
TARGETS = "tests/gpu/targets/lint_cases.py"
LIMIT_S = 150
AT_ONCE = 8
_ALL_STEPS = 10_000
"""More than any case has: the profile is of the whole call, as the prediction is."""
Lines = Counter[str]


def predicted(name: str) -> dict[str, Any]:
    """What lint says of a case, in a process that sees no GPU."""
    done = subprocess.run(
        [sys.executable, "-m", "decodeprof", "lint", f"{TARGETS}:{name}", "--json"],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
        env=_environment(),
    )
    if done.returncode:
        return {"error": done.stderr[-1500:]}
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def seen(name: str, out: Path) -> dict[str, Any]:
    """What the GPU showed of a case, from a process of its own."""
    done = subprocess.run(
        [sys.executable, str(Path(__file__)), "--record", name, "--out", str(out)],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
        env=_environment(),
    )
    path = out / "seen.json"
    if done.returncode or not path.is_file():
        return {"error": done.stderr[-1500:]}
    found: dict[str, Any] = json.loads(path.read_bytes())
    return found


def no_gpu(_name: str, _out: Path) -> dict[str, Any]:
    """Why nothing was seen."""
    return {"error": "torch finds no CUDA device here"}


def _environment() -> dict[str, str]:
    root = str(Path(__file__).resolve().parents[2])
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": root}


def record(name: str, out: Path) -> None:
    """Run a case on the GPU under each detector, without any timing; write what they saw."""
    from decodeprof.capture import passes, warmup
    from decodeprof.capture.channel import Channel
    from decodeprof.capture.child import connect, load_session
    from decodeprof.capture.job import Job, Order
    from decodeprof.capture.places import Places
    from decodeprof.capture.record_ops import operations_pass
    from decodeprof.capture.target import parse_spec

    target = f"{TARGETS}:{name}"
    order = Order(job=Job(target=target, profile_steps=_ALL_STEPS), out=str(out))
    with open(os.devnull, "wb") as sink:
        places = Places(str(Path(TARGETS).resolve().parent))
        session = load_session(order, parse_spec(target), Channel(sink.fileno()), places, connect())
        session.report(warmup.warm_up(session))
        session.report(passes.profile(session))
        session.report(passes.sync_debug_pass(session))
        session.report(operations_pass(session))
        session.report(passes.gpu_trace_pass(session))
    (out / "seen.json").write_text(json.dumps(_seen(out)))


def _seen(directory: Path) -> dict[str, Any]:
    """Syncs by step and line, of each detector."""
    import msgspec

    from decodeprof.analysis.hazards import device_operations, graph_hazards
    from decodeprof.analysis.sites import decode_ordinals
    from decodeprof.diagnosis.pipeline import analyze_path
    from decodeprof.recording import read_operations, read_recording

    recording = read_recording(directory)
    evidence = analyze_path(directory).evidence
    steps = evidence.steps
    cupti = {
        str(ordinal): int(evidence.counts.syncs[index])
        for index, ordinal in enumerate(decode_ordinals(steps))
    }
    found: dict[str, Any] = {"cupti": cupti, "method": steps.method}
    for source in ("sync_debug", "gpu_trace"):
        detector = getattr(recording, source)
        rows = [
            [event.step, f"{detector.sites[event.site].file}:{detector.sites[event.site].line}"]
            for event in detector.events
        ]
        found[source] = {"steps": detector.steps, "events": rows}
    ops = read_operations(directory)
    if ops is not None:
        found["hazards"] = [msgspec.to_builtins(each) for each in graph_hazards(ops)]
        found["ops_per_step"] = device_operations(ops.second)
    found["passes"] = {each.name: f"{each.status} {each.reason}" for each in recording.passes}
    return found


def compared(name: str, lint: dict[str, Any], gpu: dict[str, Any]) -> dict[str, Any]:
    """One case's row: counts over the whole decode steps, and lines."""
    row: dict[str, Any] = {"case": name}
    if "error" in lint:
        return row | {"error": f"lint: {lint['error']}"}
    whole = lint["decode_steps"]
    predicted_lines: Lines = Counter()
    for sync in lint["syncs"]:
        if sync["in_decode"]:
            predicted_lines[f"{sync['place']['file']}:{sync['place']['line']}"] += sync["in_decode"]
    row |= {
        "whole_steps": whole,
        "lint": sum(predicted_lines.values()),
        "lint_prefill": sum(sync["in_prefill"] for sync in lint["syncs"]),
        "pageable": sum(copy["in_decode"] for copy in lint["copies"]),
        "hazards": None if lint["hazards"] is None else _hazards(lint["hazards"]),
        "ops_per_step": lint["ops_per_step"],
        "lines": dict(predicted_lines),
    }
    if "error" in gpu:
        return row | {"error": f"GPU: {gpu['error']}"}
    for source in ("sync_debug", "gpu_trace"):
        events = gpu[source]["events"]
        lines = Counter(line for step, line in events if 1 <= step <= whole)
        row[source] = sum(lines.values())
        row[f"{source}_prefill"] = sum(step == 0 for step, _ in events)
        row[f"{source}_lines"] = dict(lines)
    row["cupti"] = sum(count for step, count in gpu["cupti"].items() if 1 <= int(step) <= whole)
    row["cupti_prefill"] = gpu["cupti"].get("0", 0)
    row["gpu_steps"] = gpu["gpu_trace"]["steps"]
    row["passes"] = gpu["passes"]
    if "hazards" in gpu:
        row["gpu_hazards"] = _hazards(gpu["hazards"])
        row["gpu_ops_per_step"] = gpu["ops_per_step"]
    real = set(row["gpu_trace_lines"])
    row["missed_lines"] = sorted(real - set(predicted_lines))
    row["false_lines"] = sorted(set(predicted_lines) - real)
    return row


def _hazards(found: list[dict[str, Any]]) -> list[str]:
    return sorted(
        f"{each['kind']} {each['place']['file']}:{each['place']['line']}" for each in found
    )


def hazard_table(rows: list[dict[str, Any]]) -> str:
    """Hazards of a graph of the step: predicted, and read off the operations on the GPU."""
    lines = [f"{'case':<18} {'lint':>5} {'GPU':>5} {'both':>5}  ops a step: lint, GPU; differing"]
    for row in rows:
        if row.get("hazards") is None or "gpu_hazards" not in row:
            why = row.get("passes", {}).get("operations", "not seen on a GPU")
            lines.append(f"{row['case']:<18} {len(row.get('hazards') or ()):>5} {'-':>5}  {why}")
            continue
        said, real = set(row["hazards"]), set(row["gpu_hazards"])
        lines.append(
            f"{row['case']:<18} {len(said):>5} {len(real):>5} {len(said & real):>5}  "
            f"{row['ops_per_step']}, {row['gpu_ops_per_step']}; {sorted(said ^ real)}"
        )
    return "\n".join(lines)


def table(rows: list[dict[str, Any]]) -> str:
    """Waits over all whole decode steps, as each detector counts them; then lines."""
    heads = ("case", "steps", "lint", "sync_debug", "gpu_trace", "cupti", "lines", "missed, false")
    lines = ["{:<18} {:>5} {:>5} {:>10} {:>9} {:>6} {:>6}  {}".format(*heads)]
    for row in rows:
        if "whole_steps" not in row:
            lines.append(f"{row['case']:<18} {_last_line(row['error'])}")
            continue
        counts = [str(row.get(key, "-")) for key in ("lint", "sync_debug", "gpu_trace", "cupti")]
        wrong = "not seen on a GPU: " + _last_line(row["error"]) if "error" in row else "none"
        if row.get("missed_lines") or row.get("false_lines"):
            wrong = f"missed {row['missed_lines']}, false {row['false_lines']}"
        lines.append(
            f"{row['case']:<18} {row['whole_steps']:>5} {counts[0]:>5} {counts[1]:>10} "
            f"{counts[2]:>9} {counts[3]:>6} {len(row['lines']):>6}  {wrong}"
        )
    return "\n".join(lines)


def report(rows: list[dict[str, Any]]) -> str:
    """Both tables, as agreement.txt holds them."""
    return f"{table(rows)}\n\n{hazard_table(rows)}\n"


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or [""])[-1][:160]


def main() -> int:
    import torch

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--out", type=Path, required=True, help="folder for agreement.json and .txt"
    )
    parser.add_argument("--only", action="append", choices=CASES, help="a case; repeatable")
    parser.add_argument("--record", choices=CASES, help=argparse.SUPPRESS)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    if given.record:
        record(given.record, given.out)
        return 0
    began = time.perf_counter()
    names = list(given.only or CASES)
    look = seen if torch.cuda.is_available() else no_gpu
    with ThreadPoolExecutor(2 * AT_ONCE) as pool:
        lints = {name: pool.submit(predicted, name) for name in names}
        gpus = {name: pool.submit(look, name, _folder(given.out, name)) for name in names}
        rows = [compared(name, lints[name].result(), gpus[name].result()) for name in names]
    text = report(rows)
    print(f"{text}{time.perf_counter() - began:.0f} s in all")
    (given.out / "agreement.txt").write_text(text)
    (given.out / "agreement.json").write_text(json.dumps(rows, indent=1) + "\n")
    return 0


def _folder(out: Path, name: str) -> Path:
    folder = out / name
    folder.mkdir(exist_ok=True)
    return folder


if __name__ == "__main__":
    sys.exit(main())
