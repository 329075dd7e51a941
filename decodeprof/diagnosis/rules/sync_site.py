"""The host waits for the device at this line, and the step would be shorter if it did not.

What it measures:
    For each place that blocks the host in a decode step, the exposed cost: the step is replayed
    with this wait taking no time, and the difference is the saving. The call's own duration and the
    idle time inside and after it stand beside it.

Why it costs time:
    After a wait the launch queue is empty: the device idles until the host has dispatched the next
    kernel. The length of the call says little. A wait of 3 ms behind 3 ms of kernels costs as
    little as a wait of 10 µs, and removing it may only move the waiting to the next blocking call.

Thresholds:
    1 % of the step saved: what removing a wait saves is known to 20 % at best, and host times
    repeat to a percent, so that less would not be seen.

What to do:
    Keep values on the device that only the device needs (the next token, stop flags, masks). What
    the host does need it can read one step late: copy it to pinned memory with non_blocking=True,
    record an event, launch the next step, then read. Check for a stop every 8 or 16 steps.

When to ignore it:
    When the value decides what runs next and nothing can be launched before it is known.
"""

from __future__ import annotations

from decodeprof import units
from decodeprof.diagnosis import gates, telling
from decodeprof.diagnosis.judging import LOW_SHARE, Case, Clear, Found, Outcome
from decodeprof.model.diagnosis import Finding, Range, Recommendation, SyncSite

CODE = "sync-site"
TITLE = "a blocking call whose removal shortens the step"

LEAST_SHARE = LOW_SHARE

_READS = ("item", "_local_scalar_dense", "is_nonzero", "tolist")
_SHAPES = ("nonzero", "masked_select", "unique", "index", "repeat_interleave", "bincount", "where")
_COPIES = ("to", "_to_copy", "copy_")


def judge(case: Case) -> Outcome:
    """One finding for each site that costs more than the noise."""
    missing = gates.unable(case, "device", "calls")
    if missing is not None:
        return missing
    sites = telling.decode_sites(case)
    if not sites:
        return Clear()
    untold = gates.withheld(case)
    if untold is not None:
        return untold
    found = tuple(
        _finding(case, site, case.predicted.site_saving_ns[index])
        for index, site in enumerate(sites)
        if index in case.predicted.site_saving_ns
        and telling.share_of_step(case, site.exposed_ns) >= LEAST_SHARE
    )
    return Found(found) if found else Clear()


def _finding(case: Case, site: SyncSite, saving: Range) -> Finding:
    op = f" ({site.op})" if site.op else ""
    summary = (
        f"{telling.place_of(site)}{op if site.file else ''} blocks the host "
        f"{units.count(site.calls_per_step)} × a step; without it the step would be "
        f"{units.time(saving.expected)} shorter{telling.timed(case)}."
    )
    evidence = [
        telling.measured(
            f"{units.time(site.call_ns)} a step inside `{site.api}`, of which the device is idle "
            f"{units.time(site.idle_inside_ns)}; {units.time(site.idle_after_ns)} idle after it, "
            "until the queue filled again (profiled)"
        ),
        telling.modelled(
            "assumes the wait takes no time, and the host goes on with what it did after it"
        ),
    ]
    caller = telling.caller_of(case, site)
    if caller is not None:
        evidence.append(telling.measured(f"called from {caller}"))
    return telling.finding(
        case,
        CODE,
        summary,
        evidence=evidence,
        advice=[_advice(case, site)],
        where=telling.where_of(site),
        saving=saving,
    )


def _advice(case: Case, site: SyncSite) -> Recommendation:
    what, how, risk = _remedy(site)
    return Recommendation(
        what=what,
        how=how,
        verify=telling.again(case, look="this line is gone from the blocking calls"),
        risk=risk,
    )


def _remedy(site: SyncSite) -> tuple[str, str, str]:
    op = (site.op or "").removeprefix("aten::")
    if op in _READS:
        return (
            "Read the value one step late, or not in every step",
            "feed the next step from the CUDA tensor (next_token = logits.argmax(-1)), without "
            "int(); pinned.copy_(next_token, non_blocking=True), event.record(), launch the next "
            "step, then event.synchronize() and read pinned; or append CUDA tensors to a list and "
            "call torch.stack(tokens).tolist() once at the end",
            "a stop token is noticed one step late: that step's result is thrown away",
        )
    if op in _COPIES:
        return (
            "Build the tensor on the device, or copy from pinned memory without waiting",
            'replace torch.tensor(value, device="cuda") in the loop by a preallocated CUDA tensor '
            "that the device updates (position.add_(1), token.copy_(next_token)); what comes from "
            "the host goes through a pin_memory() buffer with non_blocking=True",
            "a pinned buffer must not be overwritten before its copy has run",
        )
    if op in _SHAPES:
        return (
            "Use an op whose result does not depend on values for its shape",
            "torch.where(mask, a, b) or masked_fill in place of x[mask]; index_select with a fixed "
            "number of rows; compute on all rows and mask the result",
            "rows that the mask would have dropped are computed in vain",
        )
    return (
        "Remove the wait, or move it behind the next step's launches",
        "drop torch.cuda.synchronize() and stream.synchronize() from the loop; order streams with "
        "stream.wait_event(event), which does not block the host",
        "what was timed or read right after the wait must get its own event",
    )
