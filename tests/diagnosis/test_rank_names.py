from __future__ import annotations

import pytest

from decodeprof.diagnosis.rank_names import ranks_of
from decodeprof.model.trace import Member


def test_the_trace_itself_wins() -> None:
    found = ranks_of(["rank0.json", "rank1.json"], [Member(rank=5), Member(rank=4)])
    assert (found.ranks, found.source, found.caveat) == ((5, 4), "metadata", None)


@pytest.mark.parametrize(
    ("names", "ranks"),
    [
        (["rank0.json.gz", "rank10.json.gz"], (0, 10)),
        (["dp0_pp0_tp1_rank3.1790857026.pt.trace.json.gz", "dp0_pp0_tp0_rank2.17.json"], (3, 2)),
        (["1790857026-TP-0.trace.json.gz", "1790857026-TP-1.trace.json.gz"], (0, 1)),
        (["worker_7.json", "worker_8.json"], (7, 8)),
        (["Rank-1.json", "Rank-0.json"], (1, 0)),
    ],
)
def test_the_name_says_it_where_the_trace_does_not(names: list[str], ranks: tuple[int]) -> None:
    found = ranks_of(names, [None, Member(rank=0)])
    assert (found.ranks, found.source, found.caveat) == (ranks, "name", None)


def test_a_word_that_ends_in_rank_is_no_rank() -> None:
    found = ranks_of(["frank1.json", "lowrank0.json"], [None, None])
    assert (found.ranks, found.source) == ((0, 1), "order")
    assert found.caveat is not None


def test_ranks_that_say_the_same_are_not_believed() -> None:
    found = ranks_of(["rank0.json", "rank1.json"], [Member(rank=0), Member(rank=0)])
    assert (found.ranks, found.source) == ((0, 1), "name")
    assert found.caveat == (
        "Several traces say that they are of rank 0: what they say was not used."
    )
    assert ranks_of(["a", "b"], [Member(rank=2), Member(rank=2)]).source == "order"
