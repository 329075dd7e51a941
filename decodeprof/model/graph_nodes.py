"""What does a kernel, memset or copy take as a node of a graph, beside what a profile says of it?

A prediction adds this to the durations of an ordinary profile, so it holds two things: the gap
between two nodes, and what the profiler itself adds to a duration. Measured on an H200:

- the gap before a kernel of one block or a few is some 0.41 µs. Kernels of many blocks hide most
  of theirs behind the previous one's last blocks; 0.13 µs remain. Between, it falls with the
  logarithm of the blocks. A matrix or attention kernel, whose blocks have a multiprocessor each,
  hides nothing.
- a memset or copy is run by another unit, for which the device stops: a memset costs 1 µs. That
  is before a sum. Behind a memset, recorded graphs show an attention kernel starting 4.8 µs later,
  which no cost here tells: 28 of them in a step came out 72 µs short.
- a profiler makes each block of a kernel last 40 ps longer on the whole device. That is 3 % of a
  copy of 131,072 blocks, which takes its time for addresses; kernels that wait for memory hide it.
- a graph has 5 µs of its own before its first node, whatever it holds.
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
WHOLE_GAP_FAMILIES = ("matrix", "attention")


@dataclass(frozen=True)
class NodeCosts:
    """What each activity of a graph costs beside the duration that a profile shows, in ns."""

    few_ns: float
    """A kernel of up to `FEW_BLOCKS`, or one of `WHOLE_GAP_FAMILIES`."""
    many_ns: float
    """Another kernel of `MANY_BLOCKS` and more."""
    set_ns: float
    """A memset: the gaps on both sides of it."""
    copy_ns: float
    """A copy within the device, likewise."""
    block_ns: float
    """What the profiler adds to a kernel for each of its blocks; a node lasts so much less."""
    start_ns: float = 0.0
    """A graph, once."""


def whole_gap(names: Sequence[str]) -> Bool:
    """Whether kernels of these names hide nothing of their gap."""
    return np.array([family(name) in WHOLE_GAP_FAMILIES for name in names], bool)


Mixture = NDArray[np.float64]
"""Of activities, a row each, or their sum: how much of each field of `NodeCosts` they have, but for
the graph's own."""


def mixture(*, kind: I8, blocks: I64, whole: Bool, hidden: Bool | None = None) -> Mixture:
    """What activities have of the fields of `NodeCosts`, a row each.

    Args:
        kind: an `ActivityKind` each.
        blocks: thread blocks; below 1: not known, which counts as few.
        whole: from `whole_gap`.
        hidden: kernels that wait for memory longer than the profiler needs for their blocks.
    """
    kernel = kind == ActivityKind.KERNEL
    many = np.interp(np.log2(np.maximum(blocks, 1)), np.log2([FEW_BLOCKS, MANY_BLOCKS]), [0.0, 1.0])
    many = np.where(kernel & ~whole, many, 0.0)
    other = (kind == ActivityKind.SET) | (kind == ActivityKind.COPY)
    counted = kernel & (blocks > 0) & ~(np.zeros(len(kind), bool) if hidden is None else hidden)
    return np.column_stack(
        (
            np.where(other, 0.0, 1.0 - many),
            many,
            kind == ActivityKind.SET,
            kind == ActivityKind.COPY,
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
    rest = np.array(beside_ns, np.float64)
    nodes = sum(float(each[:-1].sum()) for each in mixtures)
    if not nodes:
        return None
    rows = np.column_stack((np.array(mixtures, np.float64), np.ones(len(mixtures))))
    found, _, rank, _ = np.linalg.lstsq(rows, rest)
    if rank < rows.shape[1]:
        gap = rest.sum() / nodes
        found = np.array([gap, gap, gap, gap, 0.0, 0.0])
    # Large kernels may hide more than their gap; no other cost is below nothing.
    least = np.array([0.0, -np.inf, 0.0, 0.0, 0.0, 0.0])
    return NodeCosts(*np.maximum(found, least).tolist())


def costs_ns(costs: NodeCosts, mixed: Mixture) -> NDArray[np.float64]:
    """What each activity costs beside its duration, in ns, but for the graph's own start."""
    found: NDArray[np.float64] = mixed @ np.array(astuple(costs)[:-1])
    return found
