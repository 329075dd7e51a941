"""A trace of very many events, made as columns."""

from __future__ import annotations

import numpy as np

from decodeprof.model.calls import CallKind
from decodeprof.model.trace import CallTable, DeviceTable, Trace


def many(events: int) -> Trace:
    """Half the events are launches, half the kernels that they launch, one after another."""
    n = events // 2
    starts = np.arange(n, dtype=np.int64) * 5_000
    numbers = np.arange(1, n + 1, dtype=np.int64)
    none = np.full(n, -1, np.int64)
    calls = CallTable(
        start_ns=starts,
        end_ns=starts + 3_000,
        name=np.zeros(n, np.int32),
        kind=np.full(n, int(CallKind.LAUNCH), np.int8),
        thread=np.zeros(n, np.int32),
        correlation=numbers,
        external=none,
    )
    device = DeviceTable(
        start_ns=starts + 4_000,
        end_ns=starts + 6_000,
        kind=np.zeros(n, np.int8),
        name=(1 + np.arange(n) % 50).astype(np.int32),
        device=np.zeros(n, np.int32),
        stream=np.full(n, 7, np.int64),
        correlation=numbers,
        call=np.arange(n, dtype=np.int64),
        bytes=none,
        graph_node=none,
        external=none,
        blocks=np.full(n, 4, np.int64),
        threads_per_block=np.full(n, 128, np.int64),
    )
    nothing = Trace.nothing("many")
    names = ("cudaLaunchKernel", *(f"kernel_{k}" for k in range(50)))
    return Trace(
        **{
            **vars(nothing),
            "names": names,
            "threads": ("1",),
            "calls": calls,
            "device": device,
            "captured": frozenset({"device", "calls"}),
        }
    )
