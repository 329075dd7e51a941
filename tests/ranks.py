"""Ranks of one decode loop, with known lateness: what each waits inside collectives is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tests.build import TraceBuilder
from tests.scenario import Scenario
from tests.scenarios import US, forward, take_token
from tests.write_kineto import MODERN, write

MOVING_NS = 12 * US
ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


def rank_loop(
    *,
    late_ns: int = 0,
    waits_ns: int = 0,
    steps: int = 5,
    extra_kernels: int = 0,
    collective: str = ALL_REDUCE,
    collectives: int = 1,
) -> TraceBuilder:
    """A decode loop with collectives in each step.

    Args:
        late_ns: work of the host's in each step before its first collective.
        waits_ns: what the first collective of each step waits for other ranks.
        steps: decode steps.
        extra_kernels: kernels of each step that other ranks do not have.
        collective: the kernel's name.
        collectives: how many a step has.
    """
    b = TraceBuilder()
    for index in range(steps + 1):
        b.step("decode" if index else "prefill")
        b.work(20 * US)
        forward(b, query=1 if index else 16, layers=4, kernel_ns=2 * US)
        for _ in range(extra_kernels):
            with b.op("aten::mul"):
                b.launch("void vectorized_elementwise_kernel<4, MulFunctor>", 2 * US)
        b.work(late_ns + 1)
        for number in range(collectives):
            with b.op("c10d::allreduce_"):
                b.launch(collective, MOVING_NS + (0 if number else waits_ns))
        take_token(b)
    return b


def write_ranks(
    folder: Path, late_ns: Sequence[int], *, names: str = "rank{rank}.json.gz", said: bool = True
) -> list[Path]:
    """One trace for each rank; each waits for the latest one, so that all steps are as long."""
    paths = []
    for rank, late in enumerate(late_ns):
        scenario = rank_loop(late_ns=late, waits_ns=max(late_ns) - late).build()
        paths.append(write_rank(folder / names.format(rank=rank), scenario, rank, len(late_ns)))
        if not said:
            write(paths[-1], scenario)
    return paths


def write_rank(path: Path, scenario: Scenario, rank: int, world_size: int) -> Path:
    """One rank's trace, which says whose it is."""
    info = {
        "backend": "nccl",
        "rank": rank,
        "world_size": world_size,
        "pg_count": 2,
        "pg_config": [
            {"pg_name": "0", "pg_size": world_size, "ranks": list(range(world_size))},
            {"pg_name": "1", "pg_size": 1, "ranks": [rank]},
        ],
    }
    return write(path, scenario, dialect=replace(MODERN, distributed=info))
