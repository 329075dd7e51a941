"""How is a target linted in a process of its own, and what is left when it misbehaves?

torch is not imported here: the child does.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from decodeprof.capture.arguments import parse_arguments
from decodeprof.capture.job import Failed, Job, Order, Progress
from decodeprof.capture.process import run_child
from decodeprof.capture.supervise import ending
from decodeprof.capture.target import parse_spec
from decodeprof.errors import EXIT_INTERRUPTED, TargetError, UsageError
from decodeprof.model.lint import LintRun

_CHILD = "decodeprof.lint.child"
RUN_FILE = "lint.json"


class LintStopped(TargetError):
    """A run that ended early; `run` is what had been predicted, None where nothing had."""

    def __init__(self, told: Failed, run: LintRun | None) -> None:
        super().__init__(told.what, why=told.why, hint=told.hint)
        self.run = run


def run_lint(
    job: Job, *, default_device: str | None, progress: Callable[[Progress], None]
) -> LintRun:
    """Run a target as if there were a GPU; its own output goes to our stderr.

    Args:
        job: what to run; a real GPU is hidden from it.
        default_device: where what names no device is made; None: as the target says.
        progress: told where it stands.

    Raises:
        UsageError: the target or an argument is wrong.
        LintStopped: the target failed, hung, left, or was interrupted.
    """
    spec = parse_spec(job.target)
    parse_arguments(job.args)
    hidden = msgspec.structs.replace(job, device="cpu")
    with tempfile.TemporaryDirectory(prefix="decodeprof-lint-") as folder:
        order = Order(job=hidden, out=folder, mode="lint", default_device=default_device)
        begin = time.monotonic()
        outcome = run_child(
            order, limit_s=job.timeout_s, progress=progress, module=_CHILD, asked_to_stop=True
        )
        path = Path(folder) / RUN_FILE
        run = msgspec.json.decode(path.read_bytes(), type=LintRun) if path.is_file() else None
    if outcome.finished is not None and run is not None:
        progress(Progress(pass_name="lint", text=f"done in {time.monotonic() - begin:.0f} s"))
        return run
    told = ending(outcome, hidden, spec)
    if told.asked_wrongly:
        raise UsageError(told.what, why=told.why, hint=told.hint)
    if run is not None:
        predicted = run.syncs or run.copies or run.record is not None
        run = msgspec.structs.replace(run, stopped=told.what) if predicted else None
    stopped = LintStopped(told, run)
    if outcome.ended_by == "interrupt":
        stopped.exit_code = EXIT_INTERRUPTED
    raise stopped
