"""torch.compile breaks its graph, or compiles the same function again and again.

What it measures:
    The graph breaks and the guards that failed while the target ran, as torch.compile itself
    counts them, with the lines that caused them.

Why it costs time:
    At a graph break the compiled code ends, Python runs, and another compiled piece begins: the
    host works between the pieces, nothing is fused across them, and no one CUDA graph can hold the
    step. A recompile takes seconds, in the middle of generating, and after eight of them
    torch.compile gives up on the function and runs it as it is written.

Thresholds:
    Any graph break; of recompilations more than one for each function, since the first other
    size has it compiled once more, for any size.

What to do:
    Move what breaks out of the compiled function: prints, reads of values (.item(), bool()), calls
    into libraries. For recompiles, pass what changes as a tensor and not as a Python number, and
    keep shapes the same or mark them with torch._dynamo.mark_dynamic.

When to ignore it:
    When the function is not part of the decode step, or breaks once, at its end, where the token is
    read.
"""

from __future__ import annotations

from collections import Counter

from decodeprof import units
from decodeprof.diagnosis import gates, telling
from decodeprof.diagnosis.judging import Case, Clear, CouldNotTell, Found, Outcome
from decodeprof.model.diagnosis import Evidence, Recommendation, Where
from decodeprof.recording import CompileEvent

CODE = "compile-breaks"
TITLE = "torch.compile breaks its graph, or compiles a function again and again"

USUAL_RECOMPILES = 1
"""For each function: the first other size has it compiled once more, for any size."""
_MOST_EVENTS = 6


def judge(case: Case) -> Outcome:
    """List what breaks, and what is compiled more often than for a changing size."""
    recording = case.evidence.recording
    if recording is None:
        return CouldNotTell(
            reason="a trace does not hold what torch.compile logged", capture=gates.RECORD
        )
    compiled = recording.compile
    if compiled is None:
        return Clear()
    if not compiled.events and (compiled.graph_breaks or compiled.recompiles):
        return CouldNotTell(
            reason="the recording holds the texts of graph breaks and recompiles, without lines",
            capture="record again with `decodeprof diagnose`",
        )
    breaks = [each for each in compiled.events if each.kind == "graph_break"]
    recompiles = _unusual([each for each in compiled.events if each.kind == "recompile"])
    if not breaks and not recompiles:
        return Clear()
    parts = []
    if breaks:
        parts.append(f"breaks its graph at {units.counted(len(breaks), 'line')}")
    if recompiles:
        functions = len({each.function for each in recompiles})
        parts.append(
            f"compiles {units.counted(functions, 'function')} again "
            f"{units.counted(len(recompiles), 'time')}"
        )
    told = [*breaks, *recompiles]
    found = telling.finding(
        case,
        CODE,
        f"torch.compile {' and '.join(parts)}.",
        evidence=[_told(each) for each in told[:_MOST_EVENTS]],
        advice=[
            *([_breaks_advice(case)] if breaks else []),
            *([_recompile_advice(case)] if recompiles else []),
        ],
        where=list({(at.file, at.line): at for each in told for at in _where(each)}.values()),
    )
    return Found((found,))


def _unusual(recompiles: list[CompileEvent]) -> list[CompileEvent]:
    """Those of functions that were compiled again more often than for one changing size."""
    times = Counter(each.function for each in recompiles)
    return [each for each in recompiles if times[each.function] > USUAL_RECOMPILES]


def _told(event: CompileEvent) -> Evidence:
    what = "graph break" if event.kind == "graph_break" else "compiled again, since a guard failed"
    often = f" (× {event.count})" if event.count > 1 else ""
    place = f" at {event.where}" if event.where else ""
    return telling.measured(f"{what}{place}{often}: {event.reason}")


def _where(event: CompileEvent) -> list[Where]:
    file, _, number = (event.where or "").rpartition(":")
    if not file or not number.isdigit():
        return []
    return [Where(file=file, line=int(number), function=event.function or None)]


def _breaks_advice(case: Case) -> Recommendation:
    return Recommendation(
        what="Move what breaks the graph out of the compiled function",
        how="torch.compile(..., fullgraph=True) raises at the first break and names it; read "
        "values after the step, and print outside of it",
        verify=telling.again(case, look=f"`{CODE}` lists no graph break"),
        risk="with fullgraph=True a break that was harmless becomes an error",
    )


def _recompile_advice(case: Case) -> Recommendation:
    return Recommendation(
        what="Give the compiled function what changes as a tensor, or mark the size as dynamic",
        how="a Python number is compiled in as a constant: hold it in a tensor on the device; for "
        "sizes, torch._dynamo.mark_dynamic(tensor, dimension) or a static KV cache",
        verify=telling.again(case, look=f"`{CODE}` lists no recompile"),
        risk="code for any size can be slower than code for one size",
    )
