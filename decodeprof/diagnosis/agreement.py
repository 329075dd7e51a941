"""What does each source say of one decode step? Witnesses from a recording's passes and traces."""

from __future__ import annotations

from collections import Counter

import numpy as np

from decodeprof.analysis import agreement
from decodeprof.analysis.agreement import Witness
from decodeprof.analysis.figures import mean_over_periods, period_of
from decodeprof.analysis.sites import decode_ordinals
from decodeprof.diagnosis.context import unprofiled_step
from decodeprof.diagnosis.evidence import Evidence
from decodeprof.model.calls import CallKind
from decodeprof.model.diagnosis import Agreement, AgreementRow
from decodeprof.model.trace import NONE, ActivityKind
from decodeprof.recording import SyncPass

_COUNTS = ("kernels", "launches", "graph_launches", "syncs")
_BLOCKING = (int(CallKind.SYNC), int(CallKind.BLOCKING_COPY))


def agreement_of(evidence: Evidence) -> Agreement | None:
    """The sources side by side; None where fewer than two saw the run."""
    rows = agreement.compare(_witnesses(evidence))
    if not rows:
        return None
    return Agreement(
        sources=list(rows[0].values),
        rows=[
            AgreementRow(
                quantity=row.quantity,
                values=row.values,
                agrees=row.agrees,
                explanation=row.explanation,
            )
            for row in rows
        ],
    )


def _witnesses(evidence: Evidence) -> list[Witness]:
    recording = evidence.recording
    if recording is None:
        return []
    unprofiled = unprofiled_step(recording)
    traces = [(agreement.TORCH, evidence), (agreement.NSYS, evidence.nsys)]
    told = [(source, each) for source, each in traces if each is not None and each.decode]
    passes = [
        (agreement.SYNC_DEBUG, recording.sync_debug),
        (agreement.GPU_TRACE, recording.gpu_trace),
    ]
    detected = [(source, found) for source, found in passes if found is not None and found.steps]
    # A stop check every 16 steps is in step 16 of each source: only the same steps compare.
    common = _common([_ordinals(each) for _, each in told] + [_inner(f) for _, f in detected])
    found = [Witness(agreement.UNPROFILED, {"step_ns": unprofiled.median})] if unprofiled else []
    found += [_of_pass(source, each, common or _inner(each)) for source, each in detected]
    found += [_of_trace(source, each, common or _ordinals(each)) for source, each in told]
    return found


def _ordinals(evidence: Evidence) -> set[int]:
    """The steps of a trace's figures, as the sync passes number them: the prefill is 0."""
    ordinals = decode_ordinals(evidence.steps)
    rows = evidence.decode.rows.tolist() if evidence.decode else []
    return {ordinals[row] for row in rows}


def _inner(found: SyncPass) -> set[int]:
    """A pass's decode steps, without the first and the last where there are more."""
    return set(range(2, found.steps)) if found.steps > 2 else set(range(1, found.steps + 1))


def _common(numbers: list[set[int]]) -> set[int]:
    return set.intersection(*numbers) if numbers else set()


def _of_pass(source: str, found: SyncPass, ordinals: set[int]) -> Witness:
    """What a sync detector counted in the given steps."""
    counts = Counter(event.step for event in found.events if event.step in ordinals)
    places = Counter(
        f"{found.sites[event.site].file}:{found.sites[event.site].line}"
        for event in found.events
        if event.step in ordinals
    )
    per_step = np.array([counts[ordinal] for ordinal in sorted(ordinals)], np.int64)
    return Witness(
        source,
        {"syncs": mean_over_periods(per_step, period_of(per_step))},
        sync_places={place: n / len(ordinals) for place, n in places.items()},
        steps=len(ordinals),
    )


def _of_trace(source: str, evidence: Evidence, ordinals: set[int]) -> Witness:
    """What a trace shows of the given steps; times are of the one step that is shown."""
    figures, trace, steps = evidence.decode, evidence.trace, evidence.steps
    assert figures is not None
    numbers = decode_ordinals(steps)
    rows = np.array([r for r in range(steps.count) if numbers[r] in ordinals], np.int64)
    whole = bool(
        (trace.device.kind[np.isin(steps.activity_step, rows)] == ActivityKind.GRAPH).any()
    )
    counts = {name: getattr(evidence.counts, name)[rows] for name in _COUNTS}
    period = period_of(counts["syncs"], counts["graph_launches"])
    values: dict[str, float | None] = {
        "busy_ns": figures.busy_ns,
        "step_ns": int(steps.window_ns[figures.shown]),
    }
    for name in _COUNTS:
        known = not whole if name == "kernels" else "calls" in trace.captured
        values[name] = mean_over_periods(counts[name], period) if known else None
    blocking = np.isin(trace.calls.kind, _BLOCKING) & np.isin(steps.call_step, rows)
    names = Counter(trace.names[i] for i in trace.calls.name[blocking].tolist())
    return Witness(
        source,
        values,
        sync_calls={name: n / len(rows) for name, n in names.items()},
        unlinked=int((trace.device.call == NONE).sum()),
        steps=len(rows),
        whole_graphs=whole,
    )
