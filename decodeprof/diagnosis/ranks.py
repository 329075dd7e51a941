"""Traces of several ranks to one report: each rank's diagnosis, and what they say together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from decodeprof import units
from decodeprof.analysis.collectives import (
    BusyParts,
    RankActivity,
    busy_parts,
    moving_times,
    rank_activity,
)
from decodeprof.analysis.figures import PhaseFigures
from decodeprof.diagnosis.evidence import Evidence
from decodeprof.diagnosis.pipeline import analyze_path
from decodeprof.diagnosis.rank_names import Numbered, ranks_of
from decodeprof.diagnosis.rank_summary import summed_up
from decodeprof.errors import DecodeprofError, InputError, UsageError
from decodeprof.model.diagnosis import Diagnosis, StepFigures
from decodeprof.model.ranks import FailedRank, Rank, RankReport
from decodeprof.model.trace import I64, Member

Stretch = Literal["decode step", "prefill", "window"]


@dataclass(frozen=True)
class _Read:
    """What is kept of one trace: its tables are let go before the next one is read."""

    name: str
    member: Member | None
    diagnosis: Diagnosis
    activity: RankActivity
    stretch: Stretch
    rows: I64
    """Shape (n, 2): device start and end of each stretch that is covered."""
    shown: int
    """Index of the stretch whose times are shown."""
    counted: StepFigures | None


def analyze_ranks(
    paths: Sequence[Path], *, told: Callable[[Path], None] | None = None
) -> RankReport:
    """Diagnose the traces of several ranks, one after another.

    Args:
        paths: one trace or recording for each rank.
        told: called with each path before it is read.

    Raises:
        InputError: none of them can be analysed.
        UsageError: none of them is there.
    """
    read: list[_Read] = []
    failed: list[FailedRank] = []
    missing = 0
    for path in paths:
        if told is not None:
            told(path)
        try:
            read.append(_read(path))
        except DecodeprofError as error:
            missing += isinstance(error, UsageError)
            failed.append(
                FailedRank(name=str(path), what=error.what, why=error.why, hint=error.hint)
            )
    if not read:
        kind = UsageError if missing == len(failed) else InputError
        raise kind(
            f"of {units.counted(len(paths), 'trace')} none could be analysed",
            why="\n".join(f"{f.what}: {f.why}" if f.why else f.what for f in failed),
            hint="`decodeprof analyze FILE` says more of each",
        )
    members = [one.member for one in read]
    numbered = ranks_of([one.name for one in read], members)
    moving = _moving(read)
    ranks = sorted(
        (
            _rank(one, rank, numbered, None if isinstance(moving, str) else moving[at])
            for at, (one, rank) in enumerate(zip(read, numbered.ranks, strict=True))
        ),
        key=lambda rank: rank.rank,
    )
    sizes = {member.world_size for member in members if member and member.world_size}
    caveats = [numbered.caveat] if numbered.caveat else []
    if len(sizes) > 1:
        caveats.append(f"The traces are of worlds of {' and '.join(map(str, sorted(sizes)))} ranks")
    return summed_up(
        ranks,
        world_size=sizes.pop() if len(sizes) == 1 and numbered.source == "metadata" else None,
        waiting_unknown=moving if isinstance(moving, str) else None,
        failed=failed,
        caveats=caveats,
    )


def _read(path: Path) -> _Read:
    analyzed = analyze_path(path)
    evidence, diagnosis = analyzed.evidence, analyzed.diagnosis
    if evidence.device is None:
        raise InputError(
            f"`{path}` holds no GPU activity",
            why="nothing can be said of its rank beside others",
            hint=f"`decodeprof analyze {path}` shows what it does hold",
        )
    stretch, figures = _figures(evidence)
    if figures is None:
        mine = evidence.trace.device.device == evidence.device
        table = evidence.trace.device
        rows = np.array([[table.start_ns[mine].min(), table.end_ns[mine].max()]], np.int64)
        shown = 0
    else:
        steps = evidence.steps
        starts, ends = steps.device_start_ns[figures.rows], steps.device_end_ns[figures.rows]
        rows = np.stack([starts, ends], axis=1)
        shown = int(np.flatnonzero(figures.rows == figures.shown)[0])
    return _Read(
        name=path.resolve().name,
        member=evidence.trace.member,
        diagnosis=diagnosis,
        activity=rank_activity(evidence.trace, evidence.device),
        stretch=stretch,
        rows=rows,
        shown=shown,
        counted=diagnosis.step if stretch == "decode step" else diagnosis.prefill,
    )


def _figures(evidence: Evidence) -> tuple[Stretch, PhaseFigures | None]:
    if evidence.decode is not None:
        return "decode step", evidence.decode
    if evidence.prefill is not None:
        return "prefill", evidence.prefill
    return "window", None


def _moving(read: Sequence[_Read]) -> list[I64] | str:
    """How long each collective of each rank moved data; or why that cannot be told."""
    members = [one.member for one in read]
    world = {member.rank for member in members if member is not None}
    for member in members:
        for group in member.groups if member is not None else ():
            if len(world) > 1 and not world <= set(group):
                return (
                    f"the ranks are in several process groups (one is of {len(group)}), and the "
                    "traces do not say which one a collective is of"
                )
    return moving_times([one.activity for one in read], [one.rows for one in read])


@dataclass(frozen=True)
class _Counted:
    """Counts of a stretch; None: not captured."""

    kernels: float
    launches: float | None
    graph_launches: float | None
    syncs: float | None


def _of_the_window(diagnosis: Diagnosis) -> _Counted:
    counts = diagnosis.counts
    calls = "calls" in diagnosis.source.captured
    return _Counted(
        kernels=counts.kernels,
        launches=counts.launches if calls else None,
        graph_launches=counts.graph_launches if calls else None,
        syncs=sum(counts.sync_calls.values()) if calls else None,
    )


def _rank(read: _Read, rank: int, numbered: Numbered, moving: I64 | None) -> Rank:
    starts, ends = read.rows[:, 0], read.rows[:, 1]
    parts: BusyParts = busy_parts(read.activity, starts, ends, moving_ns=moving)
    at = read.shown
    compute, collective, waiting = (
        int(column[at]) for column in (parts.compute_ns, parts.collective_ns, parts.waiting_ns)
    )
    length = int(ends[at] - starts[at])
    inside = [
        int(((read.activity.start_ns >= start) & (read.activity.start_ns < end)).sum())
        for start, end in read.rows.tolist()
    ]
    counted = _of_the_window(read.diagnosis) if read.stretch == "window" else read.counted
    return Rank(
        rank=rank,
        rank_from=numbered.source,
        name=read.name,
        stretch=read.stretch,
        n=len(starts),
        stretch_ns=length,
        compute_ns=compute,
        collective_ns=collective,
        waiting_ns=waiting if moving is not None else None,
        idle_ns=length - compute - collective - waiting,
        kernels=counted.kernels if counted else None,
        launches=counted.launches if counted else None,
        graph_launches=counted.graph_launches if counted else None,
        syncs=counted.syncs if counted else None,
        collectives=sum(inside) / len(inside),
        diagnosis=read.diagnosis,
    )
