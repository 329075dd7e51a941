"""Every stage on this machine's GPU, in one process: how fast is each, and what does it launch?

Run as a process of its own (``python -m decodeprof.reference.stage_runs``), since a profiler stays
attached to the process in which it ran. One JSON object a line goes to stdout: first
``{"device", …}``, with a null device where there is no GPU; then for each stage its `StageResult`
without counts as soon as it is timed, or ``{"name", "reason"}`` where it cannot run; at last each
result again, with counts. What a crash left unmeasured has no line.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from typing import Any

import torch

from decodeprof.reference import demo, plain
from decodeprof.reference.measure import step_counts
from decodeprof.reference.model import step_weight_bytes
from decodeprof.reference.stages import (
    COMPARED_TOKENS,
    STAGES,
    Running,
    StageResult,
    measure,
    start,
    why_not,
)

READ_BYTES = 2 << 30
"""Far more than any cache of a GPU holds, and a small part of its memory."""
READ_REPEATS = 20
"""Some 10 ms on a fast GPU: what the first launch costs is lost in it."""


def with_counts(running: Running, timed: StageResult) -> StageResult:
    """Count what a stage launches, runs and waits for; the profiler stays attached after this."""
    counts = step_counts(running.generate)
    return dataclasses.replace(
        timed,
        kernels=counts.kernels,
        kernels_per_layer=counts.kernels / running.model.config.layers,
        launches=counts.launches,
        graph_launches=counts.graph_launches,
        syncs=counts.syncs,
        rows=counts.rows,
    )


def read_bytes_per_s() -> float:
    """What this GPU can read, in bytes a second: sums over `READ_BYTES`, one behind the other."""
    numbers = torch.zeros(READ_BYTES // 4, dtype=torch.float32, device="cuda")
    numbers.sum()
    began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    began.record()
    for _ in range(READ_REPEATS):
        numbers.sum()
    ended.record()
    ended.synchronize()
    seconds = float(began.elapsed_time(ended)) / 1e3
    return READ_REPEATS * READ_BYTES / seconds


def main() -> None:
    """Time all stages, then count in all of them, and say each result at once."""
    if not torch.cuda.is_available():
        _say({"device": None})
        return
    bandwidth = read_bytes_per_s()
    model = demo.setup()
    _say(
        {
            "device": torch.cuda.get_device_name(),
            "torch": torch.__version__,
            "read_bytes_per_s": bandwidth,
            "weight_bytes": step_weight_bytes(model),
        }
    )
    expected = plain.generate(model, demo.prompt(model), COMPARED_TOKENS)
    measured: list[tuple[Running, StageResult]] = []
    for name, stage in STAGES.items():
        reason = why_not(stage, model.embedding.device)
        if reason is not None:
            _say({"name": name, "reason": reason})
            continue
        running = start(name, model)
        timed = measure(running, expected=expected, bandwidth_bytes_per_s=bandwidth, profile=False)
        _say(_told(timed))
        measured.append((running, timed))
    for running, timed in measured:
        _say(_told(with_counts(running, timed)))


def _told(result: StageResult) -> dict[str, Any]:
    """A result without its kernels, of which there are hundreds."""
    return {**dataclasses.asdict(result), "rows": []}


def _say(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
