"""The KV cache grows by concatenation: shapes change at every decode step.

What it measures:
    The shapes with which ops are called in consecutive decode steps: which of them grow by the same
    length each time, and how many bytes the concatenations among them move.

Why it costs time:
    torch.cat makes a new cache of every layer and copies all earlier keys and values into it, for
    every token: the copy grows with the context. Worse, a step whose shapes change cannot be
    captured in a CUDA graph, so that each kernel must be launched anew; and torch.compile compiles
    again, or uses dynamic shapes.

Thresholds:
    Three consecutive decode steps with shapes: two make no trend.

What to do:
    Allocate keys and values once at the longest length that is wanted and write each token's into
    its place with index_copy_ or a slice, at a position that is a tensor. Attention then gets a
    mask, or the valid length.

When to ignore it:
    When contexts are short and the step is to stay eager.
"""

from __future__ import annotations

from decodeprof import units
from decodeprof.analysis.shapes import Growth, growing, query_lengths
from decodeprof.diagnosis import gates, telling
from decodeprof.diagnosis.judging import Case, Clear, CouldNotTell, Found, LeftTo, Outcome
from decodeprof.model.diagnosis import Evidence, Recommendation

CODE = "cache-grows"
TITLE = "the KV cache is concatenated, so shapes change every step"

_CAT = "aten::cat"
_MOST_OPS = 4


def judge(case: Case) -> Outcome:
    """Find ops whose shapes grow evenly from step to step."""
    missing = gates.unable(case, "device", "calls")
    if missing is not None:
        return missing
    step = case.diagnosis.step
    assert step is not None
    if step.graph_launches and not step.launches:
        # What a graph replays has the shapes of its capture.
        return Clear()
    missing = gates.not_captured(case, "ops", "shapes")
    if missing is not None:
        return missing
    traffic = case.evidence.traffic
    assert traffic is not None
    grown = growing(traffic, case.evidence.steps)
    if grown is None:
        return CouldNotTell(
            reason="fewer than three consecutive decode steps with shapes can be compared",
            capture="profile at least three decode steps with record_shapes=True",
        )
    if not grown:
        return Clear()
    if len(set(query_lengths(traffic, case.evidence.steps).values())) > 1:
        return LeftTo("no-kv-cache")
    return Found(
        (
            telling.finding(
                case,
                CODE,
                _summary(grown),
                evidence=_evidence(grown),
                advice=[_advice(case)],
            ),
        )
    )


def _summary(grown: list[Growth]) -> str:
    cats = next((g for g in grown if g.op == _CAT), None)
    if cats is not None:
        moved = f", which moves {units.bytes_(cats.bytes_per_step)}" if cats.bytes_per_step else ""
        grow = units.counted(
            cats.count,
            "concatenation a step makes a tensor that grows",
            "concatenations a step make tensors that grow",
        )
        return (
            f"{grow} by {cats.per_step} each time{moved}: there is no static cache, so no CUDA "
            "graph can hold the step."
        )
    ops = units.counted(sum(g.count for g in grown), "op a step is", "ops a step are")
    return (
        f"{ops} called with shapes that grow by {grown[0].per_step} each time, so no CUDA graph "
        "can hold the step."
    )


def _evidence(grown: list[Growth]) -> list[Evidence]:
    return [
        telling.measured(
            f"{g.count} × `{g.op}` a step: a tensor grows from {list(g.first)} to {list(g.last)} "
            "over the steps compared"
        )
        for g in grown[:_MOST_OPS]
    ]


def _advice(case: Case) -> Recommendation:
    how = (
        'keys = torch.empty(batch, heads, longest, width, device="cuda") for each layer, once; '
        "each step keys.index_copy_(2, position, new_keys) with position a CUDA tensor, and a "
        "mask for what lies behind it"
    )
    if telling.uses_transformers(case):
        how = f'cache_implementation="static" in generate(), or StaticCache; by hand: {how}'
    return Recommendation(
        what="Use a KV cache of fixed size",
        how=how,
        verify=telling.again(case, look="cache-grows is clear, and graph-missing can be acted on"),
        risk="attention may read the unused rest of the cache: see attention-capacity",
    )
