"""Does a decode step keep within its limits? Held, failed, or could not be told.

Counts are totals over whole periods ÷ steps, so two recordings of one program give the same ones.
What was not captured is never taken for 0.
"""

from __future__ import annotations

import msgspec

from decodeprof import units
from decodeprof.diagnosis.baseline import comparable, new_sites
from decodeprof.model.diagnosis import Diagnosis, StepFigures, SyncSite
from decodeprof.model.gate import Answer, Baseline, Checked, GateResult, Limits

_RECORD = "record the loop with `decodeprof diagnose` on a machine with a GPU"
_PROFILE = "profile with CPU and CUDA activities, or record with `decodeprof diagnose`"
_MARK = "mark the steps with `decodeprof.step()`, or record with `decodeprof diagnose`"
_SHAPES = "record with `decodeprof diagnose`, or profile with record_shapes=True"


def check(diagnosis: Diagnosis, limits: Limits, *, baseline: Baseline | None = None) -> Checked:
    """Hold a diagnosis against limits.

    Args:
        diagnosis: of a recording or a trace.
        limits: those that are null are not looked at.
        baseline: the blocking calls that may be there; None: any may.
    """
    results = []
    if limits.max_syncs is not None:
        results.append(_syncs(diagnosis, limits.max_syncs))
    if limits.max_launches is not None:
        results.append(_launches(diagnosis, limits.max_launches))
    if limits.max_kernels is not None:
        results.append(_kernels(diagnosis, limits.max_kernels))
    if limits.min_mbu is not None:
        results.append(_mbu(diagnosis, limits.min_mbu))
    if baseline is not None:
        results.append(_new_syncs(diagnosis, baseline))
    answers = {result.answer for result in results}
    answer: Answer = "held"
    if answers - {"held"}:
        # What failed is certain, whatever else could not be told.
        answer = "failed" if "failed" in answers else "unknown"
    return Checked(source=diagnosis.source.name, answer=answer, results=results)


def why_syncs_unknown(diagnosis: Diagnosis) -> tuple[str, str] | None:
    """Why the blocking calls of a decode step are not known, and what to capture; None: they are.

    A detector's pass alone does not do: what waits inside a library only the trace holds.
    """
    return _unable(diagnosis, "calls")


def _unable(diagnosis: Diagnosis, *tables: str) -> tuple[str, str] | None:
    if not diagnosis.devices:
        return "nothing ran on a GPU, so nothing was counted", _RECORD
    if diagnosis.step is None:
        return "no decode step was found to count in", _MARK
    missing = [table for table in tables if table not in diagnosis.source.captured]
    if missing:
        words = {"calls": "API calls", "device": "device activity"}
        return f"the capture does not hold {words[missing[0]]}", _PROFILE
    return None


def _unknown(result: GateResult, why: tuple[str, str]) -> GateResult:
    reason, capture = why
    return msgspec.structs.replace(
        result, answer="unknown", text=f"could not tell: {reason}", capture=capture
    )


def _syncs(diagnosis: Diagnosis, limit: float) -> GateResult:
    blank = GateResult(name="max-syncs", answer="unknown", limit=limit, found=None, text="")
    why, step = why_syncs_unknown(diagnosis), diagnosis.step
    if why is not None or step is None:
        return _unknown(blank, why or ("", ""))
    sites = [s for s in diagnosis.syncs if s.phase == "decode" and comparable(s)]
    found = _sync_calls(step, sites)
    failed = found > limit
    over = _over(step) if found == step.syncs else ", with what only a detector's pass held"
    return msgspec.structs.replace(
        blank,
        answer="failed" if failed else "held",
        found=found,
        text=f"{units.counted(found, 'blocking call')} a step{over}",
        sites=sites if failed else [],
    )


def _sync_calls(step: StepFigures, sites: list[SyncSite]) -> float:
    """Blocking calls a step: those of the trace, and those that only a detector's pass held.

    A call of the trace that was joined to no line may be one that the detector has with its line,
    so those two are not added up.
    """
    with_line = sum(site.calls_per_step for site in sites if site.file is not None)
    return max(step.syncs or 0.0, with_line)


def _launches(diagnosis: Diagnosis, limit: float) -> GateResult:
    blank = GateResult(name="max-launches", answer="unknown", limit=limit, found=None, text="")
    why, step = _unable(diagnosis, "calls"), diagnosis.step
    if why is not None or step is None or step.launches is None or step.graph_launches is None:
        return _unknown(blank, why or ("launches were not counted", _PROFILE))
    found = step.launches + step.graph_launches
    text = (
        f"{units.counted(step.launches, 'kernel launch', 'kernel launches')} and "
        f"{units.counted(step.graph_launches, 'graph launch', 'graph launches')} a step"
        f"{_over(step)}"
    )
    return msgspec.structs.replace(blank, answer=_at_most(found, limit), found=found, text=text)


def _kernels(diagnosis: Diagnosis, limit: float) -> GateResult:
    blank = GateResult(name="max-kernels", answer="unknown", limit=limit, found=None, text="")
    why, step = _unable(diagnosis, "device"), diagnosis.step
    if why is not None or step is None or step.kernels is None:
        return _unknown(blank, why or ("kernels were not counted", _PROFILE))
    text = f"{units.counted(step.kernels, 'kernel')} a step{_over(step)}"
    return msgspec.structs.replace(
        blank, answer=_at_most(step.kernels, limit), found=step.kernels, text=text
    )


def _mbu(diagnosis: Diagnosis, limit: float) -> GateResult:
    """Bytes that a step must move ÷ its time ÷ the bandwidth; floor bytes, not kernels' bytes."""
    blank = GateResult(name="min-mbu", answer="unknown", limit=limit, found=None, text="")
    why, step, floors = _unable(diagnosis, "device"), diagnosis.step, diagnosis.floors
    if why is not None or step is None:
        return _unknown(blank, why or ("", ""))
    if floors is None or floors.bytes is None:
        return _unknown(blank, ("the bytes that a step must read are not known", _SHAPES))
    if not floors.bytes_ns:
        return _unknown(blank, ("the bandwidth of this device is not known", _RECORD))
    unprofiled = step.unprofiled_ns
    step_ns = unprofiled.median if unprofiled is not None else step.profiled_ns
    if not step_ns:
        return _unknown(blank, ("the step's time is not known", _RECORD))
    found = floors.bytes_ns / step_ns
    held = found >= limit
    text = (
        f"MBU {units.share(found)}: {units.bytes_(floors.bytes)} that a step must move, in "
        f"{units.time(step_ns)}, at {units.bandwidth(floors.bandwidth_bytes_per_s)} "
        f"({floors.bandwidth_source})"
    )
    if unprofiled is None and not held:
        # A profiler only makes a step longer: enough under it is enough, too little may not be.
        reason = f"{text}; that is profiled time, and without the profiler it may be enough"
        return msgspec.structs.replace(_unknown(blank, (reason, _RECORD)), found=found)
    return msgspec.structs.replace(
        blank, answer="held" if held else "failed", found=found, text=text
    )


def _new_syncs(diagnosis: Diagnosis, baseline: Baseline) -> GateResult:
    blank = GateResult(name="no-new-syncs", answer="unknown", limit=0, found=None, text="")
    why = why_syncs_unknown(diagnosis)
    if why is not None:
        return _unknown(blank, why)
    new = new_sites(diagnosis, baseline)
    without_line = sum(1 for s in diagnosis.syncs if comparable(s) and s.file is None)
    text = units.counted(len(new), "new blocking call site")
    if without_line:
        told = units.counted(without_line, "call has", "calls have")
        text += f"; {told} no recorded source line and went by op and number"
    answer = "failed" if new else "held"
    return msgspec.structs.replace(
        blank, answer=answer, found=float(len(new)), text=text, sites=new
    )


def _at_most(found: float, limit: float) -> Answer:
    return "held" if found <= limit else "failed"


def _over(step: StepFigures) -> str:
    steps = units.counted(step.n, "step")
    return f", over {steps}" if step.steady else f", over {steps} not known to be steady"
