"""How is a target's step captured in a process of its own, and what is left when that dies?

torch is not imported here: the child does.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from decodeprof.capture.arguments import parse_arguments
from decodeprof.capture.graph_check.buckets import parse_bucket
from decodeprof.capture.graph_check.files import RUN_FILE
from decodeprof.capture.job import Failed, Job, Order, Progress
from decodeprof.capture.process import run_child
from decodeprof.capture.supervise import check_device, ending
from decodeprof.capture.target import parse_spec
from decodeprof.errors import EXIT_INTERRUPTED, TargetError, UsageError
from decodeprof.model.graph_check import GraphCheckRun

_CHILD = "decodeprof.capture.graph_check.child"


def check_graph(job: Job, *, progress: Callable[[Progress], None]) -> GraphCheckRun:
    """Capture a target's step; the target's own output goes to our stderr.

    Args:
        job: what to run, with its `step` and `buckets`.
        progress: told where it stands.

    Returns:
        What was learnt; where the process ended early after the capture had begun, with a caveat
        that says so.

    Raises:
        UsageError: the target, an argument, the step or a bucket is wrong.
        TargetError: there is no GPU, or the target failed before anything was captured.
    """
    spec = parse_spec(job.target)
    parse_arguments(job.args)
    check_device(job.device)
    for bucket in job.buckets:
        parse_bucket(bucket)
    with tempfile.TemporaryDirectory(prefix="decodeprof-graph-") as folder:
        order = Order(job=job, out=folder, mode="graph_check")
        begin = time.monotonic()
        outcome = run_child(order, limit_s=job.timeout_s, progress=progress, module=_CHILD)
        run = _read(Path(folder) / RUN_FILE)
    if outcome.finished is not None and run is not None:
        progress(Progress(pass_name="graph-check", text=f"{time.monotonic() - begin:.0f} s"))
        return run
    told = ending(outcome, job, spec)
    if run is not None and any(each.captured or each.error for each in run.attempts):
        return msgspec.structs.replace(run, caveats=[*run.caveats, _early(told)])
    if told.asked_wrongly:
        raise UsageError(told.what, why=told.why, hint=told.hint)
    stopped = TargetError(told.what, why=told.why, hint=told.hint)
    if outcome.ended_by == "interrupt":
        stopped.exit_code = EXIT_INTERRUPTED
    raise stopped


def _read(path: Path) -> GraphCheckRun | None:
    if not path.is_file():
        return None
    return msgspec.json.decode(path.read_bytes(), type=GraphCheckRun)


def _early(told: Failed) -> str:
    why = told.why.strip().replace("\n", "; ")
    return f"the process that captured ended early: {told.what}" + (f" ({why})" if why else "")
