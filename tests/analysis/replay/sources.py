"""Synthetic decode loops for replay, each with or without the thing that is asked about."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from decodeprof.analysis.host import launching_thread
from decodeprof.analysis.launches import latency_floors, launches_of
from decodeprof.analysis.replay.build import Source, prepare
from decodeprof.analysis.replay.changes import GraphCosts
from decodeprof.analysis.replay.program import LAUNCH, Events, Program
from decodeprof.model.trace import Trace
from tests.build import NODE_GAP_NS, TraceBuilder
from tests.reading import TYPICAL_NS, steps_of, trace_of

US = 1_000
QUEUE_GAP_NS = 1_300
MATRIX = "nvjet_sm90_tst_64x8"
ADD = "void vectorized_elementwise_kernel<4, CUDAFunctor_add>"
COSTS = GraphCosts(
    node_gap_ns=NODE_GAP_NS, source="ceilings", launch_ns=10 * US, lag_ns=0, queued_ns=0
)


def source_of(trace: Trace, queue_depth: int | None = None) -> Source:
    """Prepare a trace with the floors and steps that it shows itself."""
    launches = launches_of(trace, 0)
    thread = launching_thread(trace)
    assert thread is not None
    return prepare(
        trace,
        steps_of(trace),
        device=0,
        thread=thread,
        launches=launches,
        floors=latency_floors(trace, launches, recorded_ns=None, typical_ns=TYPICAL_NS),
        queue_depth=queue_depth,
    )


def loop(step: Callable[[TraceBuilder, int], None], *, steps: int = 8) -> Source:
    """A loop of marked steps; the device's first wake-up comes before them."""
    b = TraceBuilder(queue_gap_ns=QUEUE_GAP_NS)
    for _ in range(6):
        b.launch("wake", 1 * US)
        b.work(20 * US)
    for index in range(steps):
        with b.annotation("decodeprof.step phase=decode"):
            step(b, index)
    return source_of(trace_of(b.build()))


def steady_ns(source: Source, step: int = 5) -> int:
    """The recorded window of one steady step."""
    return int(source.steps.window_ns[step])


def launches(
    work_ns: list[int],
    duration_ns: list[int],
    *,
    stream: list[int] | None = None,
    queue_depth: int = 1024,
    lag_ns: int = 5 * US,
) -> Program:
    """A program of one step that launches one kernel after each piece of work."""
    n = len(work_ns)
    column = np.zeros(n, np.int64)
    streams = np.array(stream or [0] * n, np.int32)
    events = Events(
        op=np.full(n, LAUNCH, np.int8),
        work_ns=np.array(work_ns, np.int64),
        python_ns=column,
        call=column - 1,
        stream=streams,
        slot=np.full(n, -1, np.int32),
        own_ns=column,
        submit_ns=column,
        lag_ns=column + lag_ns,
        least_ns=column,
        queued_ns=column,
        first=np.arange(n),
        count=column + 1,
        between_ns=column,
        step=np.zeros(n, np.int32),
    )
    return Program(
        events=events,
        tail_ns=0,
        tail_python_ns=0,
        duration_ns=np.array(duration_ns, np.int64),
        activity=column - 1,
        steps=1,
        streams=int(streams.max()) + 1,
        slots=0,
        queue_depth=queue_depth,
    )
