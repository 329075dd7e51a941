"""Which places block the host, how often per step, and what does each cost the device?

A blocking call of the trace is joined to the Python line that made it by the first of these that is
there: the sync pass's own stacks (the k-th sync of step i is the k-th sync of step i, the program
being the same), the recorded Python frames, the enclosing op. A copy that waited and the sync that
follows it in the same op are one wait.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field

import numpy as np

from decodeprof.analysis.gaps import Gaps
from decodeprof.analysis.grouping import rows_by_value
from decodeprof.analysis.host import blocking_calls
from decodeprof.analysis.nesting import Nesting
from decodeprof.analysis.steps.found import Steps
from decodeprof.model.calls import CallKind
from decodeprof.model.trace import I64, NONE, Trace

_FRAME = re.compile(r"(?P<file>.+)\((?P<line>\d+)\): (?P<function>.+)")


@dataclass(frozen=True)
class Place:
    """A place in Python code."""

    file: str
    line: int
    function: str
    code: str | None = None
    stack: tuple[str, ...] = ()


@dataclass(frozen=True)
class Seen:
    """What one detector saw: for each step its syncs, in order. Step 0 is the prefill."""

    source: str
    """sync_debug | gpu_trace."""
    places: dict[int, list[Place]]
    kinds: dict[int, list[str]] = field(default_factory=dict)
    steps: int = 0
    """Decode steps that it covers."""


@dataclass(frozen=True)
class BlockingSite:
    """One place, with its calls in the steps that were asked for; times in ns, totals."""

    place: Place | None
    op: str | None
    api: str
    calls: I64
    """Rows of `Trace.calls`; empty where only a detector without a trace saw it."""
    detected: int
    """Times a detector saw it in its own pass; 0 where it did not."""
    detected_steps: int
    """Decode steps of that pass."""
    call_ns: int
    idle_inside_ns: int
    idle_after_ns: int
    seen_by: tuple[str, ...]


def waits(trace: Trace, nesting: Nesting) -> I64:
    """Rows of the blocking calls, a copy that waited and the sync after it in one op being one."""
    blocking = np.flatnonzero(blocking_calls(trace)).astype(np.int64)
    kind = trace.calls.kind[blocking]
    op = nesting.innermost_op[blocking]
    kept = []
    for at, row in enumerate(blocking.tolist()):
        absorbed = (
            kind[at] == CallKind.COPY
            and at + 1 < len(blocking)
            and kind[at + 1] == CallKind.SYNC
            and op[at] != NONE
            and op[at] == op[at + 1]
        )
        if not absorbed:
            kept.append(row)
    return np.array(kept, np.int64)


def sites_of(
    trace: Trace,
    steps: Steps,
    gaps: Gaps,
    *,
    rows: I64,
    nesting: Nesting,
    seen: tuple[Seen, ...],
) -> list[BlockingSite]:
    """The sites of the blocking calls in the given steps, the most frequent first.

    Args:
        trace: the trace.
        steps: its steps.
        gaps: the device's gaps.
        rows: indices of the steps to cover (all of one phase).
        nesting: the trace's nesting.
        seen: what the sync passes saw.
    """
    calls = waits(trace, nesting)
    calls = calls[np.isin(steps.call_step[calls], rows)]
    ordinal = decode_ordinals(steps)
    joined: dict[int, dict[str, Place]] = defaultdict(dict)
    used: Counter[tuple[str, int]] = Counter()
    by_step = rows_by_value(steps.call_step[calls])
    for detector in seen:
        for step in rows.tolist():
            mine = _detectable(trace, calls[by_step.get(step, np.empty(0, np.int64))])
            matched = _join(trace, mine, detector, ordinal[step])
            for row, matched_place in matched.items():
                joined[row][detector.source] = matched_place
                used[detector.source, step] += 1
    groups: dict[tuple[object, ...], list[int]] = defaultdict(list)
    chosen: dict[int, Place | None] = {}
    for row in calls.tolist():
        found = joined[row]
        place: Place | None = (
            found.get("gpu_trace") or found.get("sync_debug") or _from_frames(trace, nesting, row)
        )
        chosen[row] = place
        op = nesting.op_name(trace, row)
        where = (place.file, place.line, place.function) if place is not None else None
        key = (where, op, int(trace.calls.name[row]))
        groups[key].append(row)
    sites = []
    for members in groups.values():
        array = np.array(members, np.int64)
        inside, after = _idle(trace, gaps, array)
        first = members[0]
        sources = {source for row in members for source in joined[row]}
        sites.append(
            BlockingSite(
                place=chosen[first],
                op=nesting.op_name(trace, first),
                api=trace.names[trace.calls.name[first]],
                calls=array,
                detected=0,
                detected_steps=0,
                call_ns=int((trace.calls.end_ns[array] - trace.calls.start_ns[array]).sum()),
                idle_inside_ns=inside,
                idle_after_ns=after,
                seen_by=(
                    *tuple(s for s in ("sync_debug", "gpu_trace") if s in sources),
                    trace.kind,
                ),
            )
        )
    sites += _unmatched(sites, seen, prefill=bool(len(rows)) and steps.phases[rows[0]] == "prefill")
    return sorted(
        sites,
        key=lambda s: (-(len(s.calls) or s.detected), s.place.file if s.place else "", s.op or ""),
    )


def _detectable(trace: Trace, calls: I64) -> list[int]:
    """The calls that the sync passes can see: synchronisations and copies that wait by design."""
    kinds = (int(CallKind.SYNC), int(CallKind.BLOCKING_COPY))
    return [row for row in calls.tolist() if int(trace.calls.kind[row]) in kinds]


def decode_ordinals(steps: Steps) -> list[int]:
    """For each step its number as the sync passes count: the prefill is 0, then 1, 2, 3."""
    has_prefill = bool(steps.phases) and steps.phases[0] == "prefill"
    return [index if has_prefill else index + 1 for index in range(steps.count)]


_CALL_OF_KIND = {
    "stream": ("StreamSynchronize", "Memcpy"),
    "device": ("DeviceSynchronize", "CtxSynchronize"),
    "event": ("EventSynchronize",),
}


def _join(trace: Trace, rows: list[int], seen: Seen, step: int) -> dict[int, Place]:
    """Match a step's blocking calls with a detector's, in order; nothing where the numbers differ.

    Sync-debug does not see device and event synchronisations: there only the calls that it can see
    are counted.
    """
    places = seen.places.get(step)
    kinds = seen.kinds.get(step, [])
    if places is None:
        return {}
    names = [trace.names[trace.calls.name[row]] for row in rows]
    if seen.source == "sync_debug":
        visible = [
            r
            for r, n in zip(rows, names, strict=True)
            if not n.endswith(("DeviceSynchronize", "EventSynchronize"))
        ]
        if len(visible) != len(places):
            return {}
        return dict(zip(visible, places, strict=True))
    if len(rows) == len(places):
        agree = all(
            any(part in name for part in _CALL_OF_KIND.get(kind, (name,)))
            for name, kind in zip(names, kinds, strict=False)
        )
        return dict(zip(rows, places, strict=True)) if agree else {}
    return {}


def _from_frames(trace: Trace, nesting: Nesting, row: int) -> Place | None:
    for name in nesting.frames(trace, row):
        found = _FRAME.fullmatch(name)
        if found and not _is_plumbing(found["file"]):
            return Place(file=found["file"], line=int(found["line"]), function=found["function"])
    return None


def _is_plumbing(file: str) -> bool:
    """Whether a frame is torch's own or Python's: never the line that a user would change."""
    slashed = file.replace("\\", "/")
    return slashed.startswith(("<built-in", "torch/")) or "/torch/" in slashed or "<" in slashed


def _idle(trace: Trace, gaps: Gaps, calls: I64) -> tuple[int, int]:
    """Idle ns inside the calls, and idle ns after them in the gaps that they opened."""
    starts, ends = trace.calls.start_ns[calls], trace.calls.end_ns[calls]
    if not len(gaps.busy.starts):
        return 0, 0
    first, last = int(gaps.busy.starts[0]), int(gaps.busy.ends[-1])
    a, b = np.clip(starts, first, last), np.clip(ends, first, last)
    inside = int(((b - a) - gaps.busy.within(a, b)).sum())
    opened = np.isin(gaps.opened_by, calls)
    rest = gaps.end_ns[opened] - trace.calls.end_ns[gaps.opened_by[opened]]
    return inside, int(np.maximum(rest, 0).sum())


def _unmatched(
    sites: list[BlockingSite], seen: tuple[Seen, ...], *, prefill: bool
) -> list[BlockingSite]:
    """Sites that a detector saw in its own pass and that no call of the trace was joined to."""
    have = {(s.place.file, s.place.line) for s in sites if s.place}
    found: dict[tuple[str, int], tuple[Place, dict[str, int]]] = {}
    steps_of = {detector.source: detector.steps for detector in seen}
    for detector in seen:
        for step, places in detector.places.items():
            if (step == 0) != prefill or step < 0:
                continue
            for place in places:
                key = (place.file, place.line)
                if key not in have:
                    _, counts = found.setdefault(key, (place, {}))
                    counts[detector.source] = counts.get(detector.source, 0) + 1
    rows = []
    for place, counts in found.values():
        source = max(counts, key=lambda s: counts[s])
        rows.append(
            BlockingSite(
                place=place,
                op=None,
                api="",
                calls=np.empty(0, np.int64),
                detected=counts[source],
                detected_steps=1 if prefill else max(steps_of[source], 1),
                call_ns=0,
                idle_inside_ns=0,
                idle_after_ns=0,
                seen_by=tuple(s for s in ("sync_debug", "gpu_trace") if s in counts),
            )
        )
    return rows
