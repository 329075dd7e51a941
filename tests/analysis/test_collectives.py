from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decodeprof.analysis.collectives import (
    RankActivity,
    busy_parts,
    collectives_alone,
    moving_times,
    rank_activity,
)
from decodeprof.analysis.intervals import union
from decodeprof.model.trace import I64
from tests.build import TraceBuilder
from tests.ranks import ALL_REDUCE, MOVING_NS, rank_loop
from tests.reading import trace_of
from tests.scenarios import US

WHOLE = np.array([0]), np.array([10**12])
STRETCH = np.array([[0, 10**12]])


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
    moving = moving_times(ranks, [STRETCH] * 3)
    assert not isinstance(moving, str)
    for rank, waits, times in zip(ranks, (5_000, 0, 9_000), moving, strict=True):
        assert times.tolist() == [MOVING_NS] * 3
        parts = busy_parts(rank, *WHOLE, moving_ns=times)
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
    found = moving_times([one, other], [STRETCH] * 2)
    assert isinstance(found, str)
    assert why in found


def test_sends_join_two_ranks_only() -> None:
    name = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"
    rank = rank_activity(trace_of(rank_loop(steps=2, collective=name).build()), 0)
    assert "join two ranks" in str(moving_times([rank, rank], [STRETCH] * 2))
    assert moving_times([rank], [STRETCH]) == "there is one rank alone"


def test_no_collective_is_none() -> None:
    rank = rank_activity(trace_of(rank_loop(steps=2, collectives=0).build()), 0)
    moving = moving_times([rank, rank], [STRETCH] * 2)
    assert [len(times) for times in moving] == [0, 0]
    assert collectives_alone(rank, 0, 10**12) == 0


def test_recordings_that_did_not_begin_together_are_paired_inside_their_steps() -> None:
    """One rank's recording holds a step more, before those that both count."""
    long = rank_activity(trace_of(rank_loop(waits_ns=7_000, steps=4).build()), 0)
    short = rank_activity(trace_of(rank_loop(steps=3).build()), 0)
    later = np.stack([long.start_ns[1:], long.end_ns[1:]], axis=1)
    all_of = np.stack([short.start_ns, short.end_ns], axis=1)
    moving = moving_times([long, short], [later, all_of])
    assert not isinstance(moving, str)
    assert moving[0].tolist() == [MOVING_NS + 7_000, *[MOVING_NS] * 4]
    assert moving[1].tolist() == [MOVING_NS] * 4
    assert "from 4 to 5 collectives" in str(moving_times([long, short], [all_of, later]))


Spans = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 30), st.integers(0, 30)), max_size=12)


@given(compute=Spans, collectives=Spans, cut=st.integers(0, 90))
def test_the_parts_sum_to_the_busy_time_of_any_stretch(
    compute: list[tuple[int, int, int]], collectives: list[tuple[int, int, int]], cut: int
) -> None:
    def columns(spans: list[tuple[int, int, int]]) -> tuple[I64, I64, I64]:
        rows = np.array(sorted(spans), np.int64).reshape(-1, 3)
        return rows[:, 0], rows[:, 0] + rows[:, 1], np.minimum(rows[:, 1], rows[:, 2])

    starts, ends, _ = columns(compute)
    from_ns, to_ns, moving = columns(collectives)
    activity = RankActivity(union(starts, ends), ("nccl",) * len(from_ns), from_ns, to_ns)
    parts = busy_parts(activity, np.array([0, cut]), np.array([cut, 200]), moving_ns=moving)
    for at, window in enumerate((range(cut), range(cut, 200))):
        kinds = [0, 0, 0]
        for ns in window:
            works = any(a <= ns < b for a, b in zip(starts, ends, strict=True))
            runs = [i for i in range(len(from_ns)) if from_ns[i] <= ns < to_ns[i]]
            moves = any(ns >= to_ns[i] - moving[i] for i in runs)
            if works or runs:
                kinds[0 if works else 1 if moves else 2] += 1
        assert kinds == [parts.compute_ns[at], parts.collective_ns[at], parts.waiting_ns[at]]
