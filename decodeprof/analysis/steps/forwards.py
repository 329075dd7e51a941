"""Rule 2: which outermost module forwards and graph replays did the capture note?

The capture's hooks leave one range for each outermost `nn.Module` forward and each
`CUDAGraph.replay`, with the instance's number and, for a forward, its query length. One instance
called once a token is the boundary itself. Where several take turns (an embedding, layers, a head
called one by one; two graphs a token), the boundary is the one whose number of calls is nearest to
the number of new tokens, the earliest of equals.

A generator's yields and the target's own loop (rules of their own) serve where no module is called.
Yields come after forwards here: an engine that checks for stop tokens every k steps yields in
bursts of k.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from decodeprof import mark
from decodeprof.analysis.steps.cuts import Context, Cut, Cuts, Phase, host_end
from decodeprof.model.trace import Trace


@dataclass(frozen=True)
class _Call:
    start_ns: int
    end_ns: int
    who: str
    query: int | None
    is_replay: bool


def find(trace: Trace, context: Context) -> Cuts | None:
    """Steps from forwards and replays, then from yields, then from the loop's iterations."""
    calls = _outermost(_calls(trace))
    if calls:
        cuts = _boundaries(calls, context)
        if cuts:
            cuts[0] = replace(cuts[0], start_ns=_call_start(trace, cuts[0]))
            return Cuts(
                method="forwards",
                text=_text(calls),
                cuts=tuple(cuts),
                end_ns=_call_end(trace),
                single=len(cuts) == 1,
            )
    return _by_starts(trace, mark.YIELD) or _by_starts(trace, mark.LOOP)


def _by_starts(trace: Trace, name: str) -> Cuts | None:
    """Steps from marks that say only when each one began."""
    starts = sorted(start for start, _, _ in _marks(trace, name))
    if len(starts) < 2:
        return None
    # What a generator does before its first yield is the prefill; a loop's first iteration is not.
    first: Phase = "prefill" if name == mark.YIELD else "decode"
    return Cuts(
        method="yields" if name == mark.YIELD else "loop",
        text="the generator's yields"
        if name == mark.YIELD
        else "the iterations of the target's own loop",
        cuts=tuple(
            Cut(start_ns=start, phase="decode" if index else first)
            for index, start in enumerate(starts)
        ),
        end_ns=_call_end(trace),
    )


def _marks(trace: Trace, wanted: str) -> list[tuple[int, int, dict[str, str]]]:
    table = trace.annotations
    found = []
    for row, name in enumerate(table.name.tolist()):
        parsed = mark.parse(trace.names[name])
        if parsed and parsed[0] == wanted:
            found.append((int(table.start_ns[row]), int(table.end_ns[row]), parsed[1]))
    return found


def _call_end(trace: Trace) -> int:
    """Where the target's call ended: the closing synchronisation after it is not its own."""
    ends = [end for _, end, _ in _marks(trace, mark.CALL)]
    return max(ends) if ends else host_end(trace)


def _call_start(trace: Trace, first: Cut) -> int:
    """Where the first step begins: a prefill holds what the call does before its forward."""
    starts = [start for start, end, _ in _marks(trace, mark.CALL) if start <= first.start_ns < end]
    return max(starts) if starts and first.phase == "prefill" else first.start_ns


def _calls(trace: Trace) -> list[_Call]:
    calls = [
        _Call(start, end, f"module {v.get('m', '?')}", _number(v.get("q")), is_replay=False)
        for start, end, v in _marks(trace, mark.FORWARD)
    ]
    calls += [
        _Call(start, end, f"graph {v.get('g', '?')}", None, is_replay=True)
        for start, end, v in _marks(trace, mark.REPLAY)
    ]
    return sorted(calls, key=lambda call: (call.start_ns, -call.end_ns))


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() else None


def _outermost(calls: list[_Call]) -> list[_Call]:
    kept: list[_Call] = []
    for call in calls:
        if not kept or call.start_ns >= kept[-1].end_ns:
            kept.append(call)
    return kept


def _boundaries(calls: list[_Call], context: Context) -> list[Cut]:
    counts = Counter(call.who for call in calls)
    chosen = calls
    if len(counts) > 1:
        recurring = [who for who in counts if counts[who] >= 2]
        if recurring:
            wanted = context.new_tokens or min(counts[who] for who in recurring)
            order = {who: i for i, who in enumerate(counts)}
            who = min(recurring, key=lambda w: (abs(counts[w] - wanted), order[w]))
            first = next(i for i, call in enumerate(calls) if call.who == who)
            # What ran before the boundary's first call is the prefill, as one step.
            before = (
                [
                    replace(
                        calls[0],
                        query=max((c.query or 0 for c in calls[:first]), default=0) or None,
                    )
                ]
                if first
                else []
            )
            chosen = before + [call for call in calls if call.who == who]
    usual = Counter(call.query for call in chosen[1:]).most_common(1)
    one_token = bool(usual) and usual[0][0] in (1, None)
    cuts = []
    for index, call in enumerate(chosen):
        is_prompt = call.query is not None and call.query > 1
        phase: Phase = "prefill" if index == 0 or (is_prompt and one_token) else "decode"
        # A lone replay first in the recording is a decode step: graphs of prefills have forwards
        # beside them, or are told apart by their number.
        if index == 0 and call.is_replay and len(counts) == 1:
            phase = "decode"
        cuts.append(Cut(start_ns=call.start_ns, phase=phase, query_length=call.query))
    return cuts


def _text(calls: list[_Call]) -> str:
    replays = sum(call.is_replay for call in calls)
    if not replays:
        return "the outermost module's forwards, noted while recording"
    if replays == len(calls):
        return "the graph replays, noted while recording"
    return "the outermost module's forwards and the graph replays, noted while recording"
