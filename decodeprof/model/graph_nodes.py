"""What does a kernel, memset or copy take as a node of a graph, beside what a profile says of it?

A prediction adds this to the durations of an ordinary profile, so it holds two things: the gap
between two nodes, and what the profiler itself adds to a duration. Measured on an H200:

- the gap before a kernel of one block or a few is some 0.35 µs. Kernels of many blocks hide most
  of theirs behind the previous one's last blocks; 0.1 µs remain. Between, it falls with the
  logarithm of the blocks.
- a matrix or attention kernel has 0.6 µs: it takes the shared memory that others use as cache.
- a memset or copy is run by another unit, for which the device stops: a memset costs 1 to 4 µs.
- a profiler makes each block of a kernel last 38 ps longer on the whole device. That is 3 % of a
  copy of 131,072 blocks, which takes its time for addresses; kernels that wait for memory hide it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass

import numpy as np
from numpy.typing import NDArray

from decodeprof.model.families import family
from decodeprof.model.trace import I8, I64, ActivityKind, Bool

FEW_BLOCKS, MANY_BLOCKS = 16, 512
"""Up to the first a kernel has the whole gap, from the second on that of large ones."""
MATRIX_FAMILIES = ("matrix", "attention")


@dataclass(frozen=True)
class NodeCosts:
    """What each activity of a graph costs beside the duration that a profile shows, in ns."""

    few_ns: float
    """A kernel of up to `FEW_BLOCKS`."""
    many_ns: float
    """A kernel of `MANY_BLOCKS` and more."""
    matrix_ns: float | None
    """A kernel of `MATRIX_FAMILIES`, whatever its blocks; None: as others of as many blocks."""
    set_ns: float
    """A memset: the gaps on both sides of it."""
    copy_ns: float
    """A copy within the device, likewise."""
    block_ns: float
    """What the profiler adds to a kernel for each of its blocks; a node lasts so much less."""


def is_matrix(names: Sequence[str]) -> Bool:
    """Whether kernels of these names multiply matrices."""
    return np.array([family(name) in MATRIX_FAMILIES for name in names], bool)


Mixture = NDArray[np.float64]
"""Of activities, a row each, or their sum: how much of each field of `NodeCosts` they have."""


def mixture(*, kind: I8, blocks: I64, matrix: Bool, hidden: Bool | None = None) -> Mixture:
    """How much of each field of `NodeCosts` every activity has, a row each.

    Args:
        kind: an `ActivityKind` each.
        blocks: thread blocks; below 1: not known, which counts as few.
        matrix: from `is_matrix`.
        hidden: kernels that wait for memory longer than the profiler needs for their blocks.
    """
    kernel = kind == ActivityKind.KERNEL
    known = np.maximum(blocks, 1)
    many = np.interp(np.log2(known), np.log2([FEW_BLOCKS, MANY_BLOCKS]), [0.0, 1.0])
    set_, copy = kind == ActivityKind.SET, kind == ActivityKind.COPY
    plain = ~(set_ | copy | (kernel & matrix))
    counted = kernel & (blocks > 0)
    if hidden is not None:
        counted &= ~hidden
    return np.column_stack(
        (
            plain * (1 - many),
            plain * many,
            kernel & matrix,
            set_,
            copy,
            np.where(counted, -blocks, 0),
        )
    ).astype(np.float64)


def fitted(mixtures: Sequence[Mixture], beside_ns: Sequence[float]) -> NodeCosts | None:
    """The costs that explain what graphs took beside their activities' own durations.

    Args:
        mixtures: of each graph, the sum of its activities' rows.
        beside_ns: of each graph, its time less the durations of its activities.

    Returns:
        None without any node. Where the graphs cannot tell the fields apart, one gap for all.
    """
    rows, rest = np.array(mixtures, np.float64), np.array(beside_ns, np.float64)
    nodes = rows[:, :-1].sum() if len(rows) else 0
    if not nodes:
        return None
    found, _, rank, _ = np.linalg.lstsq(rows, rest)
    if rank < rows.shape[1]:
        found = np.append(np.full(rows.shape[1] - 1, rest.sum() / nodes), 0.0)
    return NodeCosts(*np.maximum(found, 0.0).tolist())


def costs_ns(costs: NodeCosts, mixed: Mixture) -> NDArray[np.float64]:
    """What each activity costs beside its duration, in ns."""
    found: NDArray[np.float64] = mixed @ np.array([each or 0.0 for each in astuple(costs)])
    return found
