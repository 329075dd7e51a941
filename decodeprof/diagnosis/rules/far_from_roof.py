"""A matrix kernel takes a large part of the device's time and moves data far below the roof.

What it measures:
    For each matrix kernel that takes a tenth of the device's time or more: the bytes and the
    operations of its ops, by their shapes, over its time, against the bandwidth and arithmetic
    rate that the device reached when it was measured (or its datasheet's, which is said).

Why it costs time:
    In decoding a matrix product reads each weight once, so that it cannot take less than its bytes
    over the bandwidth. Far above that, the kernel is the wrong one for its shape: tiles meant for
    many rows, too few blocks to fill the device, a split that costs more than it wins, or a product
    so small that starting it takes longer than its data.

Thresholds:
    A tenth of the device's time, since a kernel of less can win less than that; below half of
    the roof, since good matrix-vector kernels reach 70 to 95 % of what a copy does; 100 kB,
    below which even a perfect kernel mostly starts and ends: they take 25 ns at 4 TB/s.

What to do:
    Merge products that read the same input (query, key and value; gate and up) into one, pad odd
    sizes to multiples of 64, let torch.compile(mode="max-autotune") choose kernels for these
    shapes, or write a matrix-vector kernel.

When to ignore it:
    While the host bounds the step: the device waits anyway, and a CUDA graph comes first. It counts
    as soon as the device bounds the step.
"""

from __future__ import annotations

import re

from decodeprof import units
from decodeprof.analysis.traffic.rates import NameRate, name_rates, rows_of_steps
from decodeprof.diagnosis import gates, telling
from decodeprof.diagnosis.judging import Case, Clear, CouldNotTell, Found, Outcome
from decodeprof.model.diagnosis import Evidence, Finding, Floors, Recommendation
from decodeprof.model.families import family

CODE = "far-from-roof"
TITLE = "a matrix kernel far below the device's bandwidth and arithmetic rate"

LEAST_TIME_SHARE = 0.1
FAR_SHARE = 0.5
LEAST_BYTES = 100_000
_FAMILY = "matrix"
_LONGEST_NAME = 60
_TEMPLATE = re.compile(r"[<(].*")


def judge(case: Case) -> Outcome:
    """One finding that names all such kernels, the longest first."""
    missing = gates.unable(case, "device")
    if missing is not None:
        return missing
    figures, traffic, floors = case.evidence.decode, case.evidence.traffic, case.diagnosis.floors
    assert figures is not None
    assert traffic is not None
    if floors is None or not floors.bandwidth_bytes_per_s:
        return CouldNotTell(
            reason="this device's bandwidth is neither measured nor known", capture=gates.RECORD
        )
    rows = rows_of_steps(case.evidence.steps, figures.rows)
    rates = name_rates(case.evidence.trace, traffic, rows)
    total = sum(rate.time_ns for rate in rates)
    large = [
        rate
        for rate in rates
        if family(rate.name) == _FAMILY and rate.time_ns >= LEAST_TIME_SHARE * total
    ]
    known = [rate for rate in large if rate.bytes is not None and rate.bytes >= 0]
    far = [
        (rate, roof)
        for rate in known
        if (rate.bytes or 0) >= LEAST_BYTES * rate.count
        and (roof := _roof_ns(rate, floors)) < FAR_SHARE * rate.time_ns
    ]
    if far:
        return Found((_finding(case, far, total),))
    if len(known) < len(large):
        return CouldNotTell(
            reason="how many bytes the matrix kernels move is not known", capture=gates.PROFILE
        )
    return Clear()


def _roof_ns(rate: NameRate, floors: Floors) -> float:
    """What the kernel's bytes or operations take at the least, whichever is more."""
    by_bytes = (rate.bytes or 0) * 1e9 / (floors.bandwidth_bytes_per_s or 1)
    if rate.flops and floors.flops and floors.flops_ns:
        return max(by_bytes, rate.flops * floors.flops_ns / floors.flops)
    return by_bytes


def _finding(case: Case, far: list[tuple[NameRate, float]], total_ns: int) -> Finding:
    figures = case.evidence.decode
    assert figures is not None
    steps = len(figures.rows)
    time = sum(rate.time_ns for rate, _ in far)
    roof = sum(roof_ns for _, roof_ns in far)
    evidence = [_fact(case, rate, steps, total_ns) for rate, _ in far]
    evidence.append(
        telling.modelled(
            f"at the roof the same work takes {units.time(roof / steps)} a step, "
            f"{units.time((time - roof) / steps)} less of device time"
        )
    )
    if case.diagnosis.verdict.bound_by in ("launch", "sync"):
        evidence.append(
            telling.derived("the host bounds the step now: this counts once it no longer does")
        )
    what = (
        f"`{_short(far[0][0].name)}` takes"
        if len(far) == 1
        else f"{len(far)} kinds of matrix kernel take"
    )
    return telling.finding(
        case,
        CODE,
        f"{what} {units.time(time / steps)} of device time a step, at {units.share(roof / time)} "
        "of the roof.",
        evidence=evidence,
        advice=[_advice(case)],
    )


def _fact(case: Case, rate: NameRate, steps: int, total_ns: int) -> Evidence:
    floors = case.diagnosis.floors
    assert floors is not None
    return telling.derived(
        f"`{_short(rate.name)}`: {units.count(rate.count / steps)} × a step, "
        f"{units.time(rate.time_ns / rate.count)} each, {units.share(rate.time_ns / total_ns)} of "
        f"the device's time; {units.bytes_((rate.bytes or 0) / rate.count)} each by the shapes of "
        f"their ops, so {units.bandwidth(rate.achieved_bytes_per_s)} of "
        f"{units.bandwidth(floors.bandwidth_bytes_per_s)} ({floors.bandwidth_source})"
    )


def _short(name: str) -> str:
    return _TEMPLATE.sub("", name)[:_LONGEST_NAME] or name[:_LONGEST_NAME]


def _advice(case: Case) -> Recommendation:
    return Recommendation(
        what="Give these products fewer, larger kernels, or kernels made for a few rows",
        how="torch.cat the weights of query, key and value (and of gate and up) once at load and "
        'call one F.linear, then split; torch.compile(step, mode="max-autotune-no-cudagraphs") to '
        "choose kernels by measurement; a Triton matrix-vector kernel at batch 1",
        verify=telling.again(case, look="the achieved column of the matrix kernels"),
        risk="merged weights must be split again to save a checkpoint; another order of additions "
        "rounds differently",
    )
