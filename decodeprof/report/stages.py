"""How is the worked example told? One table: what each stage costs, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass

from decodeprof import units
from decodeprof.report.blocks import (
    Block,
    Column,
    Line,
    Note,
    Paragraph,
    Row,
    Section,
    Span,
    Table,
    View,
    line,
)

ABSENT = "-"


@dataclass(frozen=True)
class StageRow:
    """One stage, per decode step at batch 1. None: not known.

    Attributes:
        lesson: what it changes from the stage before.
        step_ns: without a profiler.
        mbu_share: weight bytes ÷ step time ÷ the bandwidth measured in the same run.
        same_tokens: leading tokens that equal the plain loop's, of `compared_tokens`.
        finding: the first of its own diagnosis.
        why_no_finding: what stands in its place; empty where no diagnosis was made.
    """

    name: str
    lesson: str
    step_ns: int | None
    kernels: float | None
    launches: float | None
    graph_launches: float | None
    syncs: float | None
    mbu_share: float | None
    same_tokens: int | None
    compared_tokens: int | None
    finding: str | None = None
    why_no_finding: str = ""


@dataclass(frozen=True)
class StageTable:
    """All stages of one machine.

    Attributes:
        how: where the figures come from, in one sentence.
        notes: what a reader must know to read them rightly.
        left_out: stages that could not run, each with the reason.
    """

    device: str
    how: str
    rows: tuple[StageRow, ...]
    notes: tuple[str, ...]
    left_out: tuple[str, ...] = ()


_COLUMNS = (
    Column("stage"),
    Column("step", "right"),
    Column("tokens/s", "right"),
    Column("kernels", "right"),
    Column("launches", "right"),
    Column("graphs", "right"),
    Column("syncs", "right"),
    Column("MBU", "right"),
    Column("same", "right"),
)


def stages_view(table: StageTable) -> View:
    """Lay the table out for reading: under each stage what it changes, and what it leaves to do."""
    blocks: list[Block] = [
        Paragraph(line(table.how)),
        Table(_COLUMNS, tuple(_row(row) for row in table.rows)),
        *(Note("caveat", line(note)) for note in table.notes),
        *(Note("unknown", line(text)) for text in table.left_out),
    ]
    title = line(Span("decodeprof  ", "muted"), "stages", Span(f"  on {table.device}", "muted"))
    heading = "From the plain loop to the fast one, per decode step at batch 1"
    return View(title, (Section("stages", heading, tuple(blocks)),))


def figures(row: StageRow) -> tuple[str, ...]:
    """A stage's cells as text, in the order of the table's columns."""
    per_s = units.count(round(1e9 / row.step_ns)) if row.step_ns else ABSENT
    same = ABSENT if row.same_tokens is None else f"{row.same_tokens}/{row.compared_tokens}"
    return (
        row.name,
        ABSENT if row.step_ns is None else units.time(row.step_ns),
        per_s,
        _count(row.kernels),
        _count(row.launches),
        _count(row.graph_launches),
        _count(row.syncs),
        ABSENT if row.mbu_share is None else units.share(row.mbu_share),
        same,
    )


def titles() -> tuple[str, ...]:
    """What stands above `figures`."""
    return tuple(column.title for column in _COLUMNS)


def _count(value: float | None) -> str:
    return ABSENT if value is None else units.count(value)


def _row(row: StageRow) -> Row:
    name, *rest = figures(row)
    below: tuple[Line, ...] = ()
    if row.finding is not None:
        below = (line(Span("finding: ", "strong"), row.finding),)
    elif row.why_no_finding:
        below = (line(Span("no finding: ", "strong"), row.why_no_finding),)
    cells = (line(Span(name, "strong")), *(line(text) for text in rest))
    return Row(cells, above=(line(Span(row.lesson, "muted")),), below=below)
