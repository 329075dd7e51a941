"""The prefill waits for its host: a graph for each bucket of prompt lengths would launch it.

What it measures:
    The device's busy time in the prompt pass beside the time to the first token, unprofiled where
    that was measured.

Why it costs time:
    A short prompt makes the same launches as a decode step, and each kernel still takes only a few
    µs: the device waits for the host. The first token comes that much later. A long prompt has
    enough work in each kernel, and there a graph wins nothing.

Thresholds:
    The device busy for at most half of the prefill: a graph could then halve it. Of its waiting
    at most half without a known cause: launches are to blame only where most of it is the
    host's.

What to do:
    Capture the prefill for a few lengths (64, 128, 256, …), pad each prompt to the next one and
    mask the rest; leave long prompts eager.

When to ignore it:
    When prompts are long, or when the time to the first token does not matter beside the decoding.
"""

from __future__ import annotations

import msgspec

from decodeprof import units
from decodeprof.diagnosis import gates, rows, telling
from decodeprof.diagnosis.judging import Case, Clear, CouldNotTell, Found, Outcome
from decodeprof.model.diagnosis import Evidence, Recommendation

CODE = "prefill-bucket"
TITLE = "the prefill is launch-bound"

MOST_BUSY_SHARE = 0.5
MOST_UNKNOWN_SHARE = 0.5


def judge(case: Case) -> Outcome:
    """Find a prefill in which the device mostly waits."""
    missing = gates.no_device(case) or gates.not_captured(case, "device", "calls")
    if missing is not None:
        return missing
    prefill = case.diagnosis.prefill
    if prefill is None or prefill.busy_ns is None:
        return CouldNotTell(
            reason="no prefill is in the capture",
            capture="record a whole call with `decodeprof diagnose`, or start the profiler before "
            "the prompt pass",
        )
    if prefill.graph_launches:
        return Clear()
    first = _first_token_ns(case) or prefill.profiled_ns
    if not first or prefill.busy_ns > MOST_BUSY_SHARE * first:
        return Clear()
    if prefill.idle_ns is not None:
        unknown = rows.unknown_idle_share(msgspec.structs.asdict(prefill.idle_ns))
        if unknown > MOST_UNKNOWN_SHARE:
            return CouldNotTell(
                reason=f"for {units.share(unknown)} of the time that the device waits in the "
                "prefill the capture does not say why",
                capture="record the whole call with `decodeprof diagnose`",
            )
    takes = f"The first token takes {units.time(first)}"
    if not prefill.unprofiled_ns:
        takes = f"The prefill takes {units.time(first)} in profiled time"
    found = telling.finding(
        case,
        CODE,
        f"{takes}, and the device works "
        f"{units.time(prefill.busy_ns)} of it: "
        f"{units.counted(prefill.launches, 'launch holds', 'launches hold')} the prefill up.",
        evidence=_evidence(case, first),
        advice=[
            Recommendation(
                what="Capture the prefill in one CUDA graph for each bucket of prompt lengths",
                how="for length in (64, 128, 256, 512): a static input_ids[batch, length] and "
                "`with torch.cuda.graph(graphs[length], pool=pool):`; pad the prompt to the next "
                "length, mask the padding, and take the logits of the last real token by a "
                "position tensor",
                verify=telling.again(case, look="the first token, and 1 graph launch a prefill"),
                risk="padding is computed in vain, and each bucket's graph holds memory (share one "
                "pool)",
            )
        ],
    )
    return Found((found,))


def _first_token_ns(case: Case) -> int | None:
    """Unprofiled, to the first token; to the second step where no sign of a token came before."""
    generation, prefill = case.diagnosis.generation, case.diagnosis.prefill
    known = [
        told.median
        for told in (
            generation.ttft_ns if generation else None,
            prefill.unprofiled_ns if prefill else None,
        )
        if told is not None
    ]
    return min(known, default=None)


def _evidence(case: Case, first_ns: int) -> list[Evidence]:
    prefill, floors = case.diagnosis.prefill, case.diagnosis.floors
    assert prefill is not None
    assert prefill.busy_ns is not None
    facts = [
        telling.measured(
            f"the device is busy {units.share(prefill.busy_ns / first_ns)} of "
            f"{'the time to the first token' if prefill.unprofiled_ns else 'the prefill'}"
        )
    ]
    if floors is not None and floors.node_gap_ns is not None and prefill.kernels:
        graph = prefill.busy_ns + round(prefill.kernels) * floors.node_gap_ns
        facts.append(
            telling.modelled(
                f"its kernels back to back would take {units.time(graph)}, assuming "
                f"{floors.node_gap_ns} ns between two of them; once for each call, not each step"
            )
        )
    return facts
