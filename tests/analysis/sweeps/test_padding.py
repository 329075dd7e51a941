"""Bucket plans: known answers by hand, and the cheapest against trying every plan."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decodeprof.analysis.sweeps.padding import cheapest, plans, step_ns, weigh
from decodeprof.errors import UsageError

TIMES = {1: 100, 2: 100, 4: 100, 8: 200, 16: 400}


def test_a_flat_step_makes_padding_free() -> None:
    plan = weigh("p", [4], {1: 3, 4: 1}, TIMES)
    assert plan.time_share == 0
    assert plan.rows_share == 1 - 7 / 16
    assert plan.step_ns == 100


def test_a_rising_step_makes_it_cost() -> None:
    plan = weigh("p", [4, 16], {8: 1, 16: 1}, TIMES)
    assert plan.time_share == 1 - 600 / 800
    assert plan.rows_share == 1 - 24 / 32
    assert plan.step_ns == 400


def test_between_points_a_step_follows_a_power_of_the_batch() -> None:
    assert step_ns(TIMES, 12) == pytest.approx(300)
    assert step_ns(TIMES, 17) is None
    assert step_ns({4: 100}, 1) == 100


def test_a_batch_beyond_the_measured_ones_leaves_time_unknown() -> None:
    found = plans({1: 1, 20: 1}, TIMES, [])
    assert {plan.time_share for plan in found} == {None}
    assert all(plan.rows_share >= 0 for plan in found)
    assert "cheapest" not in " ".join(plan.name for plan in found)


def test_every_size_of_its_own_wastes_nothing() -> None:
    best = [plan for plan in plans({3: 5, 7: 2}, TIMES, [[8]]) if plan.name == "cheapest of 2"]
    assert best[0].buckets == [3, 7]
    assert best[0].time_share == 0


def test_a_larger_bucket_that_takes_less_is_cheaper() -> None:
    assert cheapest({2: 1}, {1: 234, 2: 235, 4: 204, 8: 239}, 1) == [4]


@given(
    live=st.dictionaries(st.integers(1, 16), st.integers(1, 9), min_size=1, max_size=5),
    times=st.fixed_dictionaries({size: st.integers(1, 500) for size in (1, 4, 9, 16)}),
    count=st.integers(1, 4),
)
def test_no_plan_beats_the_cheapest(
    live: dict[int, int], times: dict[int, int], count: int
) -> None:
    found = cheapest(live, times, count)
    assert len(found) <= count
    mine = weigh("mine", found, live, times).step_ns
    sizes = sorted({*live, *times})
    others = [
        weigh("other", chosen, live, times).step_ns
        for some in range(1, count + 1)
        for chosen in itertools.combinations(sizes, some)
        if chosen[-1] >= max(live)
    ]
    assert mine == min(others)  # type: ignore[type-var]


@pytest.mark.parametrize(
    ("live", "asked", "problem"),
    [
        ({}, [], "at least 1"),
        ({0: 1}, [], "at least 1"),
        ({1: 0}, [], "at least 1"),
        ({9: 1}, [[8]], "a live batch of 9 fits no bucket"),
        ({1: 1}, [[0, 4]], "buckets of at least 1"),
        (dict.fromkeys(range(1, 600), 1), [], "599 batch sizes are too many"),
    ],
)
def test_plans_that_make_no_sense_are_refused(
    live: dict[int, int], asked: list[list[int]], problem: str
) -> None:
    with pytest.raises(UsageError, match=problem):
        plans(live, TIMES, asked)
