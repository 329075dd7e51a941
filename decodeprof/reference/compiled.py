"""torch.compile: does "reduce-overhead" replay a graph at all?

It fuses the small kernels, and is meant to capture what is left in graphs of its own. But a step
that updates its inputs in place is, by default, run without any graph and without an error: one
counter and a log line say so, and 10 ms a step instead of 1. Inputs whose address is promised to
stay may be written; and those that are only read need not be copied before each replay, which for
weights would cost more than the step. So every tensor that the step touches is promised here, and
`graphs_skipped` tells whether that was enough.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from decodeprof.reference.cache import StaticKVCache
from decodeprof.reference.state import State


def keep_in_place(state: State, cache: StaticKVCache, others: Iterable[Tensor]) -> None:
    """Promise torch.compile that these tensors stay where they are."""
    own = (state.token, state.position, state.made, state.stopped, state.stops)
    for tensor in (*own, *cache.keys, *cache.values, cache.slot_positions, *others):
        torch._dynamo.mark_static_address(tensor)


def compile_step(run: Callable[[], None], device: torch.device) -> Callable[[], Any]:
    """Compile a step that reads and writes tensors of fixed address.

    On a CPU it is traced and made functional, but no code is generated: that would need a C++
    compiler.
    """
    if device.type != "cuda":
        return torch.compile(run, backend="aot_eager", fullgraph=True, dynamic=False)
    return torch.compile(run, mode="reduce-overhead", fullgraph=True, dynamic=False)


def graphs_skipped() -> int:
    """Compiled functions that were to be replayed as graphs and are not, in this process."""
    return int(torch._dynamo.utils.counters["inductor"]["cudagraph_skips"])
