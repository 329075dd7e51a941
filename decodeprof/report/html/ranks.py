"""A report of several ranks as one self-contained page: a picture, the summary, each rank folded.

It walks the same view as the terminal, and holds no script: it opens offline and asks for nothing.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from markupsafe import Markup

from decodeprof import units
from decodeprof.model.charts import RulePage
from decodeprof.model.ranks import Rank, RankReport
from decodeprof.report.blocks import Note, Section, line
from decodeprof.report.html.page import Tile
from decodeprof.report.html.scale import Tick, percent, round_values
from decodeprof.report.html.templating import MARK, environment, package_text, policy
from decodeprof.report.html.waterfall import floors_fall, gains_fall
from decodeprof.report.ranks import ranks_view
from decodeprof.report.view import view

MOST_FOLDED_BYTES = 800_000
"""What the ranks' own diagnoses may take: a page of more than a megabyte is attached to nothing."""
_TICKS = 5
_FOLDED_ELSEWHERE = "verdicts"
"""The section of the view whose sentences head the folded diagnoses."""
_SHORTENED = ("caveats",)
"""Sections of the view that stand behind the ranks' own diagnoses."""


@dataclass(frozen=True)
class _Part:
    """A stretch of a rank's bar; percentages of the longest rank's time."""

    kind: Literal["compute", "collective", "waiting", "idle"]
    x: str
    width: str
    title: str


@dataclass(frozen=True)
class _Bar:
    """One rank's time."""

    rank: int
    value: str
    slowest: bool
    parts: tuple[_Part, ...]
    told: str
    """All of it as text, for who does not see it."""


@dataclass(frozen=True)
class _Picture:
    """The ranks' times on one scale."""

    bars: tuple[_Bar, ...]
    ticks: tuple[Tick, ...]
    kinds: tuple[tuple[str, str, str], ...]
    """Class, letter and name of each kind of part that occurs."""


@dataclass(frozen=True)
class _Folded:
    """One rank's own diagnosis."""

    rank: Rank
    body: Markup


_KINDS = {
    "compute": "compute",
    "collective": "collectives",
    "waiting": "waiting inside collectives",
    "idle": "idle",
}
_KEYS = {"compute": "C", "collective": "N", "waiting": "W", "idle": "I"}
"""Letters of the legend, all different: colour is never alone."""
_STRETCHES = {"decode step": "decode step", "prefill": "prefill", "window": "recording"}


def ranks_html(report: RankReport, pages: Mapping[str, RulePage]) -> str:
    """Several ranks as one page.

    Args:
        report: what is told.
        pages: of each finding's code what its manual page says.

    Returns:
        The page's text. It holds no date and no random value: the same input gives the same bytes.
    """
    shown = ranks_view(report)
    sections = [one for one in shown.sections if one.key != _FOLDED_ELSEWHERE]
    style = package_text("style.css") + package_text("ranks.css")
    folded = _folded(report, pages)
    return (
        environment()
        .get_template("ranks.html.jinja")
        .render(
            mark=Markup(MARK),
            title=shown.title,
            before=[one for one in sections if one.key not in _SHORTENED],
            behind=[one for one in sections if one.key in _SHORTENED],
            folded=folded,
            tiles=_tiles(report),
            picture=_picture(report),
            policy=policy(style, None),
            style=Markup(style),
            traces=units.counted(len(report.ranks), "trace"),
        )
    )


def _tiles(report: RankReport) -> list[Tile]:
    """The figures that a reader looks for first; only those that are known."""
    tiles = []
    if len(report.ranks) > 1 and report.stretch_ns is not None:
        if report.slowest is not None:
            by = "by its time" if report.slowest_by == "stretch" else "by its time less waiting"
            tiles.append(Tile(f"rank {report.slowest}", "slowest", by))
        else:
            tiles.append(Tile("none", "stands out as slowest", "the ranks are even"))
    for label, spread in (
        (_STRETCHES[report.ranks[0].stretch], report.stretch_ns),
        ("less waiting", report.own_ns),
        ("busy", report.busy_ns),
    ):
        if spread is not None:
            apart = f"{units.share(spread.spread_share)} apart"
            tiles.append(Tile(units.time(spread.high), f"{label}, at most", apart))
    waits = [rank.waiting_ns for rank in report.ranks if rank.waiting_ns is not None]
    if waits and report.stretch_ns is not None and max(waits):
        share = units.share(max(waits) / max(report.stretch_ns.high, 1))
        tiles.append(Tile(units.time(max(waits)), "waiting, at most", f"{share} of a rank's time"))
    return tiles


def _picture(report: RankReport) -> _Picture | None:
    """The ranks' times beside each other; None where they are of stretches of different kinds."""
    if report.stretch_ns is None or not report.stretch_ns.high:
        return None
    longest = report.stretch_ns.high
    bars = tuple(_bar(rank, longest, slowest=rank.rank == report.slowest) for rank in report.ranks)
    used = {part.kind for bar in bars for part in bar.parts}
    return _Picture(
        bars=bars,
        ticks=tuple(
            Tick(percent(value / longest), units.time(value))
            for value in round_values(longest, _TICKS)
        ),
        kinds=tuple((kind, _KEYS[kind], name) for kind, name in _KINDS.items() if kind in used),
    )


def _bar(rank: Rank, longest_ns: int, *, slowest: bool) -> _Bar:
    lengths: dict[Literal["compute", "collective", "waiting", "idle"], int] = {
        "compute": rank.compute_ns,
        "collective": rank.collective_ns,
        "waiting": rank.waiting_ns or 0,
        "idle": rank.idle_ns,
    }
    parts, at = [], 0
    for kind, length in lengths.items():
        if length > 0:
            share = units.share(length / max(rank.stretch_ns, 1))
            parts.append(
                _Part(
                    kind=kind,
                    x=percent(at / longest_ns),
                    width=percent(length / longest_ns),
                    title=f"{_KINDS[kind]}: {units.time(length)}, {share}",
                )
            )
        at += length
    return _Bar(
        rank=rank.rank,
        value=units.time(rank.stretch_ns),
        slowest=slowest,
        parts=tuple(parts),
        told=f"rank {rank.rank}: {'; '.join(part.title for part in parts)}",
    )


def _folded(report: RankReport, pages: Mapping[str, RulePage]) -> list[_Folded]:
    """Each rank's own diagnosis; where all of them would be too much, of those that stand out."""
    odd = {rank for difference in report.differences or () for rank in difference.odd}
    first = sorted(
        report.ranks, key=lambda one: (one.rank != report.slowest, one.rank not in odd, one.rank)
    )
    left, bodies = MOST_FOLDED_BYTES, {}
    for rank in first:
        body = _body(rank, pages)
        left -= len(body.encode())
        if left < 0:
            break
        bodies[rank.rank] = body
    return [_Folded(rank, bodies.get(rank.rank, _only_command(rank))) for rank in report.ranks]


def _body(rank: Rank, pages: Mapping[str, RulePage]) -> Markup:
    diagnosis = rank.diagnosis
    sections = [one for one in view(diagnosis).sections if one.key != "verdict"]
    return _rendered(
        rank,
        sections=[*sections, Section("page", "", (_command(rank, "with its timeline"),))],
        pages=pages,
        falls={"floors": floors_fall(diagnosis), "what-if": gains_fall(diagnosis)},
    )


def _only_command(rank: Rank) -> Markup:
    note = _command(rank, "too much for this page with all the others; its own")
    return _rendered(rank, sections=[Section("page", "", (note,))], pages={}, falls={})


def _command(rank: Rank, what: str) -> Note:
    return Note("hint", line(f"{what}: `decodeprof analyze {shlex.quote(rank.name)}`"))


def _rendered(rank: Rank, **values: object) -> Markup:
    return Markup(environment().get_template("rank.html.jinja").render(rank=rank.rank, **values))
