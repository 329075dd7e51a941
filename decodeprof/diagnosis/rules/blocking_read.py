"""The host reads results from the device and waits for each, inside the decode step.

What it measures:
    Copies from the device to the host in decode steps, and which of them the host waits for in the
    same op: .item(), int(), bool(), .tolist() and .cpu() all do.

Why it costs time:
    The read cannot begin before the step's last kernel has run, and nothing can be launched while
    the host waits for it: the device idles from then until the next step's first launch arrives.
    With one read a step that happens once for every token.

Thresholds:
    None of its own. Reads whose removal saves less than 1 % of the step are left to
    sync-harmless: host times repeat to a percent.

What to do:
    Copy into pinned memory with non_blocking=True, record an event, launch the next step from the
    token that is on the device, and only then wait for the event and read. The host is one step
    behind and the device never idles.

When to ignore it:
    When the host needs longer for a step than the device: reading late wins nothing then, and the
    rule leaves the read to sync-harmless.
"""

from __future__ import annotations

from decodeprof import units
from decodeprof.analysis.copies import TO_HOST, HostCopies
from decodeprof.diagnosis import copying, gates, telling
from decodeprof.diagnosis.judging import Case, Clear, Found, LeftTo, Outcome
from decodeprof.model.diagnosis import Evidence, Recommendation

CODE = "blocking-read"
TITLE = "results read from the device with a wait"


def judge(case: Case) -> Outcome:
    """Find reads that wait and cost something, or whose cost is not known."""
    missing = gates.unable(case, "device", "calls")
    if missing is not None:
        return missing
    figures = case.evidence.decode
    assert figures is not None
    reads = copying.copies_of(case, TO_HOST)
    waiting = [read for read in reads if read.site is not None]
    if not waiting:
        # Which wait belongs to a copy is seen by the op around both.
        return (gates.not_captured(case, "ops") if reads else None) or Clear()
    costly = [read for read in waiting if not copying.is_harmless(case, read)]
    if not costly:
        return LeftTo("sync-harmless")
    count = sum(read.count for read in costly) / len(figures.rows)
    size = sum(read.bytes for read in costly) / len(figures.rows)
    summary = (
        f"{units.count(count)} × a step the host reads {units.bytes_(size)} from the device and "
        "waits for it; the next step could be launched first."
    )
    found = telling.finding(
        case,
        CODE,
        summary,
        evidence=[_fact(case, read, len(figures.rows)) for read in costly],
        advice=[_advice(case)],
        where=copying.places(case, costly),
    )
    return Found((found,))


def _fact(case: Case, read: HostCopies, steps: int) -> Evidence:
    assert read.site is not None
    site = telling.decode_sites(case)[read.site]
    memory = "pageable" if read.pageable else "pinned"
    cost = (
        f"; the wait costs {units.time(site.exposed_ns)} a step"
        if site.exposed_ns is not None
        else "; what the wait costs is not known"
    )
    by = f"`{read.op}`" if read.op else "no known op"
    return telling.measured(
        f"{units.count(read.count / steps)} × a step into {memory} memory by {by} at "
        f"{telling.place_of(site)}{cost}"
    )


def _advice(case: Case) -> Recommendation:
    return Recommendation(
        what="Read one step late, from pinned memory",
        how="pinned = torch.empty(batch, dtype=torch.long, pin_memory=True); each step: "
        "pinned.copy_(next_token, non_blocking=True); event.record(); launch the next step with "
        "next_token; event.synchronize(); token = int(pinned[0])",
        verify=telling.again(
            case, look="the exposed cost of this line, and the idle time after it"
        ),
        risk="a stop token is seen one step late, and one step's work is thrown away at the end",
    )
