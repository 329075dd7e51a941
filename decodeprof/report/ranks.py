"""Which blocks tell a person what several ranks' traces say together?"""

from __future__ import annotations

from decodeprof import units
from decodeprof.model.ranks import Rank, RankDifference, RankReport, RankSpread
from decodeprof.report.blocks import (
    Column,
    Fact,
    Facts,
    Headline,
    Leaf,
    Line,
    Listing,
    Note,
    Row,
    Section,
    Span,
    Table,
    View,
    line,
)

_QUANTITIES = {
    "kernels": "kernels",
    "launches": "launches",
    "graph_launches": "graph launches",
    "syncs": "blocking calls",
    "collectives": "collectives",
}
_STRETCHES = {
    "decode step": "One decode step of each rank, in profiled time",
    "prefill": "The prefill of each rank, in profiled time",
    "window": "All that was recorded of each rank",
}


def ranks_view(report: RankReport) -> View:
    """Lay a report of several ranks out for reading."""
    count = len(report.ranks)
    title = (
        Span("decodeprof  ", "muted"),
        Span(units.counted(count, "rank")),
        Span(f"  of {report.world_size}" if report.world_size else "", "muted"),
    )
    sections = (
        Section("verdict", "", (Headline(line(report.sentence)),)),
        _parts(report),
        _spreads(report),
        _differences(report),
        Section("verdicts", "Each rank by itself", (_verdicts(report.ranks),)),
        _failed(report),
        _caveats(report),
    )
    return View(title, tuple(section for section in sections if section is not None))


def _parts(report: RankReport) -> Section:
    columns = (
        Column("rank", "right"),
        Column("time", "right"),
        Column("compute", "right"),
        Column("collectives", "right"),
        Column("waiting", "right"),
        Column("idle", "right"),
        Column("launches", "right"),
        Column("syncs", "right"),
    )
    rows = tuple(_part_row(rank, slowest=rank.rank == report.slowest) for rank in report.ranks)
    kinds = {rank.stretch for rank in report.ranks}
    title = _STRETCHES[kinds.pop()] if len(kinds) == 1 else "Each rank, in profiled time"
    blocks: list[Leaf] = [Table(columns, rows)]
    if report.waiting_unknown is not None:
        blocks.append(
            Note("unknown", line(f"waiting inside collectives: {report.waiting_unknown}"))
        )
    blocks.append(
        Note(
            "hint",
            line(
                "collectives: nothing else ran; waiting: nothing but collectives that waited for "
                "other ranks ran, which looks busy"
            ),
        )
    )
    return Section("ranks", title, tuple(blocks))


def _part_row(rank: Rank, *, slowest: bool) -> Row:
    launches = (
        None
        if rank.launches is None or rank.graph_launches is None
        else rank.launches + rank.graph_launches
    )
    return Row(
        (
            line(Span(str(rank.rank), "bad" if slowest else "plain")),
            line(units.time(rank.stretch_ns)),
            line(Span(units.time(rank.compute_ns), "busy")),
            line(units.time(rank.collective_ns)),
            line(Span(units.time(rank.waiting_ns), "sync")),
            line(units.time(rank.idle_ns)),
            line(units.count(launches)),
            line(units.count(rank.syncs)),
        )
    )


def _spreads(report: RankReport) -> Section | None:
    facts = tuple(
        Fact(label, line(_spread(spread)), line(f"{units.share(spread.spread_share)} apart"))
        for label, spread in (
            ("time", report.stretch_ns),
            ("less waiting", report.own_ns),
            ("busy", report.busy_ns),
        )
        if spread is not None
    )
    if not facts or len(report.ranks) < 2:
        return None
    return Section("spread", "Spread over the ranks", (Facts(facts),))


def _spread(spread: RankSpread) -> str:
    low, high = units.time(spread.low), units.time(spread.high)
    if spread.low == spread.high:
        return f"{low} on every rank"
    return f"{low} on rank {spread.low_rank} to {high} on rank {spread.high_rank}"


def _differences(report: RankReport) -> Section | None:
    if len(report.ranks) < 2:
        return None
    title = "Ranks that differ"
    if report.differences is None:
        text = "unknown: their figures are of stretches of different kinds"
        return Section("differences", title, (Note("unknown", line(text)),))
    if not report.differences:
        text = "every rank launches and waits equally often"
        return Section("differences", title, (Note("none", line(text)),))
    return Section(
        "differences", title, (Listing(tuple(_difference(d) for d in report.differences)),)
    )


def _difference(difference: RankDifference) -> Line:
    odd = ", ".join(
        f"{units.count(value)} on rank {rank}" for rank, value in difference.odd.items()
    )
    what = _QUANTITIES[difference.quantity]
    usual = "" if difference.usual is None else f"{units.count(difference.usual)} on most, "
    return line(f"{what}: {usual}{odd}")


def _verdicts(ranks: list[Rank]) -> Facts:
    return Facts(
        tuple(
            Fact(
                f"rank {rank.rank}",
                line(rank.diagnosis.verdict.sentence, Span(f"  {rank.name}", "muted")),
            )
            for rank in ranks
        )
    )


def _failed(report: RankReport) -> Section | None:
    if not report.failed:
        return None
    return Section(
        "failed",
        "Could not be analysed",
        tuple(
            Note(
                "unknown",
                line(Span(one.name, "place"), f"  {'; '.join([one.what, *one.why.splitlines()])}"),
            )
            for one in report.failed
        ),
    )


def _caveats(report: RankReport) -> Section | None:
    if not report.caveats:
        return None
    return Section(
        "caveats", "Caveats", tuple(Note("caveat", line(text)) for text in report.caveats)
    )
