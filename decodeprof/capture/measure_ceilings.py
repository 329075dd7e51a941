"""What can this machine's GPU do at best? In a process of its own, since a profiler stays attached.

``python -m decodeprof.capture.measure_ceilings`` writes one JSON object to stdout: the device's
name, its `recording.Ceilings`, and what could not be measured; the name is null without a GPU.
"""

from __future__ import annotations

import sys

import msgspec
import torch

from decodeprof.capture import ceilings
from decodeprof.capture.calibration import GapProbe, calibrate
from decodeprof.capture.hooks import ProfilerWatch
from decodeprof.model.ceilings import Ceilings


class MeasuredCeilings(msgspec.Struct, frozen=True, kw_only=True):
    """What this machine's GPU can do at best."""

    device: str | None = None
    ceilings: Ceilings = Ceilings()
    problems: list[str] = []


def measure_here() -> MeasuredCeilings:
    """Measure them in this process, to which a profiler stays attached."""
    if not torch.cuda.is_available():
        return MeasuredCeilings(problems=["torch finds no GPU"])
    found, problems = ceilings.measure()
    try:
        found = calibrate(ProfilerWatch(), found, GapProbe())
    except RuntimeError as error:  # CUDA's and the profiler's errors are RuntimeErrors.
        problems.append(f"node gap: {error}")
    name = torch.cuda.get_device_name()
    return MeasuredCeilings(device=name, ceilings=found, problems=problems)


if __name__ == "__main__":
    sys.stdout.write(msgspec.json.encode(measure_here()).decode() + "\n")
