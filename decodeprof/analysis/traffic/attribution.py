"""Which of an op's kernels do its bytes stand at?

At one of them. Where an op launches several (a product and the sum of its split parts, an attention
and its combination, the passes of a sort), that is the longest one that is no mere helper; the
others point to it and hold 0, since what passes between them is not in the op's shapes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import numpy as np

from decodeprof.analysis.traffic.columns import Columns, OpUse, Source
from decodeprof.analysis.traffic.counting import count, is_compiled
from decodeprof.analysis.traffic.links import attention_around
from decodeprof.analysis.traffic.operands import Work
from decodeprof.model.trace import I64, NONE, ActivityKind, OpDetail, Trace

# Kernels that finish what another kernel of the same op began.
_HELPER = re.compile(r"split_?k_?reduce|reduce_?split_?k|combine", re.IGNORECASE)
_ON_HOST = r"(pageable|pinned|host|unified|managed)"
_FROM_HOST = re.compile(rf"\(\s*{_ON_HOST}\s*->", re.IGNORECASE)
_TO_HOST = re.compile(rf"->\s*{_ON_HOST}\s*\)", re.IGNORECASE)
_NOTHING = Work(0, 0, 0)


@dataclass
class Ops:
    """The ops of one trace, and what has been counted of them."""

    trace: Trace
    parents: I64
    _work: dict[tuple[int, int, str], Work | None] = field(default_factory=dict)

    def name(self, op: int) -> str:
        """An op's name."""
        return self.trace.names[int(self.trace.ops.name[op])]

    def work(self, op: int, kernel: str) -> Work | None:
        """What an op moves, as `count` says; each distinct argument list is counted once."""
        name, detail = int(self.trace.ops.name[op]), int(self.trace.ops.detail[op])
        # Of a kernel's name only concatenations ask anything.
        key = (name, detail, kernel if self.name(op).endswith("cat") else "")
        if key not in self._work:
            found = count(self.name(op), self.trace.op_details[detail], kernel)
            self._work[key] = found
        return self._work[key]

    def use(self, op: int, around: dict[int, OpUse]) -> OpUse:
        """An op as called; `around` holds the attention ops already met in this stretch."""
        outer = attention_around(self.trace, op, self.parents)
        attention = None
        if outer != NONE:
            attention = around.get(outer)
            if attention is None:
                attention = around[outer] = OpUse(self.name(outer), self._detail(outer))
        return OpUse(self.name(op), self._detail(op), attention)

    def _detail(self, op: int) -> OpDetail:
        return self.trace.op_details[int(self.trace.ops.detail[op])]


def count_moves(trace: Trace, columns: Columns) -> None:
    """Copies and sets: what the profiler says they moved, in device memory alone."""
    device = trace.device
    for row in np.flatnonzero((device.kind != ActivityKind.KERNEL) & (device.bytes >= 0)).tolist():
        size, name = int(device.bytes[row]), trace.names[device.name[row]]
        is_set = device.kind[row] == ActivityKind.SET
        read = 0 if is_set or _FROM_HOST.search(name) else size
        written = 0 if not is_set and _TO_HOST.search(name) else size
        columns.put(row, Work(read, written, 0), at=row, source=Source.PROFILER)


def count_ops(
    trace: Trace, columns: Columns, *, rows: I64, ops: I64, of: Ops, source: Source
) -> None:
    """Count the kernels among device rows by their ops.

    Args:
        trace: the trace of the rows.
        columns: what is filled in.
        rows: rows of `trace.device`, in the order of their launches.
        ops: for each of them a row in the ops of `of`; -1: none, and the row is left alone.
        of: the ops, of the same trace or of another one.
        source: what is noted for the rows.
    """
    groups: dict[int, list[int]] = {}
    for row, op in zip(rows.tolist(), ops.tolist(), strict=True):
        if op != NONE:
            groups.setdefault(op, []).append(row)
    around: dict[int, OpUse] = {}
    kinds, names, device = trace.device.kind, trace.names, trace.device
    for op, members in groups.items():
        kernels = [row for row in members if kinds[row] == ActivityKind.KERNEL]
        main = _main(trace, kernels) if kernels else NONE
        work = of.work(op, names[device.name[main]]) if kernels else None
        columns.use[members] = columns.add_use(of.use(op, around), dtype=work.dtype if work else "")
        if work is None:
            continue
        noted = Source.COMPILED if is_compiled(of.name(op)) else source
        for row in kernels:
            columns.put(row, work if row == main else _NOTHING, at=main, source=noted)


def _main(trace: Trace, kernels: list[int]) -> int:
    """The kernel at which the bytes of an op stand."""
    if len(kernels) == 1:
        return kernels[0]
    device = trace.device
    leading = [row for row in kernels if not _HELPER.search(trace.names[device.name[row]])]
    return max(
        leading or kernels, key=lambda row: (device.end_ns[row] - device.start_ns[row], -row)
    )
