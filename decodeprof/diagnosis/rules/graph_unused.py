"""CUDA graphs were asked for, and the decode step runs without one, or in several pieces.

What it measures:
    Whether torch.compile was told to use CUDA graphs, the reasons that it logged for not doing so,
    and how many graph launches a decode step really holds.

Why it costs time:
    torch.compile(mode="reduce-overhead") falls back to ordinary launches when it cannot capture
    what it compiled, for instance a step that writes to its own inputs (a KV cache that is updated
    in place). It says so only in a log, so the loop looks as if it used graphs. Where only some ops
    are unfit, the step is cut into partitions, each of which costs a launch and the host work
    between two of them.

Thresholds:
    More than one graph launch a step; or more than 20 % of a step's kernels outside its graph:
    sampling after a graph takes a handful of launches, more means that part of the model is
    outside.

What to do:
    Remove what the reason names: mutated inputs become outputs or are marked with
    torch._dynamo.mark_static_address, CPU tensors and data-dependent ops leave the compiled
    function. Or capture the compiled step by hand with torch.cuda.graph.

When to ignore it:
    When the skipped function is not the decode step, or when several graph launches are meant (one
    for each half of a model that is split over devices).
"""

from __future__ import annotations

from decodeprof import units
from decodeprof.diagnosis import gates, telling
from decodeprof.diagnosis.judging import Case, Clear, CouldNotTell, Found, Outcome
from decodeprof.model.diagnosis import Evidence, Range, Recommendation, StepFigures, Where
from decodeprof.recording import CompileInfo

CODE = "graph-unused"
TITLE = "CUDA graphs were asked for and are not used, or cut the step into pieces"

OUTSIDE_SHARE = 0.2
ONE_GRAPH = 1.0
_REASONS = 5
_MUTATED = "mutated"


def judge(case: Case) -> Outcome:
    """Compare what was asked of compile with what the steps hold."""
    missing = gates.unable(case, "device", "calls")
    if missing is not None:
        return missing
    step, recording = case.diagnosis.step, case.evidence.recording
    assert step is not None
    graphs = step.graph_launches or 0
    compiled = recording.compile if recording else None
    asked = compiled is not None and bool(compiled.cudagraphs_asked)
    if graphs > ONE_GRAPH:
        return _pieces(case, step, compiled)
    if graphs and (step.launches or 0) > OUTSIDE_SHARE * (step.kernels or 0):
        return _partly(case, step, compiled)
    if graphs:
        return Clear()
    if recording is None:
        return CouldNotTell(
            reason="a trace does not say whether graphs were asked for", capture=gates.RECORD
        )
    return _skipped(case, compiled) if asked and compiled is not None else Clear()


def _skipped(case: Case, compiled: CompileInfo) -> Outcome:
    graph = case.predicted.outcomes.cuda_graph if case.predicted.outcomes else None
    took = (
        f"; with one it would take {units.time(graph.step_ns.expected)}{telling.timed(case)}"
        if graph
        else ""
    )
    summary = (
        "torch.compile was asked for CUDA graphs, and a step of "
        f"{units.time(case.step_ns)}{telling.timed(case)} holds 0 graph launches{took}."
    )
    evidence = [telling.measured("0 graph launches in the decode steps"), *_reasons(compiled)]
    if graph is not None:
        evidence.append(telling.assumption(graph))
    return _found(case, summary, evidence, compiled, graph.saving_ns if graph else None)


def _pieces(case: Case, step: StepFigures, compiled: CompileInfo | None) -> Outcome:
    graphs = step.graph_launches or 0
    graph = case.predicted.outcomes.cuda_graph if case.predicted.outcomes else None
    graph_launches = units.counted(graphs, "graph launch", "graph launches")
    summary = f"A step takes {graph_launches}: it is captured in pieces."
    evidence = [
        telling.measured(
            f"{graph_launches} and "
            f"{units.counted(step.launches, 'kernel launch', 'kernel launches')} a step"
        )
    ]
    if compiled is not None and compiled.partitions:
        evidence.append(
            telling.measured(
                f"compile created {units.counted(compiled.partitions, 'partition')} of one function"
            )
        )
        evidence += [
            telling.measured(f"a partition ends at {text}")
            for text in compiled.partition_reasons[:_REASONS]
        ]
    evidence += _reasons(compiled)
    if graph is not None:
        evidence.append(telling.assumption(graph))
    return _found(case, summary, evidence, compiled, graph.saving_ns if graph else None)


def _partly(case: Case, step: StepFigures, compiled: CompileInfo | None) -> Outcome:
    graph = case.predicted.outcomes.cuda_graph if case.predicted.outcomes else None
    summary = (
        f"{units.count(step.launches)} of a step's "
        f"{units.counted(step.kernels, 'kernel is', 'kernels are')} launched outside its CUDA "
        "graph."
    )
    evidence = [
        telling.measured(
            f"{units.counted(step.graph_launches, 'graph launch', 'graph launches')} a step"
        ),
        *_reasons(compiled),
    ]
    if graph is not None:
        evidence.append(telling.assumption(graph))
    return _found(case, summary, evidence, compiled, graph.saving_ns if graph else None)


def _found(
    case: Case,
    summary: str,
    evidence: list[Evidence],
    compiled: CompileInfo | None,
    saving: Range | None,
) -> Found:
    return Found(
        (
            telling.finding(
                case,
                CODE,
                summary,
                evidence=evidence,
                advice=[_advice(case, compiled)],
                where=_where(compiled),
                saving=saving,
            ),
        )
    )


def _reasons(compiled: CompileInfo | None) -> list[Evidence]:
    if compiled is None:
        return []
    skips = [
        telling.measured(
            f"compile logged{f' {skip.count} times' if skip.count > 1 else ''}: {skip.reason}"
        )
        for skip in compiled.cudagraph_skips[:_REASONS]
    ]
    breaks = [telling.measured(f"graph break: {text}") for text in compiled.graph_breaks[:_REASONS]]
    return [*skips, *breaks]


def _where(compiled: CompileInfo | None) -> list[Where]:
    found = []
    for skip in compiled.cudagraph_skips if compiled else []:
        file, _, number = (skip.where or "").rpartition(":")
        if file and number.isdigit():
            found.append(Where(file=file, line=int(number)))
    return found


def _advice(case: Case, compiled: CompileInfo | None) -> Recommendation:
    reasons = " ".join(skip.reason for skip in compiled.cudagraph_skips) if compiled else ""
    how = (
        "call torch._dynamo.mark_static_address(buffer) on the KV cache and on other buffers that "
        "the step updates, before compiling; or return the new values and copy_ them outside"
        if _MUTATED in reasons
        else "move what the reasons name (ops on CPU tensors, .item(), data-dependent shapes) out "
        "of the compiled function; `TORCH_LOGS=perf_hints,graph_breaks` names the lines"
    )
    return Recommendation(
        what="Make the compiled step fit for one CUDA graph, or capture it by hand",
        how=f"{how}; or wrap the compiled step in torch.cuda.graph yourself",
        verify=telling.again(case, look="1 graph launch a step, and no reason logged by compile"),
        risk="a graph's buffers must keep their addresses: reallocating the cache captures anew",
    )
