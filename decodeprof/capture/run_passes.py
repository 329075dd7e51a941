"""In which order are the passes run, and what becomes of a recording when one fails?"""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec

from decodeprof import units
from decodeprof.capture import measure, passes, warmup
from decodeprof.capture.load import UserCodeFailed
from decodeprof.capture.record_ops import operations_pass
from decodeprof.capture.session import Session
from decodeprof.recording import PassReport

Pass = Callable[[Session], PassReport]


def all_passes(session: Session, *, last: Pass = passes.gpu_trace_pass) -> None:
    """Run every pass; the profiler stays attached after its own, so what it disturbs comes before.

    Args:
        session: the recording and its target.
        last: the pass that cannot be undone, or what stands in its place.

    Raises:
        UserCodeFailed: the target failed in a pass without which the others are not worth running,
            or was interrupted.
    """
    _essential(session, "warmup", warmup.warm_up)
    _essential(session, "timing", measure.measure)
    _optional(session, "ceilings", passes.ceilings)
    _optional(session, "profile", passes.profile)
    _optional(session, "sync_debug", passes.sync_debug_pass)
    _optional(session, "operations", operations_pass)
    _optional(session, "gpu_trace", last)


def _essential(session: Session, name: str, run: Pass) -> None:
    """Run a pass without which the others are not worth running."""
    session.channel.progress(name, "")
    begin = time.monotonic()
    try:
        report = run(session)
    except UserCodeFailed as failed:
        partly = session.calls > 1 if name == "warmup" else session.recording.timing is not None
        status = "partial" if partly else "failed"
        _report(session, PassReport(name=name, status=status, reason=session.reason(failed)), begin)
        raise
    _report(session, report, begin)


def _optional(session: Session, name: str, run: Pass) -> None:
    """Run a pass; if it fails, the others are run all the same."""
    # Without a GPU there is nothing to do in the others, and nothing to announce.
    if session.on_device or name == "profile":
        session.channel.progress(name, "")
    begin = time.monotonic()
    try:
        report = run(session)
    except UserCodeFailed as failed:
        reason = session.reason(failed)
        report = PassReport(name=name, status="failed", reason=reason)
        if isinstance(failed.error, KeyboardInterrupt):
            _report(session, report, begin)
            raise
        session.caveat(
            f"the target failed in the {name} pass, after "
            f"{units.counted(session.calls - 1, 'call')}"
        )
    except RuntimeError as error:  # A CUDA error, or one of the profiler's own.
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        report = PassReport(name=name, status="failed", reason=reason)
    _report(session, report, begin)


def _report(session: Session, report: PassReport, begin: float) -> None:
    seconds = round(time.monotonic() - begin, 3)
    session.change(compile=session.watches.compiled.info(session.places))
    session.report(msgspec.structs.replace(report, seconds=seconds))
