"""What did a profiler record? Schema-checked tables of events, one source format or another.

All times are int64 nanoseconds from the trace's first event. A name, a thread or an op's shape is
an index into a tuple of strings held once. "Not there" is -1 in an integer column. Rows are sorted
by start time (ties: by end, longest first, so that a parent precedes its child).

Which tables *could* be filled is `Trace.captured`: an empty table that was captured means "none";
one that was not means "unknown", and nothing may turn the second into the first.
"""

from __future__ import annotations

import enum
import typing
from dataclasses import dataclass, fields
from functools import cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

I64 = NDArray[np.int64]
I32 = NDArray[np.int32]
I8 = NDArray[np.int8]
Bool = NDArray[np.bool_]

NONE = -1


class ActivityKind(enum.IntEnum):
    """What ran on the device."""

    KERNEL = 0
    COPY = 1
    SET = 2
    GRAPH = 3
    """A whole graph launch of which only the span is known: what ran inside is not."""


def _scalar_type(annotation: typing.Any) -> type[np.generic]:
    """The scalar type inside an array annotation; how deep it lies differs between numpy's."""
    if isinstance(annotation, type) and issubclass(annotation, np.generic):
        return annotation
    for argument in typing.get_args(annotation):
        try:
            return _scalar_type(argument)
        except TypeError:
            continue
    raise TypeError(f"{annotation} holds no numpy scalar type")


@dataclass(frozen=True)
class Table:
    """Columns of equal length; a subclass's fields are its schema, checked when it is built."""

    def __post_init__(self) -> None:
        lengths = set()
        wanted_dtypes = type(self).dtypes()
        for field in fields(self):
            column = getattr(self, field.name)
            wanted = wanted_dtypes[field.name]
            if not isinstance(column, np.ndarray) or column.dtype != wanted:
                found = getattr(column, "dtype", type(column).__name__)
                raise TypeError(f"{type(self).__name__}.{field.name} is {found}, not {wanted}")
            if column.ndim != 1:
                raise TypeError(f"{type(self).__name__}.{field.name} has {column.ndim} dimensions")
            lengths.add(len(column))
        if len(lengths) > 1:
            raise ValueError(f"{type(self).__name__}: columns of different lengths {lengths}")

    def __len__(self) -> int:
        return len(getattr(self, fields(self)[0].name))

    @classmethod
    @cache
    def dtypes(cls) -> dict[str, np.dtype[np.generic]]:
        """Each column's dtype, read off its annotation."""
        hints = typing.get_type_hints(cls)
        return {f.name: np.dtype(_scalar_type(hints[f.name])) for f in fields(cls)}

    @classmethod
    def empty(cls) -> typing.Self:
        """A table with no rows."""
        return cls(**{name: np.empty(0, dtype) for name, dtype in cls.dtypes().items()})

    def take(self, rows: NDArray[np.int64] | NDArray[np.bool_]) -> typing.Self:
        """The rows at the given indices, or where a mask is true."""
        return type(self)(**{f.name: getattr(self, f.name)[rows] for f in fields(self)})


@dataclass(frozen=True)
class DeviceTable(Table):
    """What ran on devices: kernels, copies, sets, and graphs that were recorded as a whole."""

    start_ns: I64
    end_ns: I64
    kind: I8
    """An `ActivityKind`."""
    name: I32
    """Index into `Trace.names`."""
    device: I32
    stream: I64
    correlation: I64
    """Joins it to its API call; -1 where the trace says 0 or nothing. Many to one in a graph."""
    call: I64
    """Row of the launching call in `Trace.calls`; -1: none recorded."""
    bytes: I64
    """Bytes copied or set; -1 for kernels."""
    graph_node: I64
    """The node within its graph as the profiler numbers it; -1: none given."""
    external: I64
    """Profiler's id of the op that launched it (joins `OpTable.external`); -1: none."""
    blocks: I64
    """Thread blocks in the grid (x * y * z); -1: not given."""
    threads_per_block: I64


@dataclass(frozen=True)
class CallTable(Table):
    """Calls of the CUDA or HIP runtime and driver APIs on host threads."""

    start_ns: I64
    end_ns: I64
    name: I32
    kind: I8
    """A `CallKind`."""
    thread: I32
    """Index into `Trace.threads`."""
    correlation: I64
    external: I64


@dataclass(frozen=True)
class OpTable(Table):
    """Framework operators (``aten::mm``) on host threads; nested ops are rows too."""

    start_ns: I64
    end_ns: I64
    name: I32
    thread: I32
    external: I64
    detail: I32
    """Index into `Trace.op_details` (shapes, strides, dtypes, scalars); -1: not recorded."""


@dataclass(frozen=True)
class AnnotationTable(Table):
    """Ranges that a program named: record_function, NVTX, ProfilerStep#."""

    start_ns: I64
    end_ns: I64
    name: I32
    thread: I32


@dataclass(frozen=True)
class FrameTable(Table):
    """Python function calls, where the profiler recorded stacks.

    `name` reads ``path/file.py(12): function``. The end of a C call's frame may be the end of the
    recording: starts and nesting are sound, durations of C frames are not.
    """

    start_ns: I64
    end_ns: I64
    name: I32
    thread: I32


@dataclass(frozen=True)
class SyncTable(Table):
    """The profiler's own sync records (`cuda_sync`): what waited for what.

    Event waits between streams exist nowhere else. `kind` is an index into `SYNC_KINDS`.
    """

    start_ns: I64
    end_ns: I64
    kind: I8
    device: I32
    stream: I64
    """The stream that waits, or is waited for; -1: all."""
    correlation: I64
    event: I64
    """The event waited for; -1: none."""
    recorded_by: I64
    """Correlation of the call that recorded the event; -1: unknown."""


SYNC_KINDS = ("Stream Sync", "Event Sync", "Context Sync", "Stream Wait Event")
STREAM_WAIT_KIND = SYNC_KINDS.index("Stream Wait Event")


@dataclass(frozen=True)
class OpDetail:
    """What an operator was called with; any of it may be missing."""

    shapes: tuple[tuple[int, ...] | None, ...] = ()
    """One for each input; None for a tensor list; () for a scalar as well as for a 0-d tensor."""
    strides: tuple[tuple[int, ...] | None, ...] = ()
    dtypes: tuple[str, ...] = ()
    scalars: tuple[str, ...] = ()
    """The text of scalar inputs, aligned with `shapes`; empty for tensors."""
    lists: tuple[tuple[tuple[int, ...], ...], ...] = ()
    """The shapes in each tensor list, aligned with `shapes`; () for every other input. The profiler
    does not record their dtypes."""


@dataclass(frozen=True)
class DeviceInfo:
    """A device as the trace describes it; None for what it does not say."""

    index: int
    name: str | None = None
    memory_bytes: int | None = None
    sm_count: int | None = None
    compute_capability: str | None = None


@dataclass(frozen=True)
class Member:
    """Which of several processes a trace is of, as the trace itself says."""

    rank: int
    world_size: int | None = None
    groups: tuple[tuple[int, ...], ...] = ()
    """The ranks of each process group that has more than one; groups with the same ranks once."""


@dataclass(frozen=True)
class Trace:
    """One recording of one process (or of one rank), as tables.

    `captured` names the tables that the recording was able to fill: device, calls, ops,
    annotations, frames, syncs, shapes.
    """

    kind: Literal["torch", "nsys"]
    """What wrote the file."""
    name: str
    """The file's own name, without its folders."""
    names: tuple[str, ...]
    threads: tuple[str, ...]
    op_details: tuple[OpDetail, ...]
    device: DeviceTable
    calls: CallTable
    ops: OpTable
    annotations: AnnotationTable
    frames: FrameTable
    syncs: SyncTable
    devices: tuple[DeviceInfo, ...]
    captured: frozenset[str]
    origin_ns: int
    """What was subtracted from the file's times to make the first event 0."""
    caveats: tuple[str, ...] = ()
    """What the reader noticed and the user should know, one sentence each."""
    profiler_overhead_ns: tuple[tuple[int, int], ...] = ()
    """Start and end of the profiler's own pauses (buffer requests and flushes)."""
    versions: tuple[tuple[str, str], ...] = ()
    member: Member | None = None
    """None: the trace names no rank."""

    @classmethod
    def nothing(cls, name: str) -> Trace:
        """A trace that was not recorded: every table empty, none captured."""
        return cls(
            kind="torch",
            name=name,
            names=(),
            threads=(),
            op_details=(),
            device=DeviceTable.empty(),
            calls=CallTable.empty(),
            ops=OpTable.empty(),
            annotations=AnnotationTable.empty(),
            frames=FrameTable.empty(),
            syncs=SyncTable.empty(),
            devices=(),
            captured=frozenset(),
            origin_ns=0,
        )

    def span_ns(self) -> tuple[int, int] | None:
        """First start and last end of anything on a device; None when nothing ran there."""
        if not len(self.device):
            return None
        return int(self.device.start_ns.min()), int(self.device.end_ns.max())
