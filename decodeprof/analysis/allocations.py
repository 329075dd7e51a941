"""Does the loop allocate or free device memory, in how many steps, and for how long?"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from decodeprof.analysis.nesting import Nesting
from decodeprof.analysis.steps.found import Steps
from decodeprof.model.calls import CallKind
from decodeprof.model.trace import I64, Trace


@dataclass(frozen=True)
class Allocations:
    """Calls that allocate or free device or pinned memory in the decode steps."""

    steps: int
    """Decode steps looked at: all that were recorded, steady or not."""
    steps_with: int
    steady_with: int
    calls: dict[str, int]
    """By API, over all decode steps."""
    call_ns: int
    ops: tuple[str, ...]
    """Ops that made them, the most frequent first."""
    rows: I64
    """Rows of `Trace.calls`."""


def allocations(trace: Trace, steps: Steps, nesting: Nesting) -> Allocations:
    """Count the allocating and freeing calls of all decode steps."""
    decode = steps.rows("decode")
    kinds = (int(CallKind.ALLOCATE), int(CallKind.FREE))
    rows = np.flatnonzero(np.isin(trace.calls.kind, kinds) & np.isin(steps.call_step, decode))
    holding = np.unique(steps.call_step[rows])
    ops = Counter(name for row in rows.tolist() if (name := nesting.op_name(trace, row)))
    return Allocations(
        steps=len(decode),
        steps_with=len(holding),
        steady_with=int(steps.steady[holding].sum()),
        calls=dict(Counter(trace.names[n] for n in trace.calls.name[rows].tolist()).most_common()),
        call_ns=int((trace.calls.end_ns[rows] - trace.calls.start_ns[rows]).sum()),
        ops=tuple(name for name, _ in ops.most_common()),
        rows=rows.astype(np.int64),
    )
