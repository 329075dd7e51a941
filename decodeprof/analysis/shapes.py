"""Do shapes grow from one decode step to the next, and what does attention read of the cache?"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from decodeprof.analysis.steps.found import Steps
from decodeprof.analysis.traffic.columns import KernelTraffic, OpUse
from decodeprof.analysis.traffic.operands import UnknownSizeError
from decodeprof.analysis.traffic.products import attention_sizes
from decodeprof.model.trace import I64, NONE

# Two steps show a difference; three show that it repeats.
FEWEST_STEPS = 3
_LOOK_UP = "aten::embedding"

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Growth:
    """One op that is called with a longer tensor in each step."""

    op: str
    count: int
    """Calls of it in a step whose shapes grow."""
    first: Shape
    """A growing tensor's shape in the first step compared, of the first such call."""
    last: Shape
    per_step: int
    bytes_per_step: int | None
    """What these calls' kernels move in the last step; None: not known."""


@dataclass(frozen=True)
class Lengths:
    """What attention was called with in one step."""

    step: int
    queries: int
    keys: int
    layers: int
    """Attention ops of the step."""
    bytes_per_key: int
    """Keys and values of all layers, for one position of every sequence."""


def step_uses(traffic: KernelTraffic, steps: Steps, step: int) -> list[OpUse]:
    """The ops of a step whose arguments are known, each once, in the order of their kernels."""
    return [traffic.uses[i] for i in _use_indices(traffic, steps, step)]


def compared_steps(steps: Steps) -> I64:
    """The longest run of decode steps that follow each other and were measured."""
    rows = steps.rows("decode")
    rows = rows[steps.measured[rows]]
    runs = np.split(rows, np.flatnonzero(np.diff(rows) != 1) + 1)
    return max(runs, key=len)


def growing(traffic: KernelTraffic, steps: Steps) -> list[Growth] | None:
    """Ops whose shapes grow by the same length in each of the compared steps.

    Returns:
        The most frequent first; None where fewer than three steps can be compared, as no shapes
        are known or no two steps call the same ops.
    """
    by_ops: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for step in compared_steps(steps).tolist():
        names = tuple(use.name for use in step_uses(traffic, steps, step))
        if names:
            by_ops[names].append(step)
    rows = max(by_ops.values(), key=len, default=[])
    if len(rows) < FEWEST_STEPS:
        return None
    indices = [_use_indices(traffic, steps, step) for step in rows]
    found: dict[str, list[tuple[int, Shape, Shape, int]]] = defaultdict(list)
    for uses in zip(*indices, strict=True):
        grown = _grown([traffic.uses[i] for i in uses], rows)
        if grown is not None:
            found[traffic.uses[uses[0]].name].append((uses[-1], *grown))
    growths = [
        Growth(
            op=op,
            count=len(calls),
            first=calls[0][1],
            last=calls[0][2],
            per_step=calls[0][3],
            bytes_per_step=_bytes(traffic, [call[0] for call in calls]),
        )
        for op, calls in found.items()
    ]
    return sorted(growths, key=lambda g: (-g.count, g.op))


def attention_lengths(traffic: KernelTraffic, steps: Steps, step: int) -> Lengths | None:
    """Queries and keys of a step's first attention; None: no attention op with shapes."""
    ops = {id(u.attention): u.attention for u in step_uses(traffic, steps, step) if u.attention}
    sizes = []
    for use in ops.values():
        try:
            sizes.append(attention_sizes(use.name, use.detail))
        except UnknownSizeError:
            continue
    sizes = [s for s in sizes if not s.packed]
    if not sizes:
        return None
    return Lengths(
        step=step,
        queries=sizes[0].queries,
        keys=sizes[0].keys,
        layers=len(sizes),
        bytes_per_key=sum(
            s.batch * s.heads * (s.width + s.value_width) * s.item_bytes for s in sizes
        ),
    )


def query_lengths(traffic: KernelTraffic, steps: Steps) -> dict[int, int]:
    """Tokens of one sequence that each compared step processed, where that is known."""
    found: dict[int, int] = {}
    for step in compared_steps(steps).tolist():
        known = steps.query_lengths[step]
        lengths = attention_lengths(traffic, steps, step) if known is None else None
        if lengths is not None:
            known = lengths.queries
        if known is None:
            known = _looked_up(step_uses(traffic, steps, step))
        if known is not None:
            found[step] = known
    return found


def _looked_up(uses: list[OpUse]) -> int | None:
    for use in uses:
        shapes = use.detail.shapes
        if use.name == _LOOK_UP and len(shapes) > 1 and shapes[1]:
            return shapes[1][-1]
    return None


def _use_indices(traffic: KernelTraffic, steps: Steps, step: int) -> list[int]:
    used = traffic.use[steps.activities(step)]
    return list(dict.fromkeys(used[used != NONE].tolist()))


def _tensors(use: OpUse) -> list[Shape]:
    detail = use.detail
    plain = [shape for shape in detail.shapes if shape is not None]
    return [*plain, *(shape for shapes in detail.lists for shape in shapes)]


def _grown(uses: list[OpUse], rows: list[int]) -> tuple[Shape, Shape, int] | None:
    """A tensor of one op that has one dimension which grows evenly from step to step."""
    for shapes in zip(*(_tensors(use) for use in uses), strict=False):
        if len({len(shape) for shape in shapes}) != 1:
            continue
        for sizes in zip(*shapes, strict=True):
            rates = {
                (after - before) / (b - a)
                for (before, after), (a, b) in zip(pairwise(sizes), pairwise(rows), strict=True)
            }
            if len(rates) == 1 and (rate := rates.pop()) > 0:
                return shapes[0], shapes[-1], round(rate)
    return None


def _bytes(traffic: KernelTraffic, uses: list[int]) -> int | None:
    rows = np.isin(traffic.use, uses)
    known = traffic.known[rows]
    return int(traffic.bytes[rows].sum()) if known.all() else None
