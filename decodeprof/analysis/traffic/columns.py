"""What is known of each device activity's traffic, row by row?"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

import numpy as np

from decodeprof.analysis.traffic.operands import Work
from decodeprof.model.trace import I8, I32, I64, NONE, Bool, OpDetail


class Source(enum.IntEnum):
    """How a row's bytes are known."""

    UNKNOWN = 0
    SHAPES = 1
    """The shapes of the op that launched it."""
    PROFILER = 2
    """A copy or a set: the profiler recorded its bytes."""
    COMPILED = 3
    """The arguments of a kernel that torch.compile wrote: the least that it moves."""
    MATCHED = 4
    """Shapes of the same kernels, in the same order, elsewhere: a warm-up, a capture."""


@dataclass(frozen=True)
class OpUse:
    """One op, as called, that device activities did the work of."""

    name: str
    detail: OpDetail
    attention: OpUse | None = None
    """The outermost attention op around it. One object for all ops inside it."""


@dataclass(frozen=True)
class KernelTraffic:
    """Columns with a row for each row of `Trace.device`."""

    read_bytes: I64
    """-1: unknown."""
    written_bytes: I64
    """-1: unknown."""
    flops: I64
    """-1: unknown; 0 where none are counted (elementwise work)."""
    counted_at: I64
    """The row at which the op's bytes stand: itself, or for a helper the main kernel's row (the
    helper's own bytes are then 0). -1: unknown."""
    op: I64
    """Row in `Trace.ops` of the innermost op with shapes; -1: none."""
    use: I32
    """Index into `uses`; -1: none known. Matched rows, which have no `op`, have one too."""
    source: I8
    """A `Source`."""
    uses: tuple[OpUse, ...]
    dtypes: tuple[str, ...]
    """For each use the element type of its FLOPs; empty where it has none."""

    @property
    def bytes(self) -> I64:
        """Bytes read plus bytes written; -1: unknown."""
        return np.where(self.read_bytes == NONE, NONE, self.read_bytes + self.written_bytes)

    @property
    def known(self) -> Bool:
        """Rows whose bytes are known, here or at the main kernel of their op."""
        return np.asarray(self.source != Source.UNKNOWN)


@dataclass
class Columns:
    """`KernelTraffic` while it is being filled."""

    rows: int
    read: I64 = field(init=False)
    written: I64 = field(init=False)
    flops: I64 = field(init=False)
    counted_at: I64 = field(init=False)
    use: I32 = field(init=False)
    source: I8 = field(init=False)
    uses: list[OpUse] = field(default_factory=list)
    dtypes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.read = np.full(self.rows, NONE, np.int64)
        self.written = np.full(self.rows, NONE, np.int64)
        self.flops = np.full(self.rows, NONE, np.int64)
        self.counted_at = np.full(self.rows, NONE, np.int64)
        self.use = np.full(self.rows, NONE, np.int32)
        self.source = np.full(self.rows, Source.UNKNOWN, np.int8)

    def add_use(self, use: OpUse, *, dtype: str) -> int:
        """Keep an op; returns its index."""
        self.uses.append(use)
        self.dtypes.append(dtype)
        return len(self.uses) - 1

    def put(self, row: int, work: Work, *, at: int, source: Source) -> None:
        """Set what a row moved."""
        self.read[row], self.written[row], self.flops[row] = work[:3]
        self.counted_at[row], self.source[row] = at, source

    def frozen(self, op: I64) -> KernelTraffic:
        """The finished table."""
        return KernelTraffic(
            read_bytes=self.read,
            written_bytes=self.written,
            flops=self.flops,
            counted_at=self.counted_at,
            op=op,
            use=self.use,
            source=self.source,
            uses=tuple(self.uses),
            dtypes=tuple(self.dtypes),
        )
