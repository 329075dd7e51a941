"""How much of a rank's busy time is work, and how much is inside collectives, waiting for others?

A collective's kernel runs on every rank from the moment when that rank comes to it, and spins until
the last one has come: the device looks busy and does nothing. The last rank to come waits for
nobody, so that the shortest run of one collective over all ranks is what moving the data takes, and
what another rank's run is longer by, it waited, at the run's beginning. That needs no common clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from decodeprof.analysis.intervals import Intervals, union
from decodeprof.model.families import family
from decodeprof.model.trace import I64, ActivityKind, Trace

_PAIRED_SENDS = "sendrecv"


@dataclass(frozen=True)
class RankActivity:
    """What one rank's device ran: collectives, in order, and the time covered by anything else."""

    compute: Intervals
    names: tuple[str, ...]
    """Kernel names of the collectives."""
    start_ns: I64
    end_ns: I64


@dataclass(frozen=True)
class BusyParts:
    """Busy time of stretches, split; one entry for each stretch. The three sum to the busy time."""

    compute_ns: I64
    """Anything but collectives ran."""
    collective_ns: I64
    """Only collectives ran, and one of them moved data (or it is not known that none did)."""
    waiting_ns: I64
    """Only collectives ran, and all of them waited for other ranks."""


def rank_activity(trace: Trace, device: int) -> RankActivity:
    """Tell collectives from everything else on one device."""
    table = trace.device
    used = np.unique(table.name)
    collective_names = [n for n in used.tolist() if family(trace.names[n]) == "collective"]
    mine = table.device == device
    collective = mine & np.isin(table.name, collective_names) & (table.kind == ActivityKind.KERNEL)
    rest = mine & ~collective
    rows = np.flatnonzero(collective)
    rows = rows[np.argsort(table.start_ns[rows], kind="stable")]
    return RankActivity(
        compute=union(table.start_ns[rest], table.end_ns[rest]),
        names=tuple(trace.names[n] for n in table.name[rows].tolist()),
        start_ns=table.start_ns[rows],
        end_ns=table.end_ns[rows],
    )


def collectives_alone(activity: RankActivity, start_ns: int, end_ns: int) -> int:
    """Time in [start, end) in which the device ran collectives and nothing else, in ns."""
    parts = busy_parts(activity, np.array([start_ns]), np.array([end_ns]), moving_ns=None)
    return int(parts.collective_ns[0])


def busy_parts(
    activity: RankActivity, starts: I64, ends: I64, *, moving_ns: I64 | None
) -> BusyParts:
    """Split the busy time of each [start, end).

    Args:
        activity: the rank's.
        starts: of the stretches.
        ends: of the stretches.
        moving_ns: for each collective the time in which it moved data, from `moving_times`; None:
            not known, and nothing is called waiting.
    """
    moves = activity.start_ns if moving_ns is None else activity.end_ns - moving_ns
    compute = activity.compute
    working = _with(compute, moves, activity.end_ns)
    busy = _with(compute, activity.start_ns, activity.end_ns)
    in_compute = compute.within(starts, ends)
    in_working = working.within(starts, ends)
    return BusyParts(
        compute_ns=in_compute,
        collective_ns=in_working - in_compute,
        waiting_ns=busy.within(starts, ends) - in_working,
    )


def _with(some: Intervals, starts: I64, ends: I64) -> Intervals:
    return union(np.r_[some.starts, starts], np.r_[some.ends, ends])


def moving_times(ranks: Sequence[RankActivity], stretches: Sequence[I64]) -> list[I64] | str:
    """For each rank's collectives the time in which each moves data: its shortest run on any rank.

    Collectives are paired in order. Where the recordings of two ranks did not begin or end
    together, those inside the stretches are paired alone; the others are not called waiting.

    Args:
        ranks: what each ran.
        stretches: of each rank, shape (n, 2): starts and ends in ns, in order and disjoint.

    Returns:
        Times in ns, aligned with each rank's collectives; or why they cannot be told.
    """
    if len(ranks) < 2:
        return "there is one rank alone"
    if any(_PAIRED_SENDS in name.lower() for rank in ranks for name in rank.names):
        return "sends and receives join two ranks each, and the traces do not say which"
    everything = [np.arange(len(rank.names)) for rank in ranks]
    why = _why_unpaired(ranks, everything)
    if why is None:
        return _shortest(ranks, everything)
    inside = [_inside(rank, rows) for rank, rows in zip(ranks, stretches, strict=True)]
    if len({len(rows) for rows in stretches}) > 1 or _why_unpaired(ranks, inside) is not None:
        return why
    return _shortest(ranks, inside)


def _inside(rank: RankActivity, stretches: I64) -> I64:
    """Indices of the collectives that start in any of the stretches."""
    at = np.searchsorted(stretches[:, 0], rank.start_ns, side="right") - 1
    inside = (at >= 0) & (rank.start_ns < stretches[at, 1])
    return np.flatnonzero(inside).astype(np.int64)


def _why_unpaired(ranks: Sequence[RankActivity], rows: Sequence[I64]) -> str | None:
    counts = {len(some) for some in rows}
    if len(counts) > 1:
        return (
            f"the ranks ran from {min(counts):,} to {max(counts):,} collectives, so that one "
            "rank's cannot be paired with another's"
        )
    names = {
        tuple(rank.names[row] for row in some.tolist())
        for rank, some in zip(ranks, rows, strict=True)
    }
    return None if len(names) == 1 else "the ranks ran different collectives, or in another order"


def _shortest(ranks: Sequence[RankActivity], rows: Sequence[I64]) -> list[I64]:
    runs = [rank.end_ns - rank.start_ns for rank in ranks]
    shortest = np.stack([run[some] for run, some in zip(runs, rows, strict=True)]).min(axis=0)
    for run, some in zip(runs, rows, strict=True):
        run[some] = shortest
    return runs
