"""Which op, and which Python frames, enclose an API call? By time, on the call's own thread."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from decodeprof.model.trace import I64, NONE, FrameTable, OpTable, Trace

# Deepest nesting that is searched: a stack of this many ops or frames ends any real one.
DEEPEST = 512


@dataclass(frozen=True)
class Nesting:
    """For each row of `Trace.calls`, rows of `Trace.ops` and `Trace.frames`; -1: none."""

    innermost_op: I64
    outermost_op: I64
    innermost_frame: I64
    frame_parent: I64
    """For each row of `Trace.frames`, its parent's row."""

    def op_name(self, trace: Trace, call: int) -> str | None:
        """The name of the op that the user called: the outermost ``aten::`` op around the call."""
        row = int(self.outermost_op[call])
        return trace.names[trace.ops.name[row]] if row != NONE else None

    def frames(self, trace: Trace, call: int) -> list[str]:
        """Names of the frames around a call, innermost first."""
        row = int(self.innermost_frame[call])
        names: list[str] = []
        while row != NONE and len(names) < DEEPEST:
            names.append(trace.names[trace.frames.name[row]])
            row = int(self.frame_parent[row])
        return names


def nest(trace: Trace) -> Nesting:
    """Find what encloses each API call."""
    op_parent = parents(trace.ops)
    frame_parent = parents(trace.frames)
    innermost = _enclosing(trace, trace.ops, op_parent)
    is_aten = np.array([name.startswith("aten::") for name in trace.names] or [False])
    outermost = np.full(len(trace.calls), NONE, np.int64)
    for call, row in enumerate(innermost.tolist()):
        best = current = row
        while current != NONE:
            if is_aten[trace.ops.name[current]]:
                best = current
            current = int(op_parent[current])
        outermost[call] = best
    return Nesting(
        innermost_op=innermost,
        outermost_op=outermost,
        innermost_frame=_enclosing(trace, trace.frames, frame_parent),
        frame_parent=frame_parent,
    )


def parents(table: OpTable | FrameTable) -> I64:
    """Each row's parent: the smallest row of its thread that contains it; -1 at the top."""
    parent = np.full(len(table), NONE, np.int64)
    ends = table.end_ns.tolist()
    starts = table.start_ns.tolist()
    stacks: dict[int, list[int]] = {}
    result = parent.tolist()
    for row, thread in enumerate(table.thread.tolist()):
        stack = stacks.setdefault(thread, [])
        while stack and ends[stack[-1]] <= starts[row]:
            stack.pop()
        # A row that outlives its would-be parent is no child of it (a C frame's end is unsound).
        while stack and ends[stack[-1]] < ends[row]:
            stack.pop()
        if stack:
            result[row] = stack[-1]
        stack.append(row)
    return np.array(result, np.int64) if result else parent


def _enclosing(trace: Trace, table: OpTable | FrameTable, parent: I64) -> I64:
    """For each API call the innermost row that holds its start, on its thread."""
    found = np.full(len(trace.calls), NONE, np.int64)
    for thread in np.unique(trace.calls.thread).tolist():
        rows = np.flatnonzero(table.thread == thread)
        calls = np.flatnonzero(trace.calls.thread == thread)
        if not len(rows):
            continue
        at = np.searchsorted(table.start_ns[rows], trace.calls.start_ns[calls], side="right") - 1
        candidate = np.where(at >= 0, rows[np.maximum(at, 0)], NONE)
        for call, row in zip(calls.tolist(), candidate.tolist(), strict=True):
            time = int(trace.calls.start_ns[call])
            while row != NONE and int(table.end_ns[row]) <= time:
                row = int(parent[row])
            found[call] = row
    return found
