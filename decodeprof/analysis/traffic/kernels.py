"""How many bytes did each kernel read and write, and how many FLOPs did it do?

By the shapes of the op that launched it; a copy or set by the bytes that the profiler recorded;
without either by the same kernels elsewhere (`matching`). Nothing else is known: -1.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from decodeprof.analysis.steps.found import Steps
from decodeprof.analysis.traffic.attribution import Ops, count_moves, count_ops
from decodeprof.analysis.traffic.columns import Columns, KernelTraffic, Source
from decodeprof.analysis.traffic.links import launching_ops, op_parents, with_shapes
from decodeprof.analysis.traffic.matching import (
    Found,
    in_graph,
    match,
    reference,
    stretches_without_shapes,
)
from decodeprof.model.trace import NONE, Trace


def kernel_traffic(
    trace: Trace, steps: Steps | None = None, *, references: Sequence[Trace] = ()
) -> KernelTraffic:
    """Count what each device activity moved and computed.

    Args:
        trace: the trace.
        steps: its steps; they bound what is matched where no op has shapes.
        references: other traces of the same program whose ops have shapes, to match kernels in:
            that of its first call, with the warm-up and the graph's capture.
    """
    ops, columns = _by_op(trace)
    own = with_shapes(trace, launching_ops(trace, ops.parents), ops.parents)
    stretches = stretches_without_shapes(trace, steps, columns.source)
    if stretches:
        places = [reference(ops, columns.frozen(own))]
        for other in references:
            other_ops, other_columns = _by_op(other)
            nothing = np.full(len(other.device), NONE, np.int64)
            places.append(reference(other_ops, other_columns.frozen(nothing)))
        found: Found = {}
        for rows in stretches:
            match(trace, columns, rows, references=places, found=found)
    return columns.frozen(own)


def _by_op(trace: Trace) -> tuple[Ops, Columns]:
    """Count what has an op of its own."""
    ops = Ops(trace, op_parents(trace))
    columns = Columns(len(trace.device))
    count_moves(trace, columns)
    own = with_shapes(trace, launching_ops(trace, ops.parents), ops.parents)
    # An op around a graph launch is not the one that its kernels do the work of.
    own[in_graph(trace)] = NONE
    rows = np.arange(len(trace.device), dtype=np.int64)
    count_ops(trace, columns, rows=rows, ops=own, of=ops, source=Source.SHAPES)
    return ops, columns
