"""Where only parts of a step can be captured: which parts?"""

from __future__ import annotations

from decodeprof.analysis.graph_refusals import stops
from decodeprof.model.graph_check import Segment
from decodeprof.model.ops import OpCall, OpRecord


def segments_of(record: OpRecord) -> list[Segment]:
    """The stretches of a step's operations between those that no graph can hold.

    Args:
        record: two consecutive steps; the second one is cut up.

    Returns:
        Stretches that launch something, in order; one alone, not stopped, is the whole step.
    """
    found: list[Segment] = []
    run: list[OpCall] = []
    for call in record.second.calls:
        if stops(call):
            found += _segment(run, record, by=call)
            run = []
        elif not call.view and any(each.on_device for each in (*call.inputs, *call.outputs)):
            run.append(call)
    return [*found, *_segment(run, record, by=None)]


def _segment(run: list[OpCall], record: OpRecord, *, by: OpCall | None) -> list[Segment]:
    if not run:
        return []
    return [
        Segment(
            operations=len(run),
            first=record.places[run[0].place],
            last=record.places[run[-1].place],
            stopped_by=by.name if by is not None else "",
            stopped_at=record.places[by.place] if by is not None else None,
        )
    ]
