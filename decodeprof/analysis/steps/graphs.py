"""Rule 3: is the same whole-step graph launched two or more times?

A graph of at least 50 activities is a whole step; smaller ones are pieces of one. A single such
launch that holds most of the trace's activities is one step, not steady.
"""

from __future__ import annotations

import numpy as np

from decodeprof import units
from decodeprof.analysis.steps.cuts import Context, Cut, Cuts, host_end, is_training
from decodeprof.analysis.steps.queries import QueryLengths
from decodeprof.model.calls import CallKind
from decodeprof.model.trace import I64, NONE, Trace

# A decode step of one transformer layer already takes more activities than this as a graph.
WHOLE_STEP_ACTIVITIES = 50
# Replays of one graph that were recorded with fewer nodes are still that graph.
SAME_GRAPH_SHARE = 0.05


def graph_sizes(trace: Trace) -> tuple[I64, I64]:
    """Rows of graph launch calls, in time order, and the activities recorded for each."""
    rows = np.flatnonzero(trace.calls.kind == CallKind.GRAPH_LAUNCH).astype(np.int64)
    linked = trace.device.call[trace.device.call != NONE]
    counts = np.bincount(linked, minlength=len(trace.calls)).astype(np.int64)
    return rows, counts[rows] if len(rows) else rows


def find(trace: Trace, context: Context) -> Cuts | None:
    """Steps from repeated launches of one whole-step graph."""
    del context
    rows, sizes = graph_sizes(trace)
    whole = sizes >= WHOLE_STEP_ACTIVITIES
    if not whole.any() or is_training(trace):
        return None
    usual = int(np.median(sizes[whole]))
    same = np.abs(sizes - usual) <= SAME_GRAPH_SHARE * usual
    chosen = rows[same]
    starts = trace.calls.start_ns[chosen]
    if not len(chosen):  # Two graphs of different sizes: the middle size is neither's.
        return None
    if len(chosen) < 2:
        # Several graphs of different sizes are not one step, nor does any of them repeat.
        if whole.sum() > 1 or sizes[whole].sum() * 2 < len(trace.device):
            return None
        return Cuts(
            method="graph",
            text="one launch of a whole-step graph",
            cuts=(Cut(start_ns=int(starts[0]), phase="decode"),),
            end_ns=host_end(trace),
            single=True,
        )
    cuts = [Cut(start_ns=int(s), phase="decode") for s in starts]
    prefill = _eager_before(trace, int(starts[0]))
    if prefill is not None:
        cuts.insert(0, prefill)
    return Cuts(
        method="graph",
        text=f"{units.counted(len(chosen), 'launch', 'launches')} of the same graph of "
        f"{units.counted(usual, 'activity', 'activities')}",
        cuts=tuple(cuts),
        end_ns=host_end(trace),
    )


def _eager_before(trace: Trace, start_ns: int) -> Cut | None:
    """The prefill, if the launches before the first graph amount to a whole forward."""
    linked = trace.device.call[trace.device.call != NONE]
    launched = trace.calls.start_ns[linked]
    before = launched[launched < start_ns]
    if len(before) < WHOLE_STEP_ACTIVITIES:
        return None
    first = int(before.min())
    query = QueryLengths(trace).within(0, start_ns)
    return Cut(start_ns=first, phase="prefill", query_length=query)
