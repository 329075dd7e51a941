"""The host waits for the device at these lines, and removing the waits would win next to nothing.

What it measures:
    The places that block the host in a decode step and whose exposed cost, from replay, is below
    one percent of the step.

Why it costs time:
    It does not, here. Where the host needs longer for its launches than the device for its kernels,
    the device has drained before the host asks, and the wait returns at once. Where one kernel
    follows that takes long, the device is never idle behind it.

Thresholds:
    Less than 1 % of the step saved, the other side of what is worth removing: host times repeat
    to a percent.

What to do:
    Nothing for speed alone. Two things may change that: a CUDA graph cannot hold a wait (capture
    fails with "operation not permitted when stream is capturing"), and once the step is launched as
    one graph the same wait may be most of what is left. Record again then.

When to ignore it:
    As long as the step is launched as it is now.
"""

from __future__ import annotations

from decodeprof import units
from decodeprof.diagnosis import gates, telling
from decodeprof.diagnosis.judging import LOW_SHARE, Case, Clear, Found, Outcome
from decodeprof.model.diagnosis import Evidence, Recommendation, SyncSite

CODE = "sync-harmless"
TITLE = "blocking calls that cost nothing here"

MOST_SHARE = LOW_SHARE


def judge(case: Case) -> Outcome:
    """One finding that names all harmless sites."""
    missing = gates.unable(case, "device", "calls")
    if missing is not None:
        return missing
    sites = telling.decode_sites(case)
    if not sites:
        return Clear()
    untold = gates.withheld(case)
    if untold is not None:
        return untold
    harmless = [
        site
        for site in sites
        if site.exposed_ns is not None and telling.share_of_step(case, site.exposed_ns) < MOST_SHARE
    ]
    if not harmless:
        return Clear()
    calls = sum(site.calls_per_step for site in harmless)
    places = ", ".join(dict.fromkeys(telling.place_of(site) for site in harmless))
    summary = (
        f"{units.counted(calls, 'blocking call')} a step, harmless here: {places}; removing "
        f"one saves less than {units.share(MOST_SHARE)} of the step."
    )
    found = telling.finding(
        case,
        CODE,
        summary,
        evidence=[*(_fact(site) for site in harmless), _why(case)],
        advice=[_advice(case)],
        where=[where for site in harmless for where in telling.where_of(site)],
    )
    return Found((found,))


def _fact(site: SyncSite) -> Evidence:
    return telling.modelled(
        f"{telling.place_of(site)}{f' ({site.op})' if site.op and site.file else ''}: "
        f"{units.count(site.calls_per_step)} × a step, removing it saves "
        f"{units.time(site.exposed_ns)}"
    )


def _why(case: Case) -> Evidence:
    step = case.diagnosis.step
    assert step is not None
    if case.diagnosis.verdict.bound_by == "launch":
        return telling.derived(
            f"the device works {units.time(step.busy_ns)} of a step and waits for launches the "
            "rest: a wait finds little to wait for"
        )
    return telling.derived("what follows the waits is launched before the device needs it")


def _advice(case: Case) -> Recommendation:
    return Recommendation(
        what="Leave them, until the step is captured in a CUDA graph",
        how="for a capture, move the waits out of the captured function: no int(), .item(), bool() "
        'or torch.tensor(..., device="cuda") inside it',
        verify=telling.again(case, look="after the capture, the exposed column of blocking calls"),
        risk="none: nothing is changed",
    )
