"""Rule 1: did somebody say what a step is? A user's marks, or a server's own annotations.

Marks are exact. ProfilerStep# and servers' annotations are taken as they are, SGLang's own before
those in vLLM's form, which some recorders put around a step with all that prepares it. What a
step's phase is follows from its text (vLLM: numbers of context and generation requests; SGLang:
EXTEND, DECODE), else from the query length that an embedding was called with, else it is unknown
("other").
"""

from __future__ import annotations

import re

from decodeprof import mark
from decodeprof.analysis.steps.cuts import Context, Cut, Cuts, Phase, is_training
from decodeprof.analysis.steps.queries import QueryLengths
from decodeprof.model.trace import Trace

_NOTED = (mark.FORWARD, mark.REPLAY, mark.YIELD, mark.LOOP)
"""What the capture notes where a step begins, unless the target marks its steps."""
_VLLM = re.compile(r"execute_(?:\d+_)?context_(\d+)\(.*?\)_generation_(\d+)\(")
_SGLANG = re.compile(r"step\[(\w+)\b.*\]")
_PROFILER_STEP = re.compile(r"ProfilerStep#(\d+)")


def find(trace: Trace, context: Context) -> Cuts | None:
    """Steps from user marks, then from a server's annotations, then from ProfilerStep#."""
    del context
    for phase_of, text in (
        (_user_phase, "the engine's own marks, `decodeprof.step()`"),
        (_sglang_phase, "the server's own step annotations"),
        (_vllm_phase, "the server's own step annotations"),
        (_profiler_phase, "torch.profiler's ProfilerStep# marks"),
    ):
        rows = [
            (row, phase)
            for row, name in enumerate(trace.annotations.name.tolist())
            if (phase := phase_of(trace.names[name])) is not None
        ]
        if not rows or (phase_of is not _user_phase and is_training(trace)):
            continue
        cuts = _cuts(trace, rows, text, exact=phase_of is _user_phase)
        if cuts.single and phase_of is _user_phase and _is_call(trace, cuts.cuts[0]):
            continue
        return cuts
    return None


def _is_call(trace: Trace, only: Cut) -> bool:
    """Whether a lone mark is around a call and not a step: the capture noted several steps in it.

    One forward or replay in it may be a step's; each of several begins one.
    """
    table = trace.annotations
    inside = table.start_ns >= only.start_ns
    if only.end_ns is not None:
        inside &= table.start_ns < only.end_ns
    names = [mark.parse(trace.names[name]) for name in table.name[inside].tolist()]
    return sum(name is not None and name[0] in _NOTED for name in names) > 1


def _cuts(trace: Trace, rows: list[tuple[int, str]], text: str, *, exact: bool) -> Cuts:
    table, queries = trace.annotations, QueryLengths(trace)
    cuts: list[Cut] = []
    reach = -1
    for row, said in _outermost(trace, rows):
        start, end = int(table.start_ns[row]), int(table.end_ns[row])
        reach = end
        query = queries.within(start, end)
        phase: Phase = "other"
        if said in ("prefill", "decode"):
            phase = "prefill" if said == "prefill" else "decode"
        elif query is not None:
            phase = "decode" if query == 1 else "prefill"
        cuts.append(
            Cut(start_ns=start, end_ns=end if exact else None, phase=phase, query_length=query)
        )
    single = len(cuts) == 1
    return Cuts(
        method="annotation" if single else "marks",
        text=f"one step, from {text}" if single else text,
        cuts=tuple(cuts),
        end_ns=reach,
        single=single,
    )


def _outermost(trace: Trace, rows: list[tuple[int, str]]) -> list[tuple[int, str]]:
    """Marks that lie in no other; one that holds all the others is the whole call, and no step."""
    table = trace.annotations
    while True:
        kept: list[tuple[int, str]] = []
        reach = -1
        for row, said in rows:
            if int(table.start_ns[row]) >= reach:
                kept.append((row, said))
                reach = int(table.end_ns[row])
        if len(kept) > 1 or len(rows) == 1:
            return kept
        rows = [each for each in rows if each != kept[0]]


def _user_phase(name: str) -> str | None:
    parsed = mark.parse(name)
    return parsed[1].get("phase", "decode") if parsed and parsed[0] == mark.STEP else None


def _vllm_phase(name: str) -> str | None:
    found = _VLLM.match(name)
    if found is None:
        return None
    contexts, generations = int(found[1]), int(found[2])
    if contexts and not generations:
        return "prefill"
    return "decode" if generations and not contexts else "mixed"


def _sglang_phase(name: str) -> str | None:
    found = _SGLANG.fullmatch(name)
    if found is None:
        return None
    return {"DECODE": "decode", "EXTEND": "prefill", "PREFILL": "prefill"}.get(found[1], "mixed")


def _profiler_phase(name: str) -> str | None:
    return "unsaid" if _PROFILER_STEP.fullmatch(name) else None
