"""Rule 4: does the sequence of launches repeat, with evidence in each repetition that it is a step?

The launches are cut at every occurrence of one n-gram (n = 1 to 3). All segments but the first must
agree (the first may be the prefill, which picks other kernels), and each must hold an embedding, a
sampling op or a blocking call. Of the n-grams that pass, the most frequent wins, and among equals
the one that starts closest behind such evidence: a step begins where the last token was taken.

A repetition without evidence (28 equal layers of a prefill; a loop of three kernels) is a period
and nothing more.
"""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass

import numpy as np

from decodeprof.analysis.steps.cuts import (
    Context,
    Cut,
    Cuts,
    Period,
    Phase,
    host_end,
    is_training,
)
from decodeprof.analysis.steps.queries import QueryLengths
from decodeprof.analysis.steps.tokens import LaunchSequence, launch_sequence
from decodeprof.model.calls import CallKind
from decodeprof.model.trace import I64, Trace

FEWEST_STEPS = 3
LENGTH_TOLERANCE_SHARE = 0.05
DISTANCE_TOLERANCE_SHARE = 0.08
# An n-gram of a step's own occurs once a step. Of equally frequent n-grams every step offers one
# for each of its launches that is unlike the rest; trying this many is enough to find a good cut.
MOST_CANDIDATES = 400
# A prefill that shares no n-gram with the decode steps (eager before compiled ones) precedes the
# first cut; what is shorter than half a step there is the first step's own beginning.
PREFILL_SHARE = 0.5
PERIOD_AGREEMENT_SHARE = 0.98
LONGEST_PERIOD = 4096
_EVIDENCE = ("embedding", "argmax", "multinomial", "topk", "sort")
_EXACT_EVIDENCE = "aten::"


@dataclass(frozen=True)
class _Evidence:
    all_ns: I64
    """Host times of embeddings, sampling ops and blocking calls."""
    token_taken_ns: I64
    """Of sampling ops and blocking calls alone: what ends a step."""


def find(trace: Trace, context: Context) -> Cuts | None:
    """Steps from a repeated launch sequence with evidence in each."""
    del context
    if is_training(trace) or not len(trace.calls):
        return None
    launches = launch_sequence(trace)
    evidence = _evidence(trace)
    if len(launches.token) < FEWEST_STEPS or len(evidence.all_ns) < FEWEST_STEPS:
        return None
    best: tuple[int, float, I64] | None = None
    for at in _candidates(launches.token, len(evidence.all_ns)):
        if best is not None and len(at) < best[0]:
            break
        if not _agree(launches.token, at) or not _each_holds(launches, at, evidence.all_ns):
            continue
        distance = _distance_behind(launches, at, evidence.token_taken_ns)
        if best is None or distance < best[1]:
            best = (len(at), distance, at)
    if best is None:
        return None
    return _cuts(trace, launches, best[2])


def find_period(trace: Trace) -> Period | None:
    """The shortest repetition that covers nearly the whole launch sequence; None: there is none."""
    token = launch_sequence(trace).token if len(trace.calls) else np.empty(0, np.int64)
    for period in range(1, min(len(token) // FEWEST_STEPS, LONGEST_PERIOD) + 1):
        if (token[period:] == token[:-period]).mean() >= PERIOD_AGREEMENT_SHARE:
            return Period(activities=period, count=len(token) // period)
    return None


def _evidence(trace: Trace) -> _Evidence:
    words = {
        i: "embedding" if "embedding" in name else "sampling"
        for i, name in enumerate(trace.names)
        if name.startswith(("aten::", "triton_")) and any(word in name for word in _EVIDENCE)
    }
    ops = trace.ops
    embeddings = np.isin(ops.name, [i for i, kind in words.items() if kind == "embedding"])
    sampling = np.isin(ops.name, [i for i, kind in words.items() if kind == "sampling"])
    blocking = trace.calls.kind == CallKind.SYNC
    taken = np.sort(np.r_[ops.start_ns[sampling], trace.calls.start_ns[blocking]])
    return _Evidence(all_ns=np.sort(np.r_[taken, ops.start_ns[embeddings]]), token_taken_ns=taken)


def _candidates(token: I64, most: int) -> list[I64]:
    """Positions of n-grams that occur 3 to `most` times, the most frequent first."""
    found: list[I64] = []
    key = np.zeros(len(token), np.int64)
    _, base = np.unique(token, return_inverse=True)
    for n in range(1, 4):
        usable = len(token) - n + 1
        if usable < FEWEST_STEPS:
            break
        # Interned again after each extension, so that the key stays small.
        combined = base[:usable] if n == 1 else key[:usable] * (len(token) + 1) + base[n - 1 :]
        _, key, counts = np.unique(combined, return_inverse=True, return_counts=True)
        order = np.argsort(key, kind="stable")
        ends = np.cumsum(counts)
        grams = np.flatnonzero((counts >= FEWEST_STEPS) & (counts <= most))
        found += [order[ends[gram] - counts[gram] : ends[gram]] for gram in grams]
    found.sort(key=lambda at: (-len(at), int(at[0])))
    by_count: Counter[int] = Counter()
    kept = []
    for at in found:
        by_count[len(at)] += 1
        if by_count[len(at)] <= MOST_CANDIDATES:
            kept.append(at)
    return kept


def _prefill_is_apart(token: I64, at: I64) -> bool:
    """Whether so much precedes the first cut that it is a step of its own: an unlike prefill."""
    usual = float(np.median(np.diff(np.r_[at, len(token)])))
    return int(at[0]) > PREFILL_SHARE * usual


def _agree(token: I64, at: I64) -> bool:
    """Whether all segments but the first hold about the same launches."""
    bounds = np.r_[at, len(token)]
    if _prefill_is_apart(token, at):
        bounds = np.r_[0, bounds]
    lengths = np.diff(bounds)[1:]
    usual = float(np.median(lengths))
    # The last segment runs to the end of the recording and may be cut short or drag a tail.
    if (np.abs(lengths - usual) > LENGTH_TOLERANCE_SHARE * usual).any():
        return False
    segments = [token[a:b] for a, b in itertools.pairwise(bounds[1:])]
    words = np.unique(token)
    reference = np.bincount(np.searchsorted(words, segments[0]), minlength=len(words))
    for segment in segments[1:]:
        other = np.bincount(np.searchsorted(words, segment), minlength=len(words))
        if np.abs(reference - other).sum() > 2 * DISTANCE_TOLERANCE_SHARE * usual:
            return False
    return True


def _each_holds(launches: LaunchSequence, at: I64, evidence_ns: I64) -> bool:
    bounds = np.r_[launches.start_ns[at], np.iinfo(np.int64).max]
    held = np.diff(np.searchsorted(evidence_ns, bounds))
    return bool((held > 0).all())


def _distance_behind(launches: LaunchSequence, at: I64, taken_ns: I64) -> float:
    """Mean number of launches between a cut and the last evidence that a token was taken."""
    if not len(taken_ns):
        return float(at[0])
    starts = launches.start_ns[at[1:]]
    last = np.searchsorted(taken_ns, starts, side="right") - 1
    position = np.searchsorted(launches.start_ns, taken_ns[np.maximum(last, 0)])
    return float(np.where(last >= 0, at[1:] - position, len(launches.token)).mean())


def _cuts(trace: Trace, launches: LaunchSequence, at: I64) -> Cuts:
    if _prefill_is_apart(launches.token, at):
        at = np.r_[0, at]
    # What precedes the first cut is the beginning of the first step.
    starts = [_op_start(trace, launches, int(position)) for position in np.r_[0, at[1:]]]
    end = host_end(trace)
    queries = QueryLengths(trace)
    lengths = [queries.within(a, b) for a, b in zip(starts, [*starts[1:], end], strict=True)]
    first: Phase = "prefill" if _first_differs(trace, launches, at, lengths) else "decode"
    phases: list[Phase] = [first] + ["decode"] * (len(starts) - 1)
    return Cuts(
        method="sequence",
        text=f"the sequence of launches, which repeats {len(at)} times with a sampling op, an "
        "embedding or a blocking call in each",
        cuts=tuple(
            Cut(start_ns=int(s), phase=p, query_length=q)
            for s, p, q in zip(starts, phases, lengths, strict=True)
        ),
        end_ns=end,
    )


def _op_start(trace: Trace, launches: LaunchSequence, position: int) -> int:
    """The start of the op that the step's first launch belongs to: the step begins there.

    The outermost op around the launch that began after the launch before it; without one, the
    launch call's own start.
    """
    start = int(launches.start_ns[position])
    previous = int(launches.start_ns[position - 1]) if position else -1
    ops, call = trace.ops, trace.device.call[launches.activity[position]]
    first = int(np.searchsorted(ops.start_ns, previous, side="right"))
    last = int(np.searchsorted(ops.start_ns, start, side="right"))
    around = (ops.end_ns[first:last] >= start) & (
        ops.thread[first:last] == trace.calls.thread[call]
    )
    rows = np.flatnonzero(around)
    return int(ops.start_ns[first + rows[0]]) if len(rows) else start


def _first_differs(
    trace: Trace, launches: LaunchSequence, at: I64, lengths: list[int | None]
) -> bool:
    """Whether the first step is a prefill: by its query length, else by kernels of its own."""
    if lengths[0] is not None and lengths[1] is not None:
        return lengths[0] > lengths[1]
    names = trace.device.name[launches.activity]
    first = set(names[: at[1]].tolist())
    rest = set(names[at[1] :].tolist())
    return bool(first - rest)
