"""The step is near what its bytes or its operations allow: rearranging kernels wins little.

What it measures:
    The least time in which the step's bytes (weights, valid KV cache, outputs) can be moved, and
    its operations done, at the rates that this device reached, as a share of the step's time.

Why it costs time:
    Each decode step reads every weight once. At 60 % of the roof or more no graph, fusion or better
    kernel can make the step shorter by more than the remaining 40 %.

Thresholds:
    60 % of the bandwidth or of the arithmetic rate, over the step, as for the verdict: above it
    no rearrangement of kernels can win more than 1 / 0.6.

What to do:
    Move fewer bytes or share them: weights of 8 or 4 bits, fewer KV heads or a KV cache of 8 bits,
    a larger batch (the same weights serve more sequences), speculative decoding (they serve more
    tokens of one sequence).

When to ignore it:
    Never, but it is good news: the loop is as fast as the device lets it be.
"""

from __future__ import annotations

from decodeprof import units
from decodeprof.diagnosis import gates, telling
from decodeprof.diagnosis.judging import Case, Clear, CouldNotTell, Found, Outcome
from decodeprof.diagnosis.verdict import ROOF_SHARE
from decodeprof.model.diagnosis import Floors, Recommendation

CODE = "at-the-roof"
TITLE = "the step is near the device's bandwidth or arithmetic rate"

LEAST_SHARE = ROOF_SHARE


def judge(case: Case) -> Outcome:
    """Compare the step with the roof."""
    missing = gates.unable(case, "device")
    if missing is not None:
        return missing
    floors = case.diagnosis.floors
    unknown = CouldNotTell(
        reason="what a step must move and compute is not known", capture=gates.PROFILE
    )
    if floors is None:
        return unknown
    step_ns = case.measured_step_ns or 0
    by_bytes = (floors.bytes_ns or 0) >= (floors.flops_ns or 0)
    least = max(floors.bytes_ns or 0, floors.flops_ns or 0)
    if least < LEAST_SHARE * step_ns or not step_ns:
        both = floors.bytes_ns is not None and floors.flops_ns is not None
        return Clear() if both else unknown
    roof = "bandwidth" if by_bytes else "arithmetic rate"
    step = case.diagnosis.step
    kind = "" if step is not None and step.unprofiled_ns else " in profiled time"
    found = telling.finding(
        case,
        CODE,
        f"The step is at {units.share(least / step_ns)} of the device's {roof}: "
        f"{units.time(step_ns)}{kind} where {units.time(least)} is the least.",
        evidence=[telling.derived(_reason(floors, by_bytes=by_bytes))],
        advice=[_fewer_bytes(case), _larger_batch(case)] if by_bytes else [_fewer_operations(case)],
    )
    return Found((found,))


def _reason(floors: Floors, *, by_bytes: bool) -> str:
    if by_bytes:
        return (
            f"{units.bytes_(floors.bytes)} ÷ {units.bandwidth(floors.bandwidth_bytes_per_s)} "
            f"({floors.bandwidth_source}) = {units.time(floors.bytes_ns)}"
        )
    return f"the step's matrix products take {units.time(floors.flops_ns)} at the peak rate"


def _fewer_bytes(case: Case) -> Recommendation:
    return Recommendation(
        what="Move fewer bytes",
        how="quantise the weights (torchao's int8 or int4 weight-only, fp8), keep the KV cache in "
        "8 bits, use a model with fewer KV heads",
        verify=telling.again(case, look="the bytes floor and the step, both smaller"),
        risk="quantised weights change the model's output: measure its quality",
    )


def _larger_batch(case: Case) -> Recommendation:
    return Recommendation(
        what="Let one pass over the weights serve more tokens",
        how="decode more sequences at once, or speculate: a small model proposes tokens that one "
        "step checks together",
        verify=telling.again(case, look="tokens a second, with the step nearly as long"),
        risk="more sequences need more KV cache; each of them waits for the slowest",
    )


def _fewer_operations(case: Case) -> Recommendation:
    return Recommendation(
        what="Do fewer operations, or cheaper ones",
        how="fp8 products (torch._scaled_mm), a smaller model, or a smaller batch if latency "
        "matters more than throughput",
        verify=telling.again(case, look="the arithmetic floor and the step, both smaller"),
        risk="lower precision changes the model's output: measure its quality",
    )
