"""A sweep in a process of its own: ``python -m decodeprof.reference.sweep``.

A JSON object on stdin: ``{"spec": …, "done": {value: [kind, …]}, "seconds", "trace", "device"}``.
One JSON object a line goes to stdout: ``{"device", "torch", "dtype"}`` first, and then the
messages of `points.measure`, with ``{"begin": value}`` before each; or ``{"refused": reason}``
where there is no such sweep, and ``{"refused", "device"}`` where there is no such device.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch

from decodeprof.reference.sweep.points import Limits, device_about, measure
from decodeprof.reference.sweep.spec import SweepSpec


def main() -> None:
    """Read the job, and say every point as soon as it is measured."""
    job = json.load(sys.stdin)
    try:
        spec = SweepSpec.from_json(job["spec"])
    except ValueError as error:
        _say({"refused": str(error)})
        return
    wanted = job.get("device") or ("cuda" if torch.cuda.is_available() else "cpu")
    if wanted.startswith("cuda") and not torch.cuda.is_available():
        built = f"for CUDA {torch.version.cuda}" if torch.version.cuda else "without CUDA"
        reason = f"torch sees no such GPU; torch {torch.__version__} is built {built}"
        _say({"refused": reason, "device": wanted})
        return
    device = torch.device(wanted)
    _say(device_about(device))
    trace = job.get("trace")
    limits = Limits(
        seconds=job.get("seconds") or float("inf"), trace=Path(trace) if trace else None
    )
    done = {int(value): set(kinds) for value, kinds in job.get("done", {}).items()}
    for message in measure(
        spec, done, device=device, limits=limits, begin=lambda value: _say({"begin": value})
    ):
        _say(message)


def _say(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
