"""Data goes to the device from pageable host memory, inside the decode step.

What it measures:
    Copies to the device in decode steps whose source is pageable memory, as the profiler names
    them, the op that made each, and whether the host waited there.

Why it costs time:
    The driver cannot read pageable memory from the device: it stages the data through a buffer of
    its own. torch.tensor(..., device="cuda") and .to("cuda") wait until that is done, and
    non_blocking=True does not change how it is staged. A CUDA graph cannot hold such a copy.

Thresholds:
    None of its own. Copies whose removal saves less than 1 % of the step are left to
    sync-harmless: host times repeat to a percent.

What to do:
    Make the tensor on the device (torch.arange, torch.full, an in-place add on a counter), keep the
    sampled token there, or copy from a buffer made once with pin_memory(), non_blocking=True.

When to ignore it:
    When the step is launch-bound and stays so, and the copy is small: the wait is short then. The
    rule leaves such copies to sync-harmless.
"""

from __future__ import annotations

from decodeprof import units
from decodeprof.analysis.copies import TO_DEVICE, HostCopies
from decodeprof.diagnosis import copying, gates, telling
from decodeprof.diagnosis.judging import Case, Clear, Found, LeftTo, Outcome
from decodeprof.model.diagnosis import Evidence, Recommendation

CODE = "pageable-copy"
TITLE = "copies to the device from pageable memory"


def judge(case: Case) -> Outcome:
    """Find copies from pageable memory that cost something, or whose cost is not known."""
    missing = gates.unable(case, "device", "calls")
    if missing is not None:
        return missing
    figures = case.evidence.decode
    assert figures is not None
    copies = [copy for copy in copying.copies_of(case, TO_DEVICE) if copy.pageable]
    if not copies:
        return Clear()
    told = [copy for copy in copies if copying.is_harmless(case, copy)]
    if len(told) == len(copies):
        return LeftTo("sync-harmless")
    copies = [copy for copy in copies if copy not in told]
    count = sum(copy.count for copy in copies) / len(figures.rows)
    size = sum(copy.bytes for copy in copies) / len(figures.rows)
    summary = (
        f"{units.count(count)} × a step data is copied from pageable host memory "
        f"({units.bytes_(size)})."
    )
    found = telling.finding(
        case,
        CODE,
        summary,
        evidence=[_fact(case, copy, len(figures.rows)) for copy in copies],
        advice=[_advice(case)],
        where=copying.places(case, copies),
    )
    return Found((found,))


def _fact(case: Case, copy: HostCopies, steps: int) -> Evidence:
    if copy.site is None:
        wait = "the host did not wait for it, but it is staged all the same"
    else:
        site = telling.decode_sites(case)[copy.site]
        wait = f"the host waits for it at {telling.place_of(site)}"
        if site.exposed_ns is not None:
            wait += f", which costs {units.time(site.exposed_ns)} a step"
    by = f"`{copy.op}`" if copy.op else "no known op"
    return telling.measured(
        f"{units.count(copy.count / steps)} × a step, {units.bytes_(copy.bytes / copy.count)} "
        f"each, by {by}: {wait}"
    )


def _advice(case: Case) -> Recommendation:
    return Recommendation(
        what="Keep the data on the device, or copy it from pinned memory",
        how="before the loop: host = torch.empty(shape, dtype=dtype, pin_memory=True); in it: "
        "host.copy_(values), device_tensor.copy_(host, non_blocking=True); better still, compute "
        "positions and tokens on the device (position.add_(1))",
        verify=telling.again(case, look="no `Pageable -> Device` copy in a decode step"),
        risk="a pinned buffer must not be written again before its copy has run: use two, or an "
        "event",
    )
