"""Which chains of kernels does the fusion what-if merge, told by the ops that launched them?"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from decodeprof.analysis.replay.fusion import chains
from decodeprof.analysis.replay.program import Program
from decodeprof.model.families import family
from decodeprof.model.trace import I8, I64, NONE, Trace


@dataclass(frozen=True)
class Chain:
    """Kernels that follow each other and could be one, wherever the same ops stand in a row."""

    parts: tuple[str, ...]
    """Op names without ``aten::``; the kernel's family where no op is known."""
    count: float
    """Such chains per step."""
    time_ns: int
    """Time of their kernels per step, a sum of durations."""


def fusable_chains(trace: Trace, program: Program, role: I8, ops: I64) -> list[Chain]:
    """The chains of two kernels or more, those with the most kernels first.

    Args:
        trace: the trace.
        program: a program of it.
        role: from `fusion.roles`.
        ops: for each row of `trace.device` the row of its op; -1: none is known.
    """
    number = chains(program, role)
    if not len(number):
        return []
    begins = np.flatnonzero(np.diff(number, prepend=-1)).tolist()
    counts: Counter[tuple[str, ...]] = Counter()
    times: Counter[tuple[str, ...]] = Counter()
    for begin, end in zip(begins, [*begins[1:], len(number)], strict=True):
        if end - begin > 1:
            parts = tuple(_part(trace, int(row), ops) for row in program.activity[begin:end])
            counts[parts] += 1
            times[parts] += int(program.duration_ns[begin:end].sum())
    steps = max(program.steps, 1)
    found = [
        Chain(parts=parts, count=n / steps, time_ns=round(times[parts] / steps))
        for parts, n in counts.items()
    ]
    return sorted(found, key=lambda c: (-c.count * len(c.parts), c.parts))


def _part(trace: Trace, row: int, ops: I64) -> str:
    if row == NONE:
        return "other"
    op = int(ops[row])
    if op != NONE:
        name: str = trace.names[trace.ops.name[op]]
        return name.removeprefix("aten::")
    return family(trace.names[trace.device.name[row]])
