"""Traces written op by op, with shapes: what the traffic tests count by hand."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from decodeprof.analysis.steps.found import Steps
from decodeprof.model.calls import call_kind
from decodeprof.model.trace import (
    ActivityKind,
    AnnotationTable,
    CallTable,
    DeviceTable,
    FrameTable,
    OpDetail,
    OpTable,
    SyncTable,
    Trace,
)

BF16, FLOAT, LONG, BOOL = "c10::BFloat16", "float", "long int", "bool"
CALL_NS, LATENCY_NS, GAP_NS = 2_000, 5_000, 400


@dataclass(frozen=True)
class T:
    """A tensor argument; dense unless strides are given."""

    shape: tuple[int, ...]
    dtype: str = BF16
    strides: tuple[int, ...] | None = None


def dense(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of a dense tensor."""
    strides = [1] * len(shape)
    for i in range(len(shape) - 2, -1, -1):
        strides[i] = strides[i + 1] * shape[i + 1]
    return tuple(strides)


def detail(*arguments: object) -> OpDetail:
    """Arguments as a profiler writes them: T, a list of T, None, or a scalar."""
    shapes, strides, dtypes, scalars, lists = [], [], [], [], []
    for argument in arguments:
        is_list = isinstance(argument, list) and bool(argument) and isinstance(argument[0], T)
        lists.append(tuple(t.shape for t in argument) if is_list else ())
        if isinstance(argument, T):
            shapes.append(argument.shape)
            strides.append(dense(argument.shape) if argument.strides is None else argument.strides)
            dtypes.append(argument.dtype)
            scalars.append("")
        elif is_list:
            shapes.append(None)
            strides.append(None)
            dtypes.append("TensorList")
            scalars.append("")
        else:
            shapes.append(())
            strides.append(())
            dtypes.append("" if argument is None else "Scalar")
            scalars.append("" if argument is None else str(argument))
    return OpDetail(tuple(shapes), tuple(strides), tuple(dtypes), tuple(scalars), tuple(lists))


@dataclass
class Program:
    """A host thread and a device that does one thing after another."""

    now: int = 0
    free: int = 0
    names: list[str] = field(default_factory=list)
    details: list[OpDetail] = field(default_factory=list)
    device: list[tuple[int, ...]] = field(default_factory=list)
    calls: list[tuple[int, ...]] = field(default_factory=list)
    ops: list[list[int]] = field(default_factory=list)
    steps: list[tuple[str, int | None, int]] = field(default_factory=list)
    capturing: bool = False
    with_shapes: bool = True
    _open: list[int] = field(default_factory=list)

    def _name(self, name: str) -> int:
        if name not in self.names:
            self.names.append(name)
        return self.names.index(name)

    def step(self, phase: str, query_length: int | None) -> None:
        """Begin a step."""
        self.steps.append((phase, query_length, self.now))

    @contextmanager
    def op(self, name: str, *arguments: object) -> Iterator[None]:
        """Run an op; what is in the block happens inside it."""
        row = len(self.ops)
        shaped = self.with_shapes and bool(arguments)
        if shaped:
            self.details.append(detail(*arguments))
        self.ops.append(
            [self.now, -1, self._name(name), 0, row + 1, len(self.details) - 1 if shaped else -1]
        )
        self._open.append(row)
        self.now += 1_000
        yield
        self.now += 500
        self.ops[row][1] = self.now
        self._open.pop()

    def run(self, name: str, *arguments: object, kernel: str = "kernel", ns: int = 3_000) -> None:
        """Run an op that launches one kernel."""
        with self.op(name, *arguments):
            self.launch(kernel, ns)

    def call(self, name: str) -> int:
        """Call an API; returns its row."""
        self.calls.append(
            (self.now, self.now + CALL_NS, self._name(name), int(call_kind(name)), 0,
             len(self.calls) + 1, self._open[-1] + 1 if self._open else -1)
        )  # fmt: skip
        self.now += CALL_NS
        return len(self.calls) - 1

    def launch(
        self,
        name: str,
        ns: int = 3_000,
        *,
        kind: ActivityKind = ActivityKind.KERNEL,
        size: int = -1,
    ) -> None:
        """Launch a kernel, a copy or a set; while capturing, nothing runs."""
        api = {0: "cudaLaunchKernel", 1: "cudaMemcpyAsync", 2: "cudaMemsetAsync"}[int(kind)]
        call = self.call(api)
        if not self.capturing:
            self._start(name, ns, kind=kind, size=size, call=call, node=-1)

    def _start(
        self, name: str, ns: int, *, kind: ActivityKind, size: int, call: int, node: int
    ) -> None:
        start = max(self.calls[call][0] + LATENCY_NS, self.free + GAP_NS)
        self.free = start + ns
        external = self.calls[call][6] if node < 0 else -1
        self.device.append(
            (start, start + ns, int(kind), self._name(name), 0, 7, call + 1, call, size, node,
             external, 8, 128)
        )  # fmt: skip

    @contextmanager
    def capture(self) -> Iterator[None]:
        """Capture a graph of what is launched in the block."""
        self.call("cudaStreamBeginCapture")
        self.capturing = True
        yield
        self.capturing = False
        self.call("cudaStreamEndCapture")

    def replay(self, nodes: list[tuple[str, int, ActivityKind, int]]) -> None:
        """Launch a graph of (name, ns, kind, bytes) nodes."""
        call = self.call("cudaGraphLaunch")
        for node, (name, ns, kind, size) in enumerate(nodes):
            self._start(name, ns, kind=kind, size=size, call=call, node=node + 1)

    def trace(self) -> Trace:
        """The tables. Times already begin at 0, and rows are in order."""
        captured = {"device", "calls", "ops", "annotations"}
        return Trace(
            kind="torch",
            name="synthetic.json",
            names=tuple(self.names),
            threads=("1/1",),
            op_details=tuple(self.details),
            device=_table(DeviceTable, self.device),
            calls=_table(CallTable, self.calls),
            ops=_table(OpTable, self.ops),
            annotations=AnnotationTable.empty(),
            frames=FrameTable.empty(),
            syncs=SyncTable.empty(),
            devices=(),
            captured=frozenset(captured | ({"shapes"} if self.details else set())),
            origin_ns=0,
        )

    def found(self) -> Steps:
        """The steps as the program marked them."""
        trace = self.trace()
        starts = np.array([at for _, _, at in self.steps], np.int64)
        ends = np.r_[starts[1:], self.now].astype(np.int64)
        call_step = (np.searchsorted(starts, trace.calls.start_ns, side="right") - 1).astype(
            np.int32
        )
        activity_step = call_step[trace.device.call]
        first = np.array(
            [
                trace.device.start_ns[activity_step == i].min(initial=1 << 60)
                for i in range(len(starts))
            ],
            np.int64,
        )
        count = len(starts)
        return Steps(
            method="marks",
            text="as the test marked them",
            phases=tuple(phase for phase, _, _ in self.steps),
            query_lengths=tuple(length for _, length, _ in self.steps),
            host_start_ns=starts,
            host_end_ns=ends,
            device_start_ns=first,
            device_end_ns=np.r_[first[1:], trace.device.end_ns.max()].astype(np.int64),
            steady=np.ones(count, np.bool_),
            measured=np.ones(count, np.bool_),
            reasons=(None,) * count,
            activity_step=activity_step,
            call_step=call_step,
            left_out=(),
        )


def _table(kind, rows):
    if not rows:
        return kind.empty()
    names = list(kind.__dataclass_fields__)
    empty = kind.empty()
    columns = zip(*rows, strict=True)
    return kind(
        **{
            name: np.array(column, getattr(empty, name).dtype)
            for name, column in zip(names, columns, strict=True)
        }
    )
