"""What do several ranks say together: who holds the others up, and where do they differ?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from decodeprof import units
from decodeprof.model.ranks import FailedRank, Rank, RankDifference, RankReport, RankSpread

# Host times repeat to a few percent at best: ranks closer than this are alike.
EVEN_SHARE = 0.05
# Missing ranks that are named one by one.
_MOST_NAMED = 16
_QUANTITIES = ("kernels", "launches", "graph_launches", "syncs", "collectives")


def summed_up(
    ranks: Sequence[Rank],
    *,
    world_size: int | None,
    waiting_unknown: str | None,
    failed: list[FailedRank],
    caveats: list[str],
) -> RankReport:
    """One report of some ranks.

    Args:
        ranks: at least one, in order.
        world_size: how many there are, as the traces say.
        waiting_unknown: why the waiting inside collectives is not known; None: it is.
        failed: files that could not be analysed.
        caveats: what is known to be weak already.
    """
    alike = len({rank.stretch for rank in ranks}) == 1
    own = spread_of(ranks, own_times(ranks))
    stretch = spread_of(ranks, [rank.stretch_ns for rank in ranks])
    told_by = own if waiting_unknown is None else stretch
    uneven = alike and len(ranks) > 1 and told_by.spread_share > EVEN_SHARE
    missing = sorted(set(range(world_size or 0)) - {rank.rank for rank in ranks})[:_MOST_NAMED]
    return RankReport(
        sentence=_sentence(ranks, waiting_unknown=waiting_unknown, alike=alike),
        world_size=world_size,
        missing=missing,
        slowest=told_by.high_rank if uneven else None,
        slowest_by=None if not uneven else "stretch" if waiting_unknown else "own time",
        stretch_ns=stretch if alike else None,
        own_ns=own if alike and waiting_unknown is None else None,
        busy_ns=spread_of(ranks, [rank.stretch_ns - rank.idle_ns for rank in ranks])
        if alike
        else None,
        waiting_unknown=waiting_unknown,
        differences=differences(ranks) if alike else None,
        ranks=list(ranks),
        failed=failed,
        caveats=[*caveats, *_caveats(ranks, world_size=world_size, missing=missing, alike=alike)],
    )


def own_times(ranks: Sequence[Rank]) -> list[int]:
    """Each rank's stretch less what it waited for others inside collectives, in ns."""
    return [rank.stretch_ns - (rank.waiting_ns or 0) for rank in ranks]


def spread_of(ranks: Sequence[Rank], values: Sequence[int]) -> RankSpread:
    """The smallest and the largest of some values, one for each rank; the first rank of equals."""
    low = min(range(len(values)), key=lambda i: values[i])
    high = max(range(len(values)), key=lambda i: values[i])
    return RankSpread(
        low=values[low],
        high=values[high],
        low_rank=ranks[low].rank,
        high_rank=ranks[high].rank,
        spread_share=round((values[high] - values[low]) / max(values[high], 1), 6),
    )


def differences(ranks: Sequence[Rank]) -> list[RankDifference]:
    """Counts in which some ranks differ from most."""
    found = []
    for quantity in _QUANTITIES:
        values = {rank.rank: _rounded(getattr(rank, quantity)) for rank in ranks}
        if len(set(values.values())) == 1:
            continue
        usual, holders = Counter(values.values()).most_common(1)[0]
        if 2 * holders <= len(ranks):
            found.append(RankDifference(quantity=quantity, usual=None, odd=values))
            continue
        odd = {rank: value for rank, value in values.items() if value != usual}
        found.append(RankDifference(quantity=quantity, usual=usual, odd=odd))
    return found


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(float(value), 3)


def _sentence(ranks: Sequence[Rank], *, waiting_unknown: str | None, alike: bool) -> str:
    if not alike:
        return (
            "Cannot compare the ranks: their figures are of stretches of different kinds "
            f"({', '.join(sorted({rank.stretch for rank in ranks}))})."
        )
    what = {"decode step": "a decode step", "prefill": "the prefill", "window": "the recording"}[
        ranks[0].stretch
    ]
    stretch = spread_of(ranks, [rank.stretch_ns for rank in ranks])
    took = f"{what} takes {_between(stretch)} in profiled time"
    if len(ranks) == 1:
        return f"Only rank {ranks[0].rank} could be analysed: {took} there."
    if waiting_unknown is not None or not any(rank.collectives for rank in ranks):
        return _by_stretch(ranks, stretch, took=took)
    own = spread_of(ranks, own_times(ranks))
    most = max(ranks, key=lambda rank: rank.waiting_ns or 0)
    waits = units.time(most.waiting_ns or 0)
    if own.spread_share <= EVEN_SHARE:
        return (
            f"The {len(ranks)} ranks are even: {took}, and none waits more than {waits} of it "
            "inside collectives."
        )
    others = spread_of(
        [rank for rank in ranks if rank.rank != own.high_rank],
        [t for rank, t in zip(ranks, own_times(ranks), strict=True) if rank.rank != own.high_rank],
    )
    return (
        f"Rank {own.high_rank} holds the others up: {took}; less what it waits for others, that is "
        f"{units.time(own.high)} on rank {own.high_rank} and {_between(others)} elsewhere. Rank "
        f"{most.rank} waits {waits} inside collectives, which looks busy and is no work done."
    )


def _by_stretch(ranks: Sequence[Rank], stretch: RankSpread, *, took: str) -> str:
    inside = spread_of(ranks, [rank.collective_ns for rank in ranks])
    untold = (
        f"; {_between(inside)} of it goes by inside collectives alone, and how much of that is "
        "waiting for other ranks, which is no work done, cannot be told"
        if inside.high
        else "; no rank ran a collective"
    )
    if stretch.spread_share <= EVEN_SHARE:
        return f"The {len(ranks)} ranks take equally long: {took}{untold}."
    return f"Rank {stretch.high_rank} is the slowest: {took}{untold}."


def _between(spread: RankSpread) -> str:
    low, high = units.time(spread.low), units.time(spread.high)
    return low if low == high else f"{low} to {high}"


def _caveats(
    ranks: Sequence[Rank], *, world_size: int | None, missing: list[int], alike: bool
) -> list[str]:
    texts = []
    if missing:
        listed = ", ".join(map(str, missing)) + (" …" if len(missing) == _MOST_NAMED else "")
        verb = "was" if len(ranks) == 1 else "were"
        text = f"Of {world_size} ranks {len(ranks)} {verb} analysed; there is no trace of {listed}"
        if any(rank.waiting_ns is not None for rank in ranks):
            text += (
                ", so that the waiting inside collectives is a lower bound: the last to come may "
                "be one of those"
            )
        texts.append(f"{text}.")
    if alike and ranks[0].stretch == "window":
        texts.append("No decode steps were found: the figures are of all that was recorded.")
    if len({rank.n for rank in ranks}) > 1 and alike:
        listed = ", ".join(f"{rank.n} on rank {rank.rank}" for rank in ranks)
        texts.append(f"The ranks' figures cover different numbers of steps: {listed}.")
    if any(rank.waiting_ns for rank in ranks):
        texts.append(
            "Waiting is what a rank's collective lasts longer than the same one on the rank where "
            "it is shortest: it assumes that one collective's data takes equally long everywhere."
        )
    return texts
