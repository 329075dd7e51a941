"""How is a user's own target swept: one recording a value, each diagnosed like any other?"""

from __future__ import annotations

import contextlib
import json
import math
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import msgspec

from decodeprof.analysis.queue import tklqt_ns
from decodeprof.analysis.sweeps.floors import Machine
from decodeprof.cli.options import say
from decodeprof.cli.recorded import record_and_diagnose
from decodeprof.cli.sweep_files import (
    BATCH,
    POINTS_FILE,
    About,
    Message,
    begun,
    make_directory,
    read,
    refuse_other_files,
)
from decodeprof.errors import EXIT_INTERRUPTED, DecodeprofError, InputError, UsageError
from decodeprof.model.diagnosis import Diagnosis, Generation
from decodeprof.model.sweep import Measured
from decodeprof.recording import DIAGNOSIS_FILE, RECORDING_FILE, Recording, read_recording

if TYPE_CHECKING:
    from decodeprof.capture import Job


@dataclass(frozen=True)
class TargetSweep:
    """A sweep of a target.

    Attributes:
        job: what all points share.
        axis: the argument that varies.
        values: that it takes.
        seconds: no point is begun after so long; none: no limit.
    """

    job: Job
    axis: str
    values: tuple[int, ...]
    seconds: float | None = None


def run(sweep: TargetSweep, out: Path) -> None:
    """Record and diagnose the points that `out` does not hold yet; failed ones are tried again.

    Raises:
        UsageError: `out` holds something else, or the target was named wrongly.
        DecodeprofError: the first point failed and is the smallest: so would the others.
        KeyboardInterrupt: Ctrl-C; the point under way is not kept.
    """
    path = out / POINTS_FILE
    until = time.monotonic() + (sweep.seconds or math.inf)
    created = not begun(out)
    if not created:
        _refuse_another(sweep, out)
    else:
        if not path.is_file():
            refuse_other_files(out)
        make_directory(out)
        about = About(
            target=sweep.job.target,
            axis=sweep.axis,
            values=list(sweep.values),
            settings=_settings(sweep.job),
        )
        path.write_text(json.dumps(msgspec.to_builtins(about)) + "\n")
    for index, value in enumerate(sweep.values):
        directory = out / f"{sweep.axis}_{value}"
        if (directory / DIAGNOSIS_FILE).is_file():
            continue
        if time.monotonic() > until:
            break
        say(f"{sweep.axis} {value} ({index + 1} of {len(sweep.values)})")
        try:
            with _stopped_by_interrupts(directory):
                queued_ns = _record(sweep, value, directory)
        except DecodeprofError as error:
            wrong = isinstance(error, UsageError)
            if wrong or (index == 0 and value == min(sweep.values)):
                if created and index == 0:
                    _forget(out)
                raise
            say(f"{sweep.axis} {value} left out: {error.what}")
            _append(path, {"value": value, "kind": "failed", "reason": _reason(error)})
        else:
            if queued_ns is not None:  # No diagnosis holds it.
                _append(path, {"value": value, "kind": "counted", "tklqt_ns": queued_ns})


def _append(path: Path, message: Message) -> None:
    with path.open("a") as file:
        file.write(json.dumps(message) + "\n")


def _reason(error: DecodeprofError) -> str:
    """What went wrong and the target's own words for it, in one line."""
    from decodeprof.capture.job import RecordingStopped

    message = error.message if isinstance(error, RecordingStopped) else error.why
    words = " ".join(message.split())
    return f"{error.what}: {words}" if words else error.what


@contextmanager
def _stopped_by_interrupts(directory: Path) -> Iterator[None]:
    """Let Ctrl-C end the sweep, whatever became of the point: a recording survives one.

    Raises:
        KeyboardInterrupt: it was pressed; the point in `directory` is then none that is done.
    """
    pressed = False
    before = signal.getsignal(signal.SIGINT)

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal pressed
        pressed = True
        if callable(before):
            before(number, frame)

    # Only the main thread may set a handler, and only it is interrupted.
    watched = callable(before) and threading.current_thread() is threading.main_thread()
    if watched:
        signal.signal(signal.SIGINT, note)
    try:
        yield
    except DecodeprofError as error:
        if pressed or error.exit_code == EXIT_INTERRUPTED:
            raise KeyboardInterrupt from None
        raise
    finally:
        if watched:
            signal.signal(signal.SIGINT, before)
    if pressed:
        # Some pass of it was cut short.
        (directory / DIAGNOSIS_FILE).unlink(missing_ok=True)
        raise KeyboardInterrupt


def _forget(out: Path) -> None:
    """Leave no sweep behind that holds nothing: the next one may be called otherwise."""
    (out / POINTS_FILE).unlink()
    with contextlib.suppress(OSError):
        out.rmdir()  # What was recorded of the point that failed stays.


def _record(sweep: TargetSweep, value: int, directory: Path) -> int | None:
    """Record and diagnose a point; its TKLQT is given back."""
    from decodeprof.capture import new_directory

    if directory.exists():
        aside = new_directory(directory.parent, f"{directory.name}-unfinished")
        say(f"an earlier run did not finish {sweep.axis} {value}: what it left is now in {aside}")
        directory.rename(aside)
    job = msgspec.structs.replace(
        sweep.job, args=[*sweep.job.args, f"{sweep.axis}={value}"], varied=sweep.axis
    )
    evidence = record_and_diagnose(job, out=directory)[1].evidence
    if evidence.launches is None or evidence.decode is None:
        return None
    return tklqt_ns(evidence.trace, evidence.launches, evidence.steps, evidence.decode.rows)


def _refuse_another(sweep: TargetSweep, out: Path) -> None:
    about = read(out).about
    if (about.target, about.axis) != (sweep.job.target, sweep.axis):
        raise UsageError(
            f"`{out}` holds another sweep",
            why=f"it varies `{about.axis or about.spec.get('axis')}` of "
            f"`{about.target or 'the reference'}`",
            hint="name another directory with `--out`",
        )
    if about.settings != _settings(sweep.job):
        raise UsageError(
            f"`{out}` was measured with other settings",
            why=f"its target was run with {' '.join(about.settings) or 'no options'}",
            hint="name another directory with `--out`; more values of the same sweep can be added",
        )


def _settings(job: Job) -> list[str]:
    """What all points of a sweep have to share, in the words of the command line."""
    found = [f"--arg {text}" for text in job.args]
    for option in ("setup", "new_tokens", "device"):
        value = getattr(job, option)
        if value is not None:
            found.append(f"--{option.replace('_', '-')} {value}")
    if job.graph_check:
        found.append("--graph-check" if job.step is None else f"--graph-check --step {job.step}")
    return found


@dataclass(frozen=True)
class Recorded:
    """The points of a target's sweep, as their diagnoses say."""

    points: list[Measured]
    machine: Machine
    device: str | None
    torch: str
    untimed: list[str]
    """Of points that were recorded, and whose step has no time: which, and why."""


def recorded(out: Path) -> Recorded:
    """Read every point's diagnosis.

    Raises:
        InputError: there is none, or one is damaged.
    """
    stored = read(out)
    axis = stored.about.axis
    # The last word on a point holds: a failed one is tried again by the next run.
    points = {
        message["value"]: Measured(value=message["value"], failed=str(message.get("reason")))
        for message in stored.messages
        if message["kind"] == "failed"
    }
    queued_ns = {
        message["value"]: found
        for message in stored.messages
        if isinstance(found := message.get("tklqt_ns"), int)
    }
    machine, device, torch = Machine(None, None, None), None, ""
    untimed: dict[str, list[int]] = {}
    for directory in sorted(out.glob(f"{axis}_*")):
        value = directory.name.rpartition("_")[2]
        if not value.isdigit() or not (directory / DIAGNOSIS_FILE).is_file():
            continue
        diagnosis = _diagnosis(directory)
        point = point_of(diagnosis, axis, int(value), tklqt_ns=queued_ns.get(int(value)))
        points[point.value] = point
        if (directory / RECORDING_FILE).is_file():
            recording = read_recording(directory)
            device = recording.device.name if recording.device else None
            torch = recording.environment.torch
            if not point.eager_ns:
                untimed.setdefault(_why_untimed(recording), []).append(point.value)
        if diagnosis.floors is not None:
            machine = _machine(diagnosis)
    if not points:
        raise InputError(f"`{out}` holds no point yet", hint="run the sweep again: it goes on")
    return Recorded(
        list(points.values()),
        machine,
        device,
        torch,
        [
            f"no step time at {axis} {', '.join(f'{value:,}' for value in sorted(values))}: {why}"
            for why, values in untimed.items()
        ],
    )


def _why_untimed(recording: Recording) -> str:
    """Why single steps have no time: what its own report says of it."""
    found = [text for text in recording.caveats if text.startswith("no steps were seen")]
    return found[0] if found else "`decodeprof analyze` of its recording says more"


def point_of(
    diagnosis: Diagnosis, axis: str, value: int, *, tklqt_ns: int | None = None
) -> Measured:
    """What a diagnosis says of its decode step, where the argument `axis` has a value."""
    step, floors = diagnosis.step, diagnosis.floors
    times = step.unprofiled_ns if step else None
    eager = times.median if times else None
    low, high = (times.p10, times.p90) if times else (None, None)
    what_if = diagnosis.what_if.cuda_graph
    graph_ns = what_if.step_ns.expected if what_if else None
    timed = what_if is not None and what_if.measured
    return Measured(
        value=value,
        eager_ns=[] if eager is None else [eager],
        graph_ns=[graph_ns] if graph_ns is not None and timed else [],
        eager_range_ns=None if low is None or high is None else (low, high),
        tokens=_tokens(diagnosis.generation, rows=value if axis == BATCH else None),
        activities=step.kernels if step else None,
        kernels=step.kernels if step else None,
        busy_ns=step.busy_ns if step else None,
        tklqt_ns=tklqt_ns,
        bytes=floors.bytes if floors else None,
        flops=floors.flops if floors else None,
        host_ns=floors.host_ns if floors else None,
        predicted_graph_ns=None if timed else graph_ns,
    )


def _tokens(generation: Generation | None, *, rows: int | None) -> float | None:
    """Tokens of a decode step; None where its batch, or what a step makes, is not known.

    Args:
        generation: as diagnosed.
        rows: that the varied argument asked for. Where the batch seen in the tensors is another,
            what was seen is none, as of tokens that have no dimension for it.
    """
    if generation is None or generation.batch is None or generation.tokens_per_s is None:
        return None
    if rows not in (None, generation.batch):
        return None
    return generation.batch * generation.tokens_per_step


def _machine(diagnosis: Diagnosis) -> Machine:
    floors = diagnosis.floors
    assert floors is not None
    rate = floors.flops / floors.flops_ns * 1e9 if floors.flops and floors.flops_ns else None
    return Machine(floors.node_gap_ns, floors.bandwidth_bytes_per_s, rate)


def _diagnosis(directory: Path) -> Diagnosis:
    path = directory / DIAGNOSIS_FILE
    try:
        return msgspec.json.decode(path.read_bytes(), type=Diagnosis)
    except (OSError, msgspec.DecodeError) as error:
        raise InputError(f"`{path}` is damaged", why=str(error)) from None
