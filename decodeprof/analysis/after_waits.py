"""What did the host do between a wait's end and the next launch, while the device had nothing?"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

import numpy as np

from decodeprof.analysis.host import host_time
from decodeprof.model.calls import LAUNCHING
from decodeprof.model.trace import I64, FrameTable, OpTable, Trace

# Names beyond these say little: the first few take nearly all of the time.
MOST_NAMES = 4
_PLUMBING = re.compile(r"^<|^torch/|/torch/")


@dataclass(frozen=True)
class WorkAfter:
    """Totals in ns over the waits asked for."""

    python_ns: int
    dispatch_ns: int
    launch_ns: int
    """Inside the CUDA API, in calls that launch nothing."""
    ops: tuple[str, ...]
    """Ops that began and ended in it, the longest together first."""
    frames: tuple[str, ...]
    """Python functions, ``file.py(12): function``, where stacks were recorded."""

    @property
    def total_ns(self) -> int:
        """All of it."""
        return self.python_ns + self.dispatch_ns + self.launch_ns


def work_after(trace: Trace, calls: I64) -> WorkAfter:
    """Sum up host work from the end of each wait to the next launch of its thread.

    Args:
        trace: the trace.
        calls: rows of `Trace.calls`, the waits of one site; they are of one thread.
    """
    if not len(calls):
        return WorkAfter(0, 0, 0, (), ())
    table = trace.calls
    thread = int(table.thread[calls[0]])
    mine = np.isin(table.kind, [int(kind) for kind in LAUNCHING]) & (table.thread == thread)
    launches = table.start_ns[mine]
    starts = table.end_ns[calls]
    at = np.searchsorted(launches, starts, side="left")
    followed = at < len(launches)
    starts, ends = starts[followed], launches[at[followed]]
    parts = {k: int(v.sum()) for k, v in host_time(trace, thread).split(starts, ends).items()}
    return WorkAfter(
        python_ns=parts["python"],
        dispatch_ns=parts["dispatch"],
        launch_ns=parts["launch"],
        ops=_names(trace, trace.ops, thread=thread, starts=starts, ends=ends),
        frames=tuple(
            name
            for name in _names(trace, trace.frames, thread=thread, starts=starts, ends=ends)
            if not _PLUMBING.search(name)
        ),
    )


def _names(
    trace: Trace, table: OpTable | FrameTable, *, thread: int, starts: I64, ends: I64
) -> tuple[str, ...]:
    """Names of the rows that lie in the stretches, the longest together first."""
    if not len(starts):
        return ()
    stretch = np.searchsorted(starts, table.start_ns, side="right") - 1
    inside = (
        (table.thread == thread) & (stretch >= 0) & (table.end_ns <= ends[np.maximum(stretch, 0)])
    )
    spent: Counter[int] = Counter()
    for row in np.flatnonzero(inside).tolist():
        spent[int(table.name[row])] += int(table.end_ns[row] - table.start_ns[row])
    order = sorted(spent, key=lambda name: (-spent[name], trace.names[name]))
    return tuple(trace.names[name] for name in order[:MOST_NAMES])
