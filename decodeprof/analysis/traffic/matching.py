"""Where else did the same kernels run, in the same order, launched by ops with shapes?

The kernels of a graph replay have no op. The capture that recorded the graph launched the same
kernels, in order, from ops; so did the warm-up before it. A stretch is matched whole or not at all,
and where several places match, only what all of them agree on is known.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from decodeprof.analysis.grouping import rows_by_value
from decodeprof.analysis.steps.found import Steps
from decodeprof.analysis.traffic.attribution import Ops, count_ops
from decodeprof.analysis.traffic.columns import Columns, KernelTraffic, OpUse, Source
from decodeprof.analysis.traffic.links import ops_at, with_shapes
from decodeprof.analysis.traffic.operands import Work
from decodeprof.model.calls import CallKind
from decodeprof.model.trace import I8, I32, I64, NONE, ActivityKind, Bool, Trace

_BEGIN, _END = "StreamBeginCapture", "StreamEndCapture"
# More places than these add time, and nothing to what they agree on.
_MOST_PLACES = 8
# A graph may run a copy or a set of little memory as a kernel of its own (memcpy32_post).
_MOVING_KERNEL = re.compile(r"mem(cpy|set)\d")
_MOVE = "a copy or a set"
# Fewer activities than these match by chance.
_SHORTEST = 4
_KIND_OF_CALL = {
    int(CallKind.LAUNCH): int(ActivityKind.KERNEL),
    int(CallKind.COPY): int(ActivityKind.COPY),
    int(CallKind.BLOCKING_COPY): int(ActivityKind.COPY),
    int(CallKind.SET): int(ActivityKind.SET),
}


@dataclass(frozen=True)
class Reference:
    """A trace to match in, and what is known of its kernels."""

    ops: Ops
    traffic: KernelTraffic
    eager: I64
    """Rows of its kernels, copies and sets that no graph launched, in order."""
    captures: tuple[I64, ...]
    """The launch calls of each graph capture."""

    @property
    def trace(self) -> Trace:
        """The trace."""
        return self.ops.trace


def in_graph(trace: Trace) -> Bool:
    """Which rows of `trace.device` a graph launch put there."""
    call = trace.device.call
    kinds = np.r_[trace.calls.kind, [np.int8(CallKind.OTHER)]]
    # Row -1 (no call known) reads the element appended above.
    return np.asarray((kinds[call] == CallKind.GRAPH_LAUNCH) | (trace.device.graph_node > 0))


def reference(ops: Ops, traffic: KernelTraffic) -> Reference:
    """Make a trace one to match in."""
    return Reference(
        ops=ops,
        traffic=traffic,
        eager=np.flatnonzero(~in_graph(ops.trace)).astype(np.int64),
        captures=tuple(capture_launches(ops.trace)),
    )


def stretches_without_shapes(trace: Trace, steps: Steps | None, source: I8) -> list[I64]:
    """Stretches to match: each graph launch; and each step, where the trace has no shapes.

    Args:
        trace: the trace.
        steps: its steps.
        source: for each row of `trace.device` a `Source`.

    Returns:
        Rows in launch order; only stretches that hold a kernel of unknown bytes.
    """
    graphed = in_graph(trace)
    rows = np.flatnonzero(graphed & (trace.device.call != NONE))
    found = [
        _in_node_order(trace, rows[places])
        for places in rows_by_value(trace.device.call[rows]).values()
    ]
    if "shapes" not in trace.captured and steps is not None:
        plain = np.where(graphed, NONE, steps.activity_step)
        by_step = rows_by_value(plain)
        found += [by_step[step] for step in range(steps.count) if step in by_step]
    return [
        stretch.astype(np.int64)
        for stretch in found
        if len(stretch) >= _SHORTEST and (source[stretch] == Source.UNKNOWN).any()
    ]


def _in_node_order(trace: Trace, rows: I64) -> I64:
    nodes = trace.device.graph_node[rows]
    return rows[np.argsort(nodes, kind="stable")] if (nodes > 0).all() else rows


Found = dict[bytes, list[Columns]]
"""What was found for a sequence of names: every step's replay has the same one."""


def match(
    trace: Trace, columns: Columns, rows: I64, *, references: Sequence[Reference], found: Found
) -> None:
    """Fill in what one stretch moved, if it is found elsewhere.

    Captures come first: their launches are the graph's own. Without one, the same sequence of
    kernel names among eager kernels is looked for.

    Args:
        trace: the trace.
        columns: what is filled in.
        rows: rows of `trace.device` in launch order.
        references: where to look.
        found: what earlier stretches found; added to.
    """
    names = trace.device.name[rows].tobytes()
    if names not in found:
        found[names] = _captures(trace, rows, references) or _eager(trace, rows, references)
    places = found[names]
    if not places:
        return
    first = places[0]
    agreed = np.ones(len(rows), np.bool_)
    for other in places[1:]:
        agreed &= first.read == other.read
        agreed &= (first.written == other.written) & (first.flops == other.flops)
    offset = len(columns.uses)
    columns.uses += _renewed(first.uses)
    columns.dtypes += first.dtypes
    for i, row in enumerate(rows.tolist()):
        if first.use[i] != NONE:
            columns.use[row] = offset + first.use[i]
        at = int(first.counted_at[i])
        moved = trace.device.kind[row] != ActivityKind.KERNEL
        if moved or at == NONE or not (agreed[i] and agreed[at]):
            continue
        work = Work(int(first.read[i]), int(first.written[i]), int(first.flops[i]))
        columns.put(row, work, at=int(rows[at]), source=Source.MATCHED)


def _renewed(uses: list[OpUse]) -> list[OpUse]:
    """The same uses with attention ops of their own: two replays of one attention are two."""
    around: dict[int, OpUse] = {}
    return [
        use
        if use.attention is None
        else replace(use, attention=around.setdefault(id(use.attention), replace(use.attention)))
        for use in uses
    ]


def _moves(trace: Trace, rows: I64) -> Bool:
    """Which rows copy or set memory, be it as a kernel."""
    named = np.array([_MOVING_KERNEL.match(name) is not None for name in trace.names], np.bool_)
    device = trace.device
    return np.asarray((device.kind[rows] != ActivityKind.KERNEL) | named[device.name[rows]])


def _captures(trace: Trace, rows: I64, references: Sequence[Reference]) -> list[Columns]:
    """The stretch as counted by each capture with as many launches of the same kinds."""
    moves = _moves(trace, rows)
    stretch = replace(trace, device=trace.device.take(rows))
    found = []
    for place in references:
        for calls in place.captures:
            if len(calls) != len(rows):
                continue
            launched = [_KIND_OF_CALL[int(kind)] for kind in place.trace.calls.kind[calls]]
            if not np.array_equal(np.array(launched) != ActivityKind.KERNEL, moves):
                continue
            parents = place.ops.parents
            ops = with_shapes(place.trace, ops_at(place.trace, calls, parents), parents)
            columns = Columns(len(rows))
            everything = np.arange(len(rows), dtype=np.int64)
            count_ops(
                stretch, columns, rows=everything, ops=ops, of=place.ops, source=Source.MATCHED
            )
            found.append(columns)
    return found[:_MOST_PLACES]


def capture_launches(trace: Trace) -> list[I64]:
    """The launch calls of each graph capture: nothing of theirs ran on the device then."""
    names = [trace.names[i] for i in trace.calls.name]
    begins = [i for i, name in enumerate(names) if _BEGIN in name]
    ends = [i for i, name in enumerate(names) if _END in name]
    calls = trace.calls
    launching = np.isin(calls.kind, list(_KIND_OF_CALL))
    launching[trace.device.call[trace.device.call != NONE]] = False
    found = []
    for begin in begins:
        later = [end for end in ends if calls.start_ns[end] >= calls.end_ns[begin]]
        if later:
            inside = (calls.start_ns >= calls.end_ns[begin]) & (
                calls.start_ns < calls.start_ns[later[0]]
            )
            found.append(np.flatnonzero(launching & inside).astype(np.int64))
    return found


def _eager(trace: Trace, rows: I64, references: Sequence[Reference]) -> list[Columns]:
    """The stretch as counted in each eager stretch with the same sequence of names.

    Copies and sets go by one name: what they are called depends on who launched them.
    """
    wanted = _labels(trace, rows)
    found: list[Columns] = []
    for place in references:
        labels = _labels(place.trace, place.eager)
        numbers = {name: i for i, name in enumerate(dict.fromkeys(labels))}
        target = np.array([numbers.get(name, NONE) for name in wanted], np.int32)
        sequence = np.array([numbers[name] for name in labels], np.int32)
        own = set(rows.tolist()) if place.trace is trace else set()
        for at in _places(sequence, target):
            chosen = place.eager[at : at + len(rows)]
            if own.isdisjoint(chosen.tolist()):
                found.append(_copied(place.traffic, chosen))
            if len(found) == _MOST_PLACES:
                return found
    return found


def _labels(trace: Trace, rows: I64) -> list[str]:
    moves = _moves(trace, rows).tolist()
    names = trace.device.name[rows].tolist()
    return [
        _MOVE if is_move else trace.names[name] for name, is_move in zip(names, moves, strict=True)
    ]


def _places(sequence: I32, target: I32) -> list[int]:
    """Where a sequence of names occurs in another one."""
    if (target == NONE).any() or len(target) > len(sequence):
        return []
    text, pattern = sequence.tobytes(), target.tobytes()
    width = sequence.itemsize
    found = []
    at = text.find(pattern)
    while at >= 0:
        # Bytes may match across the border of two numbers.
        if at % width == 0:
            found.append(at // width)
        at = text.find(pattern, at + 1)
    return found


def _copied(traffic: KernelTraffic, rows: I64) -> Columns:
    """What is known of some rows, as a table of its own."""
    columns = Columns(len(rows))
    columns.read, columns.written = traffic.read_bytes[rows], traffic.written_bytes[rows]
    columns.flops, columns.source = traffic.flops[rows], traffic.source[rows]
    place = {int(row): i for i, row in enumerate(rows)}
    columns.counted_at = np.array(
        [place.get(int(at), NONE) for at in traffic.counted_at[rows]], np.int64
    )
    index: dict[int, int] = {}
    for i, use in enumerate(traffic.use[rows].tolist()):
        if use == NONE:
            continue
        if use not in index:
            index[use] = columns.add_use(traffic.uses[use], dtype=traffic.dtypes[use])
        columns.use[i] = index[use]
    return columns
