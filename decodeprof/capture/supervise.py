"""How is a recording made, and what is left of it when the target misbehaves?

`record` runs the target in a child process of its own group and watches over it: a crash, an
endless loop, Ctrl-C or `os._exit` ends in a plain message, and what had been recorded is kept.
"""

from __future__ import annotations

import shlex
import signal
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from decodeprof.capture.arguments import parse_arguments
from decodeprof.capture.directory import USEFUL, discard_if_empty, prepare
from decodeprof.capture.job import Failed, Job, Order, Progress, RecordingStopped
from decodeprof.capture.nsys import left_raw, record_nsys
from decodeprof.capture.places import Frame, Places
from decodeprof.capture.process import Outcome, run_child
from decodeprof.capture.target import Spec, parse_spec
from decodeprof.errors import EXIT_INTERRUPTED, InputError, UsageError
from decodeprof.hardware.nsys import installed
from decodeprof.recording import (
    PassReport,
    Recording,
    read_recording,
    write_recording,
)

_FEWEST_SECONDS = 10.0
"""What is left of the time limit for the first-call process, at least."""
_NOTHING_FOR_NSYS = "the target ran on the CPU alone, and nsys would record what a GPU does"
IN_USER_CODE = "stopped by Ctrl-C "
"""How the child's word begins when the interruption fell into the user's code; it says where."""


def record(job: Job, *, out: Path, progress: Callable[[Progress], None]) -> Path:
    """Run a target and record it.

    The target's own output, on stdout as on stderr, goes to our stderr.

    Args:
        job: what to run.
        out: the recording's directory, which must not exist yet unless it is empty.
        progress: told where the recording stands.

    Returns:
        `out`, which then holds a whole recording.

    Raises:
        UsageError: the target, an argument, the device or `out` is wrong; nothing was run, or
            nothing but the script's import and its set-up function.
        RecordingStopped: the target failed, hung, left, or was interrupted; its `directory` holds
            what had been recorded, if anything was.
    """
    spec = parse_spec(job.target)
    parse_arguments(job.args)
    check_device(job.device)
    _check_setup(job.setup)
    created = prepare(out)
    begin = time.monotonic()
    order = Order(job=job, out=str(out.resolve()))
    try:
        outcome = run_child(order, limit_s=job.timeout_s, progress=progress)
        if outcome.finished is None:
            raise _stopped(outcome, job, spec, out)
        _note_processes(outcome, out)
        if outcome.finished.graphs_captured_in is not None:
            left_s = max(_FEWEST_SECONDS, job.timeout_s - (time.monotonic() - begin))
            _record_first_call(order, outcome.finished.graphs_captured_in, left_s, out, progress)
        if job.nsys:
            left_s = max(_FEWEST_SECONDS, job.timeout_s - (time.monotonic() - begin))
            record_under_nsys(order, left_s, out, progress)
    finally:
        discard_if_empty(out, created=created)
    return out


def check_device(device: str | None) -> None:
    """Refuse what names no device.

    Raises:
        UsageError: it is neither the CPU nor a GPU by its number.
    """
    if device is None:
        return
    kind, _, index = device.partition(":")
    if kind not in ("cpu", "cuda") or (index and not index.isdigit()) or device.endswith(":"):
        raise UsageError(
            f"`{device}` is no device", hint="write `cpu`, `cuda`, or `cuda:1` for the second GPU"
        )


def _check_setup(setup: str | None) -> None:
    if setup is not None and not all(part.isidentifier() for part in setup.split(".")):
        raise UsageError(
            f"`--setup` names no function: `{setup}`",
            hint="write the name of a function of the script, without its parentheses",
        )


def _stopped(outcome: Outcome, job: Job, spec: Spec, out: Path) -> Exception:
    """The error for a child that did not finish; what it had recorded is completed and kept."""
    failed = outcome.failed
    if failed is not None and failed.asked_wrongly:
        return UsageError(failed.what, why=failed.why, hint=failed.hint)
    told = ending(outcome, job, spec)
    kept = _complete(outcome, told, out)
    if outcome.ended_by == "interrupt":
        return _interrupted(told, kept, out)
    if kept:
        why = f"{told.why}\nkept in `{out}`: {', '.join(kept)}".strip()
        # Before the first timed run there is nothing that a report could say.
        told_by = _told_by(out) if "timing" in kept else ""
        hint = "\n".join(filter(None, (told.hint, told_by)))
        return RecordingStopped(told.what, why=why, hint=hint, directory=out, message=told.message)
    return RecordingStopped(told.what, why=told.why, hint=told.hint, message=told.message)


def _told_by(out: Path) -> str:
    return f"what was recorded: `decodeprof analyze {shlex.quote(str(out))}`"


def _interrupted(told: Failed, kept: list[str], out: Path) -> RecordingStopped:
    """What the user did is no failure of anything: where it fell, and what there is to look at."""
    hint = "nothing had been recorded"
    if kept:
        hint = _told_by(out) if "timing" in kept else f"kept in `{out}`: {', '.join(kept)}"
    stopped = RecordingStopped(told.what, why=told.why, hint=hint, directory=out if kept else None)
    stopped.exit_code = EXIT_INTERRUPTED
    return stopped


def ending(outcome: Outcome, job: Job, spec: Spec) -> Failed:
    """In words, why a child did not finish: its own, where it could say so."""
    failed = outcome.failed
    # What a program raises because it was interrupted is not why it ended.
    interrupted = outcome.ended_by == "interrupt"
    own = failed is not None and (not interrupted or failed.what.startswith(IN_USER_CODE))
    if failed is not None and own and outcome.ended_by != "timeout":
        return failed
    return _ending(outcome, job, spec)


def _ending(outcome: Outcome, job: Job, spec: Spec) -> Failed:
    """In words, how a child ended that could not say so itself."""
    where = "\n".join(_user_stack(outcome.stack, spec))
    during = "while loading" if outcome.last_pass == "load" else f"in the {outcome.last_pass} pass"
    if outcome.ended_by == "timeout":
        return Failed(
            what=f"the target did not finish within {job.timeout_s:g} s",
            why=f"it was stopped {during}\n{where}".strip(),
            hint="give it more time with `--timeout`, or make fewer tokens; `--new-tokens N` ends "
            "a generator after N of them",
        )
    if outcome.ended_by == "interrupt":
        return Failed(what=f"stopped by Ctrl-C {during}", why=where)
    if outcome.returncode < 0:
        return _killed(signal.Signals(-outcome.returncode), during=during, where=where)
    return Failed(
        what=f"the target ended its process {during}",
        why=f"exit code {outcome.returncode}, without an exception\n{where}".strip(),
        hint="remove the call of `os._exit`, if it is the script's",
    )


def _killed(number: signal.Signals, *, during: str, where: str) -> Failed:
    hints = {
        signal.SIGKILL: "the system kills the largest process when memory runs out: lower the "
        "batch, the length or the model's size",
        signal.SIGSEGV: "a native extension crashed; the target's own output above may say more",
        signal.SIGABRT: "a native library gave up; the target's own output above may say why",
    }
    return Failed(
        what=f"the target's process was ended by {number.name} {during}",
        why=where or (signal.strsignal(number) or ""),
        hint=hints.get(number, ""),
    )


def _user_stack(stack: list[Frame], spec: Spec) -> list[str]:
    """The frames that matter of a stack, innermost last, as the fault handler saw it."""
    folder = spec.path.resolve().parent if spec.path is not None else Path.cwd()
    places = Places(str(folder))
    package = Path(__file__).parents[1]
    own = (str(package / "capture"), str(package / "lint"))
    shown = [frame for frame in stack if not frame.file.startswith(own)]
    users = [frame for frame in shown if not places.is_package(frame.file)]
    if shown and shown[0] not in users:
        users = [shown[0], *users]
    return [places.shown(frame) for frame in reversed(users)]


def _complete(outcome: Outcome, told: Failed, out: Path) -> list[str]:
    """Note in what was recorded how the pass under way ended; the passes that are of use."""
    try:
        recording = read_recording(out)
    except InputError:
        return []
    known = {report.name for report in recording.passes}
    if outcome.last_pass not in known:
        reason = f"{told.what}\n{told.why}".strip()
        # What was timed before the end is as good as ever.
        partly = outcome.last_pass == "timing" and recording.timing is not None
        status = "partial" if partly else "failed"
        report = PassReport(name=outcome.last_pass, status=status, reason=reason)
        recording = _with_pass(recording, report)
        write_recording(out, recording)
    return [report.name for report in recording.passes if report.status in USEFUL]


def _with_pass(recording: Recording, report: PassReport) -> Recording:
    return msgspec.structs.replace(recording, passes=[*recording.passes, report])


def _note_processes(outcome: Outcome, out: Path) -> None:
    """Say that a process which the target started had the GPU open, where ours did nothing."""
    assert outcome.finished is not None
    recording = read_recording(out)
    idle = outcome.finished.no_gpu_activity or recording.device is None
    if not idle or not outcome.holders:
        return
    named = ", ".join(f"`{holder.command}` (pid {holder.pid})" for holder in outcome.holders)
    text = (
        f"this process ran nothing on the GPU, but one that the target started had it open: "
        f"{named}; only the target's own process is recorded. Name a function that runs there, "
        "or let the engine work in its own process"
    )
    write_recording(out, msgspec.structs.replace(recording, caveats=[*recording.caveats, text]))


def _record_first_call(
    order: Order, phase: str, limit_s: float, out: Path, progress: Callable[[Progress], None]
) -> None:
    """Profile the first call in a process of its own; the recording says how that went."""
    begin = time.monotonic()
    progress(Progress(pass_name="first_call", text="loading again"))
    first = msgspec.structs.replace(order, mode="first_call", profile_from=phase)
    outcome = run_child(first, limit_s=limit_s, progress=progress)
    if outcome.finished is not None:
        report = PassReport(name="first_call", status="done")
    else:
        told = outcome.failed or _ending(outcome, order.job, parse_spec(order.job.target))
        report = PassReport(name="first_call", status="failed", reason=told.what)
    report = msgspec.structs.replace(report, seconds=round(time.monotonic() - begin, 3))
    write_recording(out, _with_pass(read_recording(out), report))


def record_under_nsys(
    order: Order, limit_s: float, out: Path, progress: Callable[[Progress], None]
) -> None:
    """Record the target once more under nsys; whatever comes of it, the recording stands."""
    recording = read_recording(out)
    if recording.device is None:
        # It was asked for, unlike the passes that are skipped; whether there is an nsys is nothing
        # that would change it.
        report = PassReport(name="nsys", status="failed", reason=_NOTHING_FOR_NSYS)
    else:
        copies = installed()
        report = record_nsys(order, out=out, copies=copies, limit_s=limit_s, progress=progress)
    caveats = [*recording.caveats, *left_raw(out)]
    recording = msgspec.structs.replace(recording, caveats=caveats)
    write_recording(out, _with_pass(recording, report))
