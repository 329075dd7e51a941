"""Attention reads the whole KV cache, used or not, at every step.

What it measures:
    The length of the keys that attention is called with, whether it stays the same from step to
    step, and how many tokens the cache really holds by then: the prompt and all steps since.

Why it costs time:
    A cache of fixed size is needed for a CUDA graph, but attention with a mask reads all of it,
    also the part behind the last token: with 300 tokens in a cache for 4,096, more than 90 % of
    what attention reads is thrown away. At large batches and long caches that is most of the step.

Thresholds:
    The cache is at least twice as long as what it holds, and 256 positions longer: less is
    ordinary slack, and kernels read in blocks of up to 256 keys.

What to do:
    Attend to keys[:, :, :length] with length rounded up to a bucket and one graph for each bucket,
    or use an attention that takes the valid lengths as a tensor: flex_attention with a block mask,
    a paged or flash-decoding kernel with seqlens.

When to ignore it:
    When the cache is small beside the weights: the report shows both in bytes.
"""

from __future__ import annotations

from decodeprof import units
from decodeprof.analysis.shapes import Lengths, attention_lengths, compared_steps
from decodeprof.diagnosis import gates, telling
from decodeprof.diagnosis.judging import Case, Clear, CouldNotTell, Found, Outcome
from decodeprof.model.diagnosis import Finding, Recommendation

CODE = "attention-capacity"
TITLE = "attention reads unused cache"

LEAST_RATIO = 2.0
LEAST_UNUSED = 256


def judge(case: Case) -> Outcome:
    """Compare the keys that attention reads with those that are valid."""
    missing = gates.unable(case, "device")
    if missing is not None:
        return missing
    figures, traffic, steps = case.evidence.decode, case.evidence.traffic, case.evidence.steps
    assert figures is not None
    assert traffic is not None
    lengths = attention_lengths(traffic, steps, figures.shown)
    if lengths is None:
        return CouldNotTell(
            reason="no attention op with shapes is known in a decode step", capture=gates.PROFILE
        )
    others = (attention_lengths(traffic, steps, step) for step in compared_steps(steps).tolist())
    if len({other.keys for other in others if other is not None}) > 1:
        return Clear()
    valid = _valid(case, figures.shown)
    if valid is None:
        return CouldNotTell(
            reason="how many tokens the KV cache holds is not known",
            capture="record with `decodeprof diagnose`, which sees the prompt's length",
        )
    if lengths.keys < LEAST_RATIO * valid or lengths.keys - valid < LEAST_UNUSED:
        return Clear()
    return Found((_finding(case, lengths, valid),))


def _valid(case: Case, step: int) -> int | None:
    """Tokens in the cache at the end of a step: the prompt's and one call's since."""
    steps = case.evidence.steps
    total = 0
    for index in range(step, -1, -1):
        length = steps.query_lengths[index]
        if length is None and steps.phases[index] == "decode":
            length = 1
        if length is None or steps.phases[index] == "other":
            return None
        total += length
        if steps.phases[index] == "prefill":
            return total
    return None


def _finding(case: Case, lengths: Lengths, valid: int) -> Finding:
    unused = (lengths.keys - valid) * lengths.bytes_per_key
    ops = units.counted(lengths.layers, "attention op a step is", "attention ops a step are")
    evidence = [
        telling.measured(
            f"{ops} called with {units.counted(lengths.keys, 'key')}, the same in every step"
        ),
        telling.derived(
            f"{units.count(valid)} of them are valid in the step shown: the prompt and the steps "
            "since"
        ),
    ]
    floors = case.diagnosis.floors
    if floors is not None and floors.bandwidth_bytes_per_s:
        time = unused * 1e9 / floors.bandwidth_bytes_per_s
        evidence.append(
            telling.modelled(
                f"the unused part is {units.bytes_(unused)}, {units.time(time)} of device time at "
                f"{units.bandwidth(floors.bandwidth_bytes_per_s)}"
            )
        )
    return telling.finding(
        case,
        CODE,
        f"Attention reads {units.counted(lengths.keys, 'key')} where "
        f"{units.counted(valid, 'is', 'are')} valid: "
        f"{units.share(1 - valid / lengths.keys)} of what it reads of the cache is unused.",
        evidence=evidence,
        advice=[
            Recommendation(
                what="Let attention read only the valid part of the cache",
                how="slice keys[:, :, :bucket] and values with bucket the length rounded up to "
                "128, 256, 512, …, and capture one graph for each bucket; or flex_attention with a "
                "block mask, or a flash-decoding kernel that takes the lengths as a tensor",
                verify=telling.again(case, look="the attention family's time in a decode step"),
                risk="one graph for each bucket takes memory, and the step that changes bucket "
                "must pick the right one",
            )
        ],
    )
