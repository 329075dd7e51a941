"""Do torch, its GPU and the profiler work here? Asked of a child process, which may crash."""

from __future__ import annotations

import signal
import subprocess
import sys
from dataclasses import dataclass, field
from typing import Any

import msgspec

from decodeprof import units
from decodeprof.cli.checks.check import Check

TIMEOUT_S = 120.0
"""Importing torch and starting CUDA takes seconds, a minute on a cold disk; a driver that hangs
never comes back."""
_COMMAND = (sys.executable, "-m", "decodeprof.capture.probe")
_ON_GPU = (
    ("profiler", "CUPTI kernels"),
    ("sync_debug", "sync-debug mode"),
    ("gpu_trace", "gpu_trace hooks"),
)


@dataclass(frozen=True)
class Probed:
    """What the child said before it ended."""

    values: dict[str, Any] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    ended: str = ""
    """How it ended, where it did not end well; empty: it said all it had to."""


def probe(command: tuple[str, ...] = _COMMAND, *, timeout_s: float = TIMEOUT_S) -> Probed:
    """Run the probe; a crash or a hang leaves what it had said by then."""
    ended = ""
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout_s, check=False
        )
        out, err = done.stdout, done.stderr
        if done.returncode:
            ended = ending(done.returncode, err)
    except subprocess.TimeoutExpired as error:
        out = error.stdout or b""
        ended = f"it was stopped after {timeout_s:g} s"
    values: dict[str, Any] = {}
    errors: dict[str, str] = {}
    for line in out.splitlines():
        try:
            message = msgspec.json.decode(line, type=dict[str, Any])
        except msgspec.DecodeError:
            continue  # torch or a plugin of it printed something
        if "error" in message:
            errors[str(message.get("check"))] = str(message["error"])
        elif "check" in message:
            values[str(message["check"])] = message.get("value")
    return Probed(values, errors, ended)


def ending(code: int, err: bytes) -> str:
    """How a child process ended that did not end well, from its exit code and its stderr."""
    if code < 0:
        return f"it was killed by {signal.Signals(-code).name}"
    last = err.decode(errors="replace").strip().rpartition("\n")[2]
    return f"it left with code {code}" + (f": {last}" if last else "")


def check_torch(probed: Probed) -> list[Check]:
    """torch, CUDA, and what the profiler and the sync detectors see."""
    return [_torch(probed), _cuda(probed), *(_on_gpu(probed, *check) for check in _ON_GPU)]


def _torch(probed: Probed) -> Check:
    version = probed.values.get("torch")
    if version is not None:
        build = version.get("cuda") or version.get("hip")
        built = f"built for CUDA {build}" if version.get("cuda") else "built for the CPU alone"
        if version.get("hip"):
            built = f"built for ROCm {build}"
        return Check(name="torch", answer="works", detail=f"{version['version']}, {built}")
    error = probed.errors.get("torch")
    if error is not None and error.startswith("ModuleNotFoundError"):
        return Check(
            name="torch",
            answer="does not",
            detail="not installed; `diagnose` needs it, `analyze` does not",
            hint="pip install torch",
        )
    if error is not None:
        return Check(name="torch", answer="does not", detail=f"import failed: {error}")
    return Check(name="torch", answer="cannot tell", detail=f"the probe failed: {probed.ended}")


def _cuda(probed: Probed) -> Check:
    found = probed.values.get("cuda")
    if found:
        devices = ", ".join(found["devices"])
        driver = found.get("driver")
        return Check(
            name="CUDA",
            answer="works",
            detail=devices + (f"; driver {driver}" if driver else "; driver version unknown"),
        )
    if "torch" not in probed.values:
        return Check(name="CUDA", answer="cannot tell", detail="torch is needed to ask")
    if "cuda" in probed.values:
        return Check(
            name="CUDA",
            answer="does not",
            detail="torch finds no GPU; `diagnose` runs on the CPU and says what that cannot tell",
        )
    reason = probed.errors.get("cuda") or probed.ended
    return Check(name="CUDA", answer="does not", detail=f"starting it failed: {reason}")


def _on_gpu(probed: Probed, key: str, name: str) -> Check:
    if not probed.values.get("cuda"):
        return Check(name=name, answer="cannot tell", detail="there is no GPU to try it on")
    error = probed.errors.get(key)
    if error is not None:
        return Check(name=name, answer="does not", detail=error)
    if key not in probed.values:
        ended = probed.ended or "the probe said nothing of it"
        return Check(name=name, answer="cannot tell", detail=ended)
    value = probed.values[key]
    if key == "profiler":
        return _profiler(name, launches=value["launches"], kernels=value["kernels"])
    if not value:
        return Check(name=name, answer="does not", detail="a real sync was not reported")
    return Check(name=name, answer="works", detail="a real sync was reported")


def _profiler(name: str, *, launches: int, kernels: int) -> Check:
    detail = (
        f"torch.profiler saw {units.counted(kernels, 'kernel')} of "
        f"{units.counted(launches, 'launch', 'launches')}"
    )
    if kernels == launches:
        return Check(name=name, answer="works", detail=detail)
    return Check(
        name=name,
        answer="does not",
        detail=detail,
        hint="end other profilers on this machine (nsys, ncu, DCGM); in a container, run it with "
        "--cap-add=SYS_ADMIN, or let the driver admit all users to the counters",
    )
