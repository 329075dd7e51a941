"""How is a sweep run: in a child process, one line a point, so that a stop loses one point?"""

from __future__ import annotations

import dataclasses
import json
import shlex
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from decodeprof.cli.options import say
from decodeprof.cli.progress import Shown, shown_progress
from decodeprof.cli.sweep_child import COMMAND, Died, said
from decodeprof.cli.sweep_files import (
    BATCH,
    CEILINGS_FILE,
    POINTS_FILE,
    About,
    Message,
    Stored,
    begun,
    make_directory,
    read,
    refuse_other_files,
    trace_file,
)
from decodeprof.errors import DecodeprofError, UsageError
from decodeprof.recording import write_whole

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
    """Measure the points that `out` does not hold yet; failed ones are tried again.

    Raises:
        UsageError: `out` holds another sweep, or the settings make no sense.
        DecodeprofError: the child came to a bad end; what it had said is kept.
    """
    stored = _stored(out)
    if stored is not None:
        _refuse_another(stored.about, wanted, out)
    earlier = len(stored.messages) if stored is not None else 0
    with shown_progress() as show:
        show(_Stage("start", "starting torch", None))
        while not _ended_well(wanted, out, command, show, earlier):
            pass
    if read(out).about.device is not None and not (out / CEILINGS_FILE).exists():
        _measure_ceilings(out)


def _ended_well(
    wanted: Wanted, out: Path, command: tuple[str, ...], show: Shown, earlier: int
) -> bool:
    """Run a child for the points that are left; False: one of them ended it, and is left out.

    The first `earlier` messages are of runs before: what failed then is tried again.

    Raises:
        DecodeprofError: the child ended badly, and no point but the smallest is to blame.
    """
    stored = _stored(out)
    done = stored.done(failed_before=earlier) if stored is not None else {}
    job = {
        **dataclasses.asdict(wanted),
        "done": {v: sorted(k) for v, k in done.items()},
        "trace": _trace_to_write(wanted, out),
    }
    under_way: int | None = None
    kind = ""
    told = len(stored.messages) if stored is not None else 0
    total = _messages(wanted, on_device=True)
    try:
        for message in said(job, command):
            if "refused" in message:
                raise _refusal(message)
            if "device" in message:
                total = _messages(wanted, on_device=message["device"] is not None)
                _refuse_other_device(stored, message, out)
                if stored is None:
                    _append(out, {"spec": wanted.spec, **message})
            elif "begin" in message:
                under_way = message["begin"]
            else:
                _append(out, message)
                under_way, kind = None, message["kind"]
                told += 1
                show(_stage(wanted, message, told / total))
    except Died as died:
        if under_way is None and kind == "failed" and not died.by_request:
            return False  # That point's failure left the device unusable for its process.
        smallest = min(wanted.spec["values"])
        if under_way is None or under_way == smallest or died.by_request:
            quoted = shlex.quote(str(out))
            raise DecodeprofError(
                "the sweep stopped before its end",
                why=died.why,
                hint=f"what was measured is kept; the same command with `--out {quoted}` goes on"
                if (out / POINTS_FILE).exists()
                else "",
            ) from None
        message = {"value": under_way, "kind": "failed", "reason": f"its process died: {died.why}"}
        _append(out, message)
        show(_stage(wanted, message, told / total))
        return False
    return True


def _refusal(message: Message) -> UsageError:
    if "device" in message:
        return UsageError(
            f"there is no device `{message['device']}` here",
            why=str(message["refused"]),
            hint="`decodeprof doctor` says why; without `--device` the CPU is taken then",
        )
    return UsageError("there is no such sweep", why=str(message["refused"]))


def _trace_to_write(wanted: Wanted, out: Path) -> str | None:
    """Where a trace of the smallest point is to go, from which the others are foreseen."""
    path = trace_file(out, wanted.spec["axis"], min(wanted.spec["values"]))
    return str(path) if wanted.spec["axis"] == BATCH and not path.exists() else None


def _stored(out: Path) -> Stored | None:
    path = out / POINTS_FILE
    if not path.is_file():
        refuse_other_files(out)
        return None
    stored = read(out) if begun(out) else None
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
            hint=f"decodeprof sweep --show {shlex.quote(str(out))}",
        )


def _append(out: Path, message: Message) -> None:
    make_directory(out)
    with (out / POINTS_FILE).open("a", encoding="utf-8") as file:
        file.write(json.dumps(message) + "\n")


def _messages(wanted: Wanted, *, on_device: bool) -> int:
    """How many a whole sweep has: a CPU counts nothing, and one point is not timed again."""
    points = len(wanted.spec["values"])
    return points * (2 if on_device else 1) + (points > 1)


def _stage(wanted: Wanted, message: Message, fraction: float) -> _Stage:
    names = {"timed": "timing", "again": "timing", "counted": "profiling", "failed": "point"}
    axis = wanted.spec["axis"]
    text = f"{axis} {message['value']}"
    if message["kind"] == "failed":
        text = f"{text} left out: {message['reason']}"
    return _Stage(names[message["kind"]], text, min(1.0, fraction))


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
