from __future__ import annotations

import numpy as np
import pytest

from decodeprof.analysis.collectives import (
    busy_parts,
    collectives_alone,
    moving_times,
    rank_activity,
)
from tests.build import TraceBuilder
from tests.ranks import ALL_REDUCE, MOVING_NS, rank_loop
from tests.reading import trace_of
from tests.scenarios import US

WHOLE = np.array([0]), np.array([10**12])


def overlapped() -> TraceBuilder:
    """A collective of 30 µs on a stream of its own, with 10 µs of compute below its end."""
    b = TraceBuilder()
    b.launch("gemm", 4 * US)
    b.launch(ALL_REDUCE, 30 * US, stream=20, call_ns=24 * US)
    b.launch("gemm", 10 * US)
    return b


def test_a_collective_counts_only_where_nothing_else_runs() -> None:
    scenario = overlapped().build()
    activity = rank_activity(trace_of(scenario), 0)
    first, collective, second = sorted(scenario.activities, key=lambda a: a.start_ns)
    before = max(0, min(first.end_ns, collective.end_ns) - collective.start_ns)
    below = min(second.end_ns, collective.end_ns) - second.start_ns
    assert below > 0
    parts = busy_parts(activity, *WHOLE, moving_ns=None)
    assert parts.compute_ns.tolist() == [14 * US]
    assert parts.collective_ns.tolist() == [30 * US - before - below]
    assert parts.waiting_ns.tolist() == [0]
    assert collectives_alone(activity, 0, 10**12) == 30 * US - before - below
    assert sum(int(c[0]) for c in vars(parts).values()) == scenario.busy_ns()


def test_waiting_is_the_beginning_of_a_longer_run() -> None:
    activity = rank_activity(trace_of(overlapped().build()), 0)
    parts = busy_parts(activity, *WHOLE, moving_ns=np.array([6 * US]))
    assert int(parts.compute_ns[0]) == 14 * US
    # Of the last 6 µs, in which data moves, compute covers all: nothing moves alone.
    alone = collectives_alone(activity, 0, 10**12)
    assert int(parts.collective_ns[0] + parts.waiting_ns[0]) == alone
    assert 0 < int(parts.waiting_ns[0]) <= 24 * US


def test_the_shortest_run_is_what_moving_takes() -> None:
    ranks = [
        rank_activity(trace_of(rank_loop(waits_ns=waits, steps=2).build()), 0)
        for waits in (5_000, 0, 9_000)
    ]
    moving = moving_times(ranks)
    assert not isinstance(moving, str)
    assert moving.tolist() == [MOVING_NS] * 3
    for rank, waits in zip(ranks, (5_000, 0, 9_000), strict=True):
        parts = busy_parts(rank, *WHOLE, moving_ns=moving)
        assert parts.waiting_ns.tolist() == [3 * waits]
        assert parts.collective_ns.tolist() == [3 * MOVING_NS]


@pytest.mark.parametrize(
    ("others", "why"),
    [
        ({"collectives": 2}, "from 3 to 6 collectives"),
        ({"collective": "ncclDevKernel_AllGather_RING_LL()"}, "different collectives"),
    ],
)
def test_what_cannot_be_paired_is_not_called_waiting(others: dict[str, object], why: str) -> None:
    one = rank_activity(trace_of(rank_loop(steps=2).build()), 0)
    other = rank_activity(trace_of(rank_loop(steps=2, **others).build()), 0)  # type: ignore[arg-type]
    found = moving_times([one, other])
    assert isinstance(found, str)
    assert why in found


def test_sends_join_two_ranks_only() -> None:
    name = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"
    rank = rank_activity(trace_of(rank_loop(steps=2, collective=name).build()), 0)
    assert "join two ranks" in str(moving_times([rank, rank]))
    assert moving_times([rank]) == "there is one rank alone"


def test_no_collective_is_none() -> None:
    rank = rank_activity(trace_of(rank_loop(steps=2, collectives=0).build()), 0)
    moving = moving_times([rank, rank])
    assert not isinstance(moving, str)
    assert len(moving) == 0
    assert collectives_alone(rank, 0, 10**12) == 0
