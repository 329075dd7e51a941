"""How is a sweep run: in a child process, one line a point, so that a stop loses one point?"""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import msgspec

from decodeprof.cli.options import say
from decodeprof.cli.progress import shown_progress
from decodeprof.cli.sweep_files import (
    BATCH,
    CEILINGS_FILE,
    POINTS_FILE,
    About,
    Message,
    Stored,
    measured_points,
    read,
    trace_file,
)
from decodeprof.errors import DecodeprofError, UsageError
from decodeprof.recording import write_whole

COMMAND = (sys.executable, "-P", "-m", "decodeprof.reference.sweep")
CEILINGS_COMMAND = (sys.executable, "-P", "-m", "decodeprof.capture.measure_ceilings")
CEILINGS_TIMEOUT_S = 180.0
"""They take some ten seconds, most of it starting torch and CUDA."""


@dataclass(frozen=True)
class Wanted:
    """What is to be swept.

    Attributes:
        spec: as the child reads it: `decodeprof.reference.sweep.spec.SweepSpec`.
        device: ``cpu`` or ``cuda``; none: CUDA where there is one.
        seconds: no point is begun after so long; none: no limit.
    """

    spec: dict[str, Any]
    device: str | None = None
    seconds: float | None = None


@dataclass(frozen=True)
class _Stage:
    pass_name: str
    text: str
    fraction: float | None


def run(wanted: Wanted, out: Path, *, command: tuple[str, ...] = COMMAND) -> None:
    """Measure the points that `out` does not hold yet.

    Raises:
        UsageError: `out` holds another sweep, or the settings make no sense.
        DecodeprofError: the child came to a bad end; what it had said is kept.
    """
    stored = _stored(out)
    if stored is not None:
        _refuse_another(stored.about, wanted, out)
    done = {} if stored is None else stored.done()
    job = {
        **dataclasses.asdict(wanted),
        "done": {v: sorted(k) for v, k in done.items()},
        "trace": _trace_to_write(wanted, out),
    }
    with shown_progress() as show:
        told = len(measured_points(stored)) if stored is not None else 0
        show(_Stage("start", "starting torch", None))
        for message in _said(job, command, out):
            if "refused" in message:
                raise UsageError("there is no such sweep", why=str(message["refused"]))
            if "device" in message:
                _refuse_other_device(stored, message, out)
                if stored is None:
                    _append(out, {"spec": wanted.spec, **message})
                continue
            _append(out, message)
            told += 1
            show(_stage(wanted, message, told))
    if read(out).about.device is not None and not (out / CEILINGS_FILE).exists():
        _measure_ceilings(out)


def _trace_to_write(wanted: Wanted, out: Path) -> str | None:
    """Where a trace of the smallest point is to go, from which the others are foreseen."""
    path = trace_file(out, wanted.spec["axis"], min(wanted.spec["values"]))
    return str(path) if wanted.spec["axis"] == BATCH and not path.exists() else None


def _stored(out: Path) -> Stored | None:
    path = out / POINTS_FILE
    if out.is_dir() and any(out.iterdir()) and not path.is_file():
        raise UsageError(
            f"`{out}` exists and holds no sweep",
            why="a sweep never writes among other files",
            hint="name a new directory with `--out`, or leave `--out` away",
        )
    if not path.is_file() or not path.stat().st_size:
        return None
    stored = read(out)
    _mend(path)
    return stored


def _mend(path: Path) -> None:
    """Cut off a last line that was never finished."""
    data = path.read_bytes()
    if not data.endswith(b"\n"):
        write_whole(path, data[: data.rfind(b"\n") + 1])


def _refuse_another(about: About, wanted: Wanted, out: Path) -> None:
    def settings(spec: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in spec.items() if name != "values" and value}

    if settings(about.spec) != settings(wanted.spec):
        raise UsageError(
            f"`{out}` holds another sweep",
            why=f"its settings are {json.dumps(settings(about.spec))}",
            hint="name another directory with `--out`; more values of the same sweep can be added",
        )


def _refuse_other_device(stored: Stored | None, message: Message, out: Path) -> None:
    if stored is not None and stored.about.device != message["device"]:
        raise UsageError(
            f"`{out}` was measured on {stored.about.device or 'a CPU'}",
            why=f"this machine has {message['device'] or 'no GPU'}; points of both do not mix",
            hint=f"decodeprof sweep --show {out}",
        )


def _append(out: Path, message: Message) -> None:
    out.mkdir(parents=True, exist_ok=True)
    with (out / POINTS_FILE).open("a", encoding="utf-8") as file:
        file.write(json.dumps(message) + "\n")


def _stage(wanted: Wanted, message: Message, told: int) -> _Stage:
    names = {"timed": "timing", "again": "timing", "counted": "profiling", "failed": "point"}
    axis = wanted.spec["axis"]
    text = f"{axis} {message['value']}"
    if message["kind"] == "failed":
        text = f"{text} left out: {message['reason']}"
    total = len(wanted.spec["values"]) * 2 + 1
    return _Stage(names[message["kind"]], text, min(1.0, told / total))


def _said(job: Message, command: tuple[str, ...], out: Path) -> Iterator[Message]:
    """Messages of the child as they come.

    Raises:
        DecodeprofError: it did not end well.
    """
    with tempfile.TemporaryFile() as errors, _child(command, errors) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(json.dumps(job).encode())
        child.stdin.close()
        for line in child.stdout:
            try:
                message = msgspec.json.decode(line, type=Message)
            except msgspec.DecodeError:
                continue  # torch or a compiler printed something
            yield message
        code = child.wait()
        if code:
            from decodeprof.cli.checks.torch import ending

            errors.seek(0)
            raise DecodeprofError(
                "the sweep stopped before its end",
                why=ending(code, errors.read()),
                hint=f"what was measured is kept; the same command with `--out {out}` goes on",
            )


@contextmanager
def _child(command: tuple[str, ...], errors: IO[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors)
    try:
        yield child
    finally:
        if child.poll() is None:
            child.kill()
            child.wait()
        for pipe in (child.stdin, child.stdout):
            if pipe is not None:
                pipe.close()


def _measure_ceilings(out: Path, start: Callable[..., Any] = subprocess.run) -> None:
    say("measuring what this GPU can do at best")
    try:
        done = start(
            CEILINGS_COMMAND, stdin=subprocess.DEVNULL, capture_output=True, check=False,
            timeout=CEILINGS_TIMEOUT_S,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        say(f"that was stopped after {CEILINGS_TIMEOUT_S:g} s: floors stay unknown")
        return
    if done.returncode:
        say("that failed: floors stay unknown; `decodeprof doctor` says what works here")
        return
    write_whole(out / CEILINGS_FILE, done.stdout)
