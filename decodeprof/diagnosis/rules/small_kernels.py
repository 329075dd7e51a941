"""Chains of small kernels stand between the matrix products, where one kernel each would do.

What it measures:
    Which elementwise, reduction, gather and concatenation kernels follow each other without a
    matrix or attention kernel between them, how many kernels would be left if each such chain were
    one, and how long the replayed step would be then.

Why it costs time:
    Each kernel costs a launch on the host (5 to 10 µs), a gap on the device (0.4 µs inside a graph)
    and, for small tensors, about 2 µs in which it does next to nothing. Each also writes to memory
    what the next one reads back. One fused kernel pays once.

Thresholds:
    5 % of the step saved: a prediction of fusion is 10 % wide on each side, so that of less
    nothing is known.

What to do:
    torch.compile the step, or the module that holds the chain (a norm, a rotary embedding, an
    activation), or call a fused kernel: torch.nn.functional.rms_norm,
    scaled_dot_product_attention, a kernel of your own in Triton.

When to ignore it:
    When another change comes first: with a CUDA graph, fusion still wins the gaps and the kernels'
    own time, but no longer the launches. The "all of these" line of the report says what is left.
"""

from __future__ import annotations

from decodeprof import units
from decodeprof.diagnosis import gates, telling
from decodeprof.diagnosis.judging import MEDIUM_SHARE, Case, Clear, Found, Outcome
from decodeprof.model.diagnosis import Evidence, Recommendation

CODE = "small-kernels"
TITLE = "many small kernels that could be fused"

LEAST_SHARE = MEDIUM_SHARE
_MOST_CHAINS = 3
_MOST_PARTS = 10


def judge(case: Case) -> Outcome:
    """Find a step that fusion would shorten."""
    missing = gates.unable(case, "device", "calls") or gates.withheld(case)
    if missing is not None:
        return missing
    outcomes = case.predicted.outcomes
    assert outcomes is not None
    fusion = outcomes.fusion
    if fusion is None or telling.share_of_step(case, fusion.saving_ns.expected) < LEAST_SHARE:
        return Clear()
    now = sum(row.count_per_step for row in case.diagnosis.kernels if row.name is None)
    summary = (
        f"{units.count(round(now))} kernels, copies and sets a step could be "
        f"{units.count(round(fusion.activities_per_step))}; the step would take "
        f"{units.time(fusion.step_ns.expected)}{telling.timed(case)} instead of "
        f"{units.time(outcomes.step_ns)}."
    )
    found = telling.finding(
        case,
        CODE,
        summary,
        evidence=[*_chains(case), telling.assumption(fusion)],
        advice=[_advice(case, round(fusion.activities_per_step))],
        saving=fusion.saving_ns,
    )
    return Found((found,))


def _chains(case: Case) -> list[Evidence]:
    return [
        telling.measured(
            f"{units.count(chain.count)} × a step "
            f"{units.counted(len(chain.parts), 'kernel')} in a row, "
            f"{units.time(chain.time_ns / max(chain.count, 1))} each time: "
            + ", ".join(chain.parts[:_MOST_PARTS])
            + (" …" if len(chain.parts) > _MOST_PARTS else "")
        )
        for chain in case.predicted.chains[:_MOST_CHAINS]
    ]


def _advice(case: Case, left: int) -> Recommendation:
    return Recommendation(
        what="Fuse the chains between matrix products",
        how="step = torch.compile(step, dynamic=False), which fuses elementwise ops with the "
        "reductions they surround; torch.nn.functional.rms_norm and silu, and "
        "scaled_dot_product_attention with enable_gqa=True instead of repeated heads; a Triton "
        "kernel where compile leaves a chain apart",
        verify=telling.again(case, look=f"about {units.counted(left, 'kernel')} a step"),
        risk="fused kernels round differently: tokens may differ where two logits nearly tie",
    )
