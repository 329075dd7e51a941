"""Some steps did work that others do not: a first use, an allocation, a compilation, a capture.

What it measures:
    The decode steps that the per-step figures leave out as unlike the others, how much longer they
    took than the median step, and how much longer the first decode step is in unprofiled calls.

Why it costs time:
    A kernel's code is loaded at its first use, cuBLAS and cuDNN choose an algorithm and allocate a
    workspace, torch.compile compiles for a new shape, a CUDA graph is captured, the allocator asks
    the driver for memory. Each happens once, and takes ms to seconds.

Thresholds:
    A step half as long again as the median: host times of single steps scatter by tens of
    percent.

What to do:
    Warm up before the first request: run a prefill and a few decode steps at the shapes that will
    be used, capture graphs then, and keep compiled code in a cache on disk.

When to ignore it:
    When only throughput over a long run matters. Step figures in the report leave these steps out.
"""

from __future__ import annotations

from decodeprof import units
from decodeprof.diagnosis import gates, telling
from decodeprof.diagnosis.judging import Case, Clear, Found, Outcome
from decodeprof.model.diagnosis import Evidence, Recommendation, StepRow

CODE = "one-off-costs"
TITLE = "steps with work that is done once"

LEAST_EXCESS_SHARE = 0.5
_ONE_OFF = "one-off work"
_FIRST = "the first decode step"
FEWEST_STEPS = 3
_MOST_STEPS = 4


def judge(case: Case) -> Outcome:
    """Find decode steps that stand out, in the trace or in the unprofiled calls."""
    recording = case.evidence.recording
    # Unprofiled calls tell of their first step where nothing ran on a device, too.
    missing = gates.unable(case, "device", "calls")
    runs = recording.timing.runs if recording and recording.timing else []
    step = case.diagnosis.step
    median = (step.profiled_ns or 0) if step is not None else 0
    first = _slow_first_step([run.step_ns for run in runs])
    rows = [
        row
        for row in case.diagnosis.steps.rows
        if _is_one_off(row, runs_known=bool(runs))
        and (row.step_ns or 0) > (1 + LEAST_EXCESS_SHARE) * median > 0
    ]
    if not rows and first is None:
        return missing or Clear()
    parts = []
    if rows:
        excess = sum((row.step_ns or 0) - median for row in rows)
        parts.append(
            f"{units.counted(len(rows), 'decode step')} took {units.time(excess)} more than the "
            "median step, in profiled time"
        )
    if first is not None:
        parts.append(
            f"the first decode step of a call takes {units.time(first[0])} where the median step "
            f"takes {units.time(first[1])}"
        )
    summary = "; ".join(parts)
    found = telling.finding(
        case,
        CODE,
        summary[0].upper() + summary[1:] + ".",
        evidence=_evidence(rows, first),
        advice=[
            Recommendation(
                what="Do one-off work before the first request",
                how="at start-up run one prefill and three decode steps for each batch and length "
                "bucket, capture the graphs there, and set TORCHINDUCTOR_FX_GRAPH_CACHE=1 so that "
                "compiled code is kept",
                verify=telling.again(case, look="no step is left out for one-off work"),
                risk="start-up takes longer, and graphs of shapes never used hold memory",
            )
        ],
    )
    return Found((found,))


def _is_one_off(row: StepRow, *, runs_known: bool) -> bool:
    """Whether a step of the trace did one-off work, as far as the trace shows.

    Where unprofiled calls are known they tell whether first steps are slow: not the profile.
    """
    why = row.why_left_out or ""
    if row.phase != "decode" or row.step_ns is None or not row.measured:
        return False
    return why.startswith(_ONE_OFF) or (why == _FIRST and not runs_known)


def _slow_first_step(calls: list[list[int]]) -> tuple[int, int] | None:
    """Lower medians, over calls, of the first step and of those between; None: they are alike.

    The last step says nothing: it is cut short by the call's end, or holds what follows the loop.
    """
    calls = [steps for steps in calls if len(steps) >= FEWEST_STEPS]
    if not calls:
        return None
    first = sorted(steps[0] for steps in calls)[(len(calls) - 1) // 2]
    others = sorted(ns for steps in calls for ns in steps[1:-1])
    usual = others[(len(others) - 1) // 2]
    return (first, usual) if first > (1 + LEAST_EXCESS_SHARE) * usual else None


def _evidence(rows: list[StepRow], first: tuple[int, int] | None) -> list[Evidence]:
    facts = [
        telling.measured(
            f"step {row.index}: {units.time(row.step_ns)} in profiled time; {row.why_left_out}"
        )
        for row in rows[:_MOST_STEPS]
    ]
    if first is not None:
        facts.append(
            telling.measured("the first step's time is the median over the unprofiled calls")
        )
    return facts
