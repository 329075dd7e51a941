"""The decode step is launched kernel by kernel, where one CUDA graph could launch it whole.

What it measures:
    Whether decode steps hold graph launches, and how long the step would be as one graph: its
    device time, one gap between each two nodes, the launch of the graph and what stays outside it.
    The prediction comes from replaying the recorded step.

Why it costs time:
    An eager launch costs the host 5 to 10 µs, most of it in PyTorch. A decode step of a language
    model makes hundreds to thousands of launches of kernels that last a few µs each, so the device
    waits for the host most of the time. A graph is launched with one call, whatever its size.

Thresholds:
    5 % of the step saved: a graph costs static buffers, memory of its own and a capture, for
    which less does not pay.

What to do:
    Capture one decode step with torch.cuda.graph and replay it for every token, or let
    torch.compile(mode="reduce-overhead") do so. The step must not wait for the device, must not
    allocate from the host and must find its inputs where they were at capture: tokens and positions
    in static buffers, keys and values in a cache of fixed size.

When to ignore it:
    When batch, prompt and code change so often that a captured step would rarely be replayed, or
    when the device already bounds the step: the rule is clear then.
"""

from __future__ import annotations

from decodeprof import units
from decodeprof.analysis.shapes import growing
from decodeprof.diagnosis import gates, telling
from decodeprof.diagnosis.judging import MEDIUM_SHARE, Case, Clear, Found, LeftTo, Outcome
from decodeprof.model.diagnosis import Evidence, Recommendation, Where

CODE = "graph-missing"
TITLE = "no CUDA graph launches the decode step"

LEAST_SHARE = MEDIUM_SHARE
_COMPILED = "fused by a compiler"


def judge(case: Case) -> Outcome:
    """Find a step that would be much shorter as one graph, and that has none."""
    missing = gates.unable(case, "device", "calls")
    if missing is not None:
        return missing
    step = case.diagnosis.step
    assert step is not None
    if step.graph_launches:
        return Clear()
    compiled = case.evidence.recording.compile if case.evidence.recording else None
    if compiled is not None and compiled.cudagraphs_asked:
        return LeftTo("graph-unused")
    untold = gates.withheld(case)
    if untold is not None:
        return untold
    outcomes = case.predicted.outcomes
    assert outcomes is not None
    graph = outcomes.cuda_graph
    if graph is None or telling.share_of_step(case, graph.saving_ns.expected) < LEAST_SHARE:
        return Clear()
    launches = step.launches or 0
    summary = (
        f"{units.counted(launches, 'launch makes', 'launches make')} a step of "
        f"{units.time(outcomes.step_ns)}{telling.timed(case)}; as one CUDA graph it would take "
        f"{units.time(graph.step_ns.expected)}."
    )
    evidence = [
        telling.measured(
            f"{units.counted(launches, 'kernel launch', 'kernel launches')} and no graph launch a "
            f"step; the device works {units.time(step.busy_ns)} of it"
        ),
        telling.assumption(graph),
        *_compiled(case),
        *_in_the_way(case),
        *_tried(case),
    ]
    found = telling.finding(
        case,
        CODE,
        summary,
        evidence=evidence,
        advice=[_advice(case, graph.step_ns.expected)],
        where=_where(case),
        saving=graph.saving_ns,
    )
    return Found((found,))


def _compiled(case: Case) -> list[Evidence]:
    """Whether the step is compiled, which makes a graph a matter of one argument."""
    count = sum(
        row.count_per_step
        for row in case.diagnosis.kernels
        if row.family == _COMPILED and row.name is None
    )
    if not count:
        return []
    return [
        telling.measured(
            f"{units.counted(count, 'kernel a step is', 'kernels a step are')} torch.compile's "
            "own: the step is compiled, and runs without a graph"
        )
    ]


def _in_the_way(case: Case) -> list[Evidence]:
    """What a capture would meet in the step."""
    facts = []
    sites = telling.decode_sites(case)
    if sites:
        places = ", ".join(dict.fromkeys(telling.place_of(site) for site in sites))
        facts.append(
            telling.measured(
                f"blocking calls, none of which a graph can hold: {places}; those before the "
                "step's last kernel must go, one after it may stay"
            )
        )
    traffic = case.evidence.traffic
    grown = growing(traffic, case.evidence.steps) if traffic is not None else None
    if grown:
        ops = units.counted(sum(g.count for g in grown), "op a step is", "ops a step are")
        facts.append(
            telling.measured(
                f"{ops} called with shapes that grow from "
                "step to step, which a graph cannot hold: a KV cache of fixed size comes first"
            )
        )
    return facts


def _tried(case: Case) -> list[Evidence]:
    """What came of capturing the step, where that was tried."""
    check = case.diagnosis.graph_check
    return [] if check is None else [telling.measured(f"a capture was tried: {check.sentence}")]


def _where(case: Case) -> list[Where]:
    return [where for site in telling.decode_sites(case) for where in telling.where_of(site)]


def _advice(case: Case, expected_ns: int) -> Recommendation:
    how = (
        "keep token, position and mask in static CUDA tensors and the KV cache at a fixed size; "
        "run the step three times on a side stream; then g = torch.cuda.CUDAGraph(), `with "
        "torch.cuda.graph(g): logits = model(...)`; for each token static_token.copy_(token), "
        "g.replay()"
    )
    if telling.uses_transformers(case):
        how = (
            'with transformers, model.generate(..., cache_implementation="static") compiles the '
            "step and captures it; by hand: " + how
        )
    return Recommendation(
        what="Capture the decode step in a CUDA graph and replay it for every token",
        how=how,
        verify=telling.again(
            case, look=f"1 graph launch a step, and a step near {units.time(expected_ns)}"
        ),
        risk="a replay reads and writes the addresses of its capture and runs no Python: inputs "
        "must be copied in, outputs copied out before the next replay, and shapes must not change",
    )
