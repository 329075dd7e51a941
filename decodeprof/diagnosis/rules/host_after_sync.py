"""After this blocking call the host works on before it launches anything, and the device is idle.

What it measures:
    For each place that blocks the host, the device's idle time from the wait's end until the queue
    fills again, and what the launching thread did in it: Python, framework ops, calls into CUDA.

Why it costs time:
    A wait ends with an empty launch queue. All that the host does before its next launch (turning a
    token into text, checking stop strings, updating masks and positions, appending to lists) the
    device spends idle, once for every token. The same work done after the launch would cost nothing
    while the device is busy.

Thresholds:
    5 % of the step: some work always follows a read, and less is not worth moving.

What to do:
    Launch the next step first, from the token on the device, and do the bookkeeping of the last
    token while it runs. Move what does not depend on the token out of the loop.

When to ignore it:
    When the host is behind anyway, at every launch: the step is launch-bound then, and a CUDA graph
    comes first.
"""

from __future__ import annotations

from decodeprof import units
from decodeprof.analysis.after_waits import WorkAfter, work_after
from decodeprof.diagnosis import gates, telling
from decodeprof.diagnosis.judging import MEDIUM_SHARE, Case, Clear, Found, Outcome
from decodeprof.model.diagnosis import Evidence, Finding, Recommendation, SyncSite

CODE = "host-after-sync"
TITLE = "host work between a blocking call and the next launch"

LEAST_SHARE = MEDIUM_SHARE


def judge(case: Case) -> Outcome:
    """One finding for each site with much idle time behind it."""
    missing = gates.unable(case, "device", "calls")
    if missing is not None:
        return missing
    figures, step = case.evidence.decode, case.diagnosis.step
    assert figures is not None
    assert step is not None
    profiled = step.profiled_ns or 0
    found = tuple(
        _finding(case, site, work_after(case.evidence.trace, raw.calls), len(figures.rows))
        for site, raw in zip(telling.decode_sites(case), case.evidence.decode_sites, strict=True)
        if site.idle_after_ns is not None and site.idle_after_ns >= LEAST_SHARE * profiled > 0
    )
    return Found(found) if found else Clear()


def _finding(case: Case, site: SyncSite, work: WorkAfter, steps: int) -> Finding:
    step = case.diagnosis.step
    assert step is not None
    share = (site.idle_after_ns or 0) / max(step.profiled_ns or 1, 1)
    return telling.finding(
        case,
        CODE,
        f"After {telling.place_of(site)} the device is idle for {units.time(site.idle_after_ns)} a "
        f"step, {units.share(share)} of it, until the host's next launch arrives.",
        evidence=_evidence(case, work, steps),
        advice=[
            Recommendation(
                what="Launch the next step before the host's own work on the last token",
                how="in the loop: read the token of step n only after step n + 1 is launched "
                "(pinned copy and event); put detokenising, stop strings, callbacks and logging "
                "behind that launch; build masks and positions once, and update them on the device",
                verify=telling.again(case, look=f"the idle time after {telling.place_of(site)}"),
                risk="the bookkeeping runs one token late, so that one step too many is launched "
                "at the end",
            )
        ],
        where=telling.where_of(site),
    )


def _evidence(case: Case, work: WorkAfter, steps: int) -> list[Evidence]:
    has_ops = case.captured("ops")
    python = "Python" if has_ops else "Python and framework ops"
    split = [f"{units.time(work.python_ns / steps)} in {python}"]
    if has_ops:
        split.append(f"{units.time(work.dispatch_ns / steps)} in framework ops")
    split.append(f"{units.time(work.launch_ns / steps)} in CUDA calls that launch nothing")
    facts = [
        telling.measured(
            f"from the wait's end to the next launch call the host spends {', '.join(split)} a "
            "step (profiled)"
        )
    ]
    if work.ops:
        facts.append(
            telling.measured(f"ops in it: {', '.join(f'`{op}`' for op in dict.fromkeys(work.ops))}")
        )
    if work.frames:
        facts.append(telling.measured(f"Python functions in it: {'; '.join(work.frames)}"))
    return facts
