"""How long would each kernel of a step take if the step served more rows?

From the recording of a step of few rows alone. An operand whose first dimension is the number of
rows grows with it; all others (weights, above all) stay; of batched products everything grows. A
kernel then lasts as long as the slowest of what bounds it:

- what it lasted: below that lie the latencies of its launch, its blocks and its memory accesses,
  which a larger grid only hides until the device is full of blocks;
- its bytes at the bandwidth measured, and its FLOPs at the arithmetic rate measured;
- its elements, where an address has to be computed for each of them (operands that are expanded,
  permuted or looked up): that takes instructions, which bound it long before the bytes do;
- its blocks in waves, as many at a time as the device holds, where it keeps to one tile a block.

The first of them is read off the recording; the others add to the shortest kernel of the step,
which has nothing to do but to be launched.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from decodeprof.analysis.traffic.columns import KernelTraffic, OpUse
from decodeprof.analysis.traffic.counting import count
from decodeprof.analysis.traffic.operands import Arguments, UnknownSizeError, Work
from decodeprof.model.families import family
from decodeprof.model.trace import I64, NONE, ActivityKind, Bool, OpDetail, Trace

THREADS_PER_SM = 2_048
"""What an SM of every datacenter GPU since 2016 can hold; registers and shared memory may allow
less, so that waves are counted too few rather than too many."""
BLOCKS_PER_SM = 32
ELEMENTS_PER_THREAD = 4
"""Of PyTorch's elementwise kernels, at the least: a block that did less was not full."""
STRIDED_ELEMENTS_PER_SM_NS = 3.25
"""Where the device's own rate was not measured: on three H200s the ceilings came out at 428 to 429
elements per ns, on 132 SMs. It is what some 70 instructions per element make of an SM's 4 × 32
lanes at 1.8 GHz."""
SHORTEST_PERCENTILE = 1.0
"""Of the step's kernels: the one that has nothing to do."""
_BATCHED_PRODUCTS = frozenset({"aten::bmm", "aten::baddbmm"})
_STRIDED_FAMILIES = frozenset({"gather and scatter", "concatenate"})
# PyTorch's kernel for operands that are not dense; the vectorised and unrolled ones are for others.
_STRIDED_KERNEL = re.compile(r"(?<!vectorized_)(?<!unrolled_)\belementwise_kernel<")
_TILED_TO_FIT = frozenset({"matrix"})
"""Libraries choose another tile for another size, so that blocks in waves tell nothing."""

F64 = NDArray[np.float64]


@dataclass(frozen=True)
class Rates:
    """What the device does at best, each as measured."""

    bandwidth_bytes_per_s: float
    flops_per_s: float
    sm_count: int
    strided_elements_per_s: float | None = None
    """None: not measured, and taken from `STRIDED_ELEMENTS_PER_SM_NS`."""

    @property
    def strided_per_ns(self) -> float:
        """Elements that need an address each, per ns."""
        if self.strided_elements_per_s is not None:
            return self.strided_elements_per_s / 1e9
        return STRIDED_ELEMENTS_PER_SM_NS * self.sm_count


@dataclass(frozen=True)
class Growth:
    """The activities of a step, and what of them grows with the rows. Columns are row-aligned.

    What an activity moves at n rows is its `fixed_…` and n times its `row_…`.
    """

    duration_ns: I64
    rows: int
    """That the step had when it was recorded."""
    shortest_ns: int
    known: Bool
    """Whether it is known what grows; the others keep their duration."""
    fixed_bytes: F64
    row_bytes: F64
    fixed_flops: F64
    row_flops: F64
    fixed_elements: F64
    row_elements: F64
    strided: Bool
    in_waves: Bool
    blocks: F64
    block_elements: F64
    """That a full block works on."""
    threads: F64

    @property
    def unknown_share(self) -> float:
        """Of the step's device time: in kernels of which it is not known what grows."""
        whole = int(self.duration_ns.sum())
        return int(self.duration_ns[~self.known].sum()) / whole if whole else 0.0

    def at(self, rows: int, rates: Rates) -> I64:
        """Each activity's duration in a step of so many rows, in ns; never less than recorded."""
        moved = self.fixed_bytes + rows * self.row_bytes
        computed = self.fixed_flops + rows * self.row_flops
        elements = self.fixed_elements + rows * self.row_elements
        beyond = np.maximum(
            moved / rates.bandwidth_bytes_per_s * 1e9, computed / rates.flops_per_s * 1e9
        )
        strided = np.where(self.strided, elements / rates.strided_per_ns, 0.0)
        waves = np.where(self.in_waves, self._waves_ns(elements, rates), 0.0)
        grown = self.shortest_ns + np.maximum.reduce([beyond, strided, waves])
        duration = np.where(self.known, np.maximum(self.duration_ns, grown), self.duration_ns)
        return np.rint(duration).astype(np.int64)

    def _waves_ns(self, elements: F64, rates: Rates) -> F64:
        held = np.minimum(THREADS_PER_SM // np.maximum(self.threads, 1), BLOCKS_PER_SM)
        at_a_time = np.maximum(held, 1) * rates.sm_count
        blocks = np.maximum(elements / np.maximum(self.block_elements, 1), self.blocks)
        more = np.maximum(blocks / at_a_time, 1) / np.maximum(self.blocks / at_a_time, 1)
        waves: F64 = np.maximum(self.duration_ns - self.shortest_ns, 0) * more
        return waves


def growth(trace: Trace, traffic: KernelTraffic, activities: I64, *, rows: int = 1) -> Growth:
    """Find out what grows.

    Args:
        trace: the recording.
        traffic: of it.
        activities: rows of `trace.device`: those of one step.
        rows: that the step served.
    """
    device = trace.device
    duration = device.end_ns[activities] - device.start_ns[activities]
    kernels = device.kind[activities] == ActivityKind.KERNEL
    shortest = duration[kernels] if kernels.any() else duration
    found = _Kinds(trace, traffic, rows)
    grown = [found.of(int(row)) for row in activities.tolist()]
    names = [trace.names[device.name[row]] for row in activities.tolist()]
    strided = np.array([_is_strided(name) for name in names], bool)
    fits = np.array([family(name) in _TILED_TO_FIT for name in names], bool)
    threads = np.maximum(device.threads_per_block[activities], 0).astype(np.float64)
    blocks = np.maximum(device.blocks[activities], 0).astype(np.float64)
    recorded = _column(grown, "fixed_elements") + rows * _column(grown, "row_elements")
    return Growth(
        duration_ns=duration,
        rows=rows,
        shortest_ns=round(float(np.percentile(shortest, SHORTEST_PERCENTILE, method="lower")))
        if len(shortest)
        else 0,
        known=np.array([each is not None for each in grown], bool),
        fixed_bytes=_column(grown, "fixed_bytes"),
        row_bytes=_column(grown, "row_bytes"),
        fixed_flops=_column(grown, "fixed_flops"),
        row_flops=_column(grown, "row_flops"),
        fixed_elements=_column(grown, "fixed_elements"),
        row_elements=_column(grown, "row_elements"),
        strided=strided,
        in_waves=~fits & ~strided & (blocks > 0),
        blocks=blocks,
        block_elements=np.maximum(recorded / np.maximum(blocks, 1), ELEMENTS_PER_THREAD * threads),
        threads=threads,
    )


@dataclass(frozen=True)
class _Grown:
    fixed_bytes: float = 0.0
    row_bytes: float = 0.0
    fixed_flops: float = 0.0
    row_flops: float = 0.0
    fixed_elements: float = 0.0
    row_elements: float = 0.0


class _Kinds:
    """What grows, found once for each kind of op and kernel."""

    def __init__(self, trace: Trace, traffic: KernelTraffic, rows: int) -> None:
        self._trace, self._traffic, self._rows = trace, traffic, rows
        self._found: dict[tuple[int, int], _Grown | None] = {}

    def of(self, row: int) -> _Grown | None:
        """Of a row of the device table; None: not known."""
        device, traffic = self._trace.device, self._traffic
        if device.kind[row] == ActivityKind.SET:
            return _Grown()  # Counters and workspaces of libraries.
        if traffic.counted_at[row] not in (row, NONE):
            return _Grown()  # A helper: what passes between kernels is not in the op's shapes.
        use = int(traffic.use[row])
        if use == NONE:
            return None
        key = use, int(device.name[row])
        if key not in self._found:
            name = self._trace.names[device.name[row]]
            self._found[key] = _grown(traffic.uses[use], name, self._rows)
        return self._found[key]


def _grown(use: OpUse, kernel: str, rows: int) -> _Grown | None:
    """Compare the op as it was called with the same at twice the rows."""
    once = count(use.name, use.detail, kernel)
    if once is None:
        return None
    elements = _elements(use.name, use.detail, once)
    if use.name in _BATCHED_PRODUCTS:
        return _Grown(row_bytes=_bytes(once) / rows, row_flops=once.flops / rows)
    doubled = with_rows(use.detail, rows=rows, wanted=2 * rows)
    twice = count(use.name, doubled, kernel)
    if twice is None:
        return None
    row_bytes = (_bytes(twice) - _bytes(once)) / rows
    row_flops = (twice.flops - once.flops) / rows
    row_elements = (_elements(use.name, doubled, twice) - elements) / rows
    return _Grown(
        fixed_bytes=_bytes(once) - rows * row_bytes,
        row_bytes=row_bytes,
        fixed_flops=once.flops - rows * row_flops,
        row_flops=row_flops,
        fixed_elements=elements - rows * row_elements,
        row_elements=row_elements,
    )


def with_rows(detail: OpDetail, *, rows: int, wanted: int) -> OpDetail:
    """An op's arguments at another number of rows: of tensors whose first dimension it is."""

    def grown(shape: tuple[int, ...] | None) -> tuple[int, ...] | None:
        return (wanted, *shape[1:]) if shape and shape[0] == rows else shape

    return dataclasses.replace(
        detail,
        shapes=tuple(grown(shape) for shape in detail.shapes),
        # What a dimension of one element steps by is arbitrary, and would now count.
        strides=tuple(
            _dense_first(stride, shape) if shape and shape[0] == rows == 1 else stride
            for stride, shape in zip(detail.strides, detail.shapes, strict=False)
        ),
        lists=tuple(tuple(grown(shape) or shape for shape in each) for each in detail.lists),
    )


def _dense_first(strides: tuple[int, ...] | None, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    if not strides or len(strides) != len(shape):
        return strides
    rest = 1 + sum(
        (size - 1) * abs(step) for size, step in zip(shape[1:], strides[1:], strict=True)
    )
    return (rest, *strides[1:])


def _is_strided(kernel: str) -> bool:
    return bool(_STRIDED_KERNEL.search(kernel)) or family(kernel) in _STRIDED_FAMILIES


def _bytes(work: Work) -> int:
    return work.read_bytes + work.written_bytes


def _elements(name: str, detail: OpDetail, work: Work) -> int:
    """Elements that the op works on: of its largest operand, or of what a look-up moves."""
    arguments = Arguments(detail)
    tensors = [found for at in range(len(arguments)) if (found := arguments.maybe(at)) is not None]
    if any(part in name for part in ("scatter", "index", "embedding", "gather")) and tensors:
        try:
            return work.written_bytes // tensors[0].item_bytes
        except UnknownSizeError:
            return 0
    listed = [sum(math.prod(shape) for shape in each) for each in detail.lists]
    return max([*(tensor.elements for tensor in tensors), *listed], default=0)


def _column(grown: Sequence[_Grown | None], name: str) -> F64:
    return np.array([0.0 if each is None else getattr(each, name) for each in grown], np.float64)
