"""How is a sweep told: one sentence, the curves, the points, the crossings, the caveats?"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable

from decodeprof import units
from decodeprof.model.sweep import BucketPlan, Point, Sweep
from decodeprof.report.blocks import (
    Block,
    Code,
    Column,
    Fact,
    Facts,
    Headline,
    Line,
    Note,
    Row,
    Section,
    Span,
    Table,
    View,
    line,
)
from decodeprof.report.crossings import crossing_blocks, prediction_blocks
from decodeprof.report.plot import Curve, drawn

ABSENT = "-"
_INDENT = 4
"""Of code in a section, in cells."""
_BETWEEN = 2
"""Cells before each column of a table."""


def sweep_view(sweep: Sweep, *, width: int) -> View:
    """Lay a sweep out for reading.

    Args:
        sweep: the judged sweep.
        width: cells that the curves may take.
    """
    title = line(
        Span("decodeprof  ", "muted"),
        f"sweep over {sweep.axis}: {sweep.subject}",
        Span(f"  on {sweep.device or 'a CPU'}", "muted"),
    )
    sections = [
        Section("verdict", "", (Headline(line(sweep.sentence)),)),
        *_curves(sweep, width - _INDENT),
        Section("points", f"Points, per step, by {sweep.axis}", _points(sweep, width)),
        Section("crossings", "Crossings", (*crossing_blocks(sweep), *prediction_blocks(sweep))),
    ]
    if sweep.plans:
        sections.append(Section("padding", "What padding to captured sizes costs", _plans(sweep)))
    sections.append(Section("basis", "What this rests on", _basis(sweep)))
    return View(title, tuple(sections))


def _curves(sweep: Sweep, width: int) -> list[Section]:
    def curve(mark: str, name: str, field: str) -> Curve:
        return Curve(mark, name, tuple((p.value, getattr(p, field)) for p in sweep.points))

    roof = Curve("r", "roof (bytes or FLOPs)", tuple((p.value, _roof(p)) for p in sweep.points))
    curves = [
        roof,
        curve("d", "device floor", "device_ns"),
        curve("h", "host", "host_ns"),
        curve("g", "graph step", "graph_ns"),
        curve("p", "graph, predicted", "predicted_graph_ns"),
        curve("e", "eager step", "eager_ns"),
    ]
    lines = drawn(curves, x_name=sweep.axis, width=width)
    if not lines:
        return []
    return [
        Section("curves", "Step time (both axes logarithmic)", tuple(Code(one) for one in lines))
    ]


def _roof(point: Point) -> float | None:
    return max(point.bytes_ns or 0, point.flops_ns or 0) or None


def _time(ns: float | None) -> str:
    return ABSENT if ns is None else units.time(ns)


def _share(share: float | None) -> str:
    return ABSENT if share is None else units.share(share)


def _gain(gain: float | None) -> str:
    return ABSENT if gain is None else f"{gain:.2f} ×"


def _per_s(rate: float | None) -> str:
    return ABSENT if rate is None else f"{rate:,.0f}" if rate >= 10 else f"{rate:.2g}"


def _count(number: float | None) -> str:
    return ABSENT if number is None else units.count(number)


_COLUMNS: tuple[tuple[str, str, Callable[[float | None], str]], ...] = (
    ("eager", "eager_ns", _time),
    ("graph", "graph_ns", _time),
    ("predicted", "predicted_graph_ns", _time),
    ("gain", "graph_gain", _gain),
    ("tokens/s", "tokens_per_s", _per_s),
    ("host", "host_ns", _time),
    ("device", "device_ns", _time),
    ("bytes floor", "bytes_ns", _time),
    ("FLOPs floor", "flops_ns", _time),
    ("busy", "busy_ns", _time),
    ("TKLQT", "tklqt_ns", _time),
    ("kernels", "kernels", _count),
    ("exposed", "exposed_launch_share", _share),
    ("MBU", "mbu_share", _share),
    ("MFU", "mfu_share", _share),
)
_HINTS = (
    ("predicted", "predicted: the step as one graph, by replay; no graph was run."),
    ("gain", "gain: the eager step ÷ the graph's."),
    (
        "host",
        "host: activities × the host's time for one, as the launch-bound points have it. An "
        "activity is a kernel, a copy or a set on the device.",
    ),
    (
        "device",
        "device: busy + one node gap for each activity. A node gap is the pause between two "
        "kernels of a graph.",
    ),
    ("bytes floor", "bytes floor: the least that must be read ÷ the bandwidth below."),
    ("FLOPs floor", "FLOPs floor: the least that must be computed ÷ the arithmetic rate below."),
    ("busy", "busy: the device runs something, in an eager step."),
    (
        "TKLQT",
        "TKLQT: total kernel launch and queuing time, kernel start − launch start summed over an "
        "eager step's kernels. Where it is large, steps queued behind earlier ones: it then "
        "depends on how many were queued, and large values do not compare.",
    ),
    ("exposed", "exposed: what is left of the eager step without the device floor."),
    ("MBU", "MBU: memory bandwidth utilization, the bytes floor ÷ the step."),
    ("MFU", "MFU: model FLOPs utilization, the FLOPs floor ÷ the step."),
)
_OF_THE_FASTER = ("tokens/s", "MBU", "MFU")


def _points(sweep: Sweep, width: int) -> tuple[Block, ...]:
    shown = [
        (title, field, told)
        for title, field, told in _COLUMNS
        if any(getattr(point, field) is not None for point in sweep.points)
    ]
    columns = [Column(title, "right") for title in (sweep.axis, *(name for name, _, _ in shown))]
    rows = []
    for point in sweep.points:
        cells = [f"{point.value:,}", *(told(getattr(point, field)) for _, field, told in shown)]
        below: tuple[Line, ...] = ()
        if point.failed:
            below = (line(Span("left out: ", "warning"), point.failed),)
        rows.append(Row(tuple(line(cell) for cell in cells), below=below))
    names = {title for title, _, _ in shown}
    hints = [text for name, text in _HINTS if name in names]
    faster = [name for name in _OF_THE_FASTER if name in names]
    if faster and "graph" in names:
        hints.append(f"{', '.join(faster)}: of the faster of both steps, eager and graph.")
    return (*_in_width(columns, rows, width), *(Note("hint", line(text)) for text in hints))


def _in_width(columns: list[Column], rows: list[Row], width: int) -> list[Table]:
    """One table, or several of about as many columns, so that none is wider than `width`.

    Each begins with the axis.
    """
    needs = [
        _BETWEEN + max(len(column.title), *(_length(row.cells[index]) for row in rows))
        for index, column in enumerate(columns)
    ]
    others = list(range(1, len(columns)))
    groups = [[0]]
    for tables in range(1, len(others) + 1):
        each = -(-len(others) // tables)
        groups = [[0, *others[at : at + each]] for at in range(0, len(others), each)]
        if all(sum(needs[index] for index in group) <= width for group in groups):
            break
    return [
        Table(
            tuple(columns[index] for index in group),
            # A line below a row is said once.
            tuple(
                Row(
                    tuple(row.cells[index] for index in group),
                    below=row.below if group is groups[0] else (),
                )
                for row in rows
            ),
        )
        for group in groups
    ]


def _length(cell: Line) -> int:
    return sum(len(span.text) for span in cell)


def _plans(sweep: Sweep) -> tuple[Block, ...]:
    columns = (
        Column("plan"),
        Column("sizes", "right"),
        Column("padded", "right"),
        Column("wasted", "right"),
        Column("mean step", "right"),
    )
    hints: tuple[str, ...] = (
        "sizes: how many are captured; they stand below their plan.",
        "padded: rows that only fill up a bucket, of all rows that run.",
        "wasted: the step at the bucket less the step at the live size, over all of it; unknown "
        "where a size lies beyond the last point.",
    )
    if any(plan.time_share is not None and plan.time_share < 0 for plan in sweep.plans):
        hints += ("Less than 0: a larger batch was measured to take less than the live one.",)
    return (
        Table(columns, tuple(_plan(plan) for plan in sweep.plans)),
        *(Note("hint", line(text)) for text in hints),
    )


def _plan(plan: BucketPlan) -> Row:
    cells = (
        plan.name,
        f"{len(plan.buckets):,}",
        units.share(plan.rows_share),
        units.share(plan.time_share),
        units.time(plan.step_ns),
    )
    return Row(
        tuple(line(cell) for cell in cells),
        below=(line(Span(_buckets(plan.buckets), "muted")),),
    )


def _buckets(buckets: list[int]) -> str:
    told = list(map(str, buckets))
    return ", ".join(told if len(told) <= 8 else [*told[:6], f"… {told[-1]}"])


def _basis(sweep: Sweep) -> tuple[Block, ...]:
    facts = [
        Fact("node gap", line(units.time(sweep.node_gap_ns))),
        Fact("bandwidth", line(units.bandwidth(sweep.bandwidth_bytes_per_s))),
        Fact("arithmetic rate", line(_flops(sweep.flops_per_s))),
    ]
    cost = sweep.launch_cost_ns
    if cost is not None:
        facts.append(
            Fact(
                "host, an activity",
                line(units.time(cost.expected)),
                line(
                    Span(
                        f"{units.time(cost.low)} to {units.time(cost.high)} over the launch-bound "
                        "points",
                        "muted",
                    )
                ),
            )
        )
    notes = [Note("caveat", line(text)) for text in sweep.caveats]
    return (Facts(tuple(facts)), *notes)


def _flops(per_s: float | None) -> str:
    return units.UNKNOWN if per_s is None else f"{per_s / 1e12:,.3g} TFLOP/s"


def sweep_csv(sweep: Sweep) -> bytes:
    """The points as CSV: one row a point, times in ns, what is unknown empty."""
    file = io.StringIO()
    names = list(Point.__struct_fields__)
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow([sweep.axis, *names[1:]])
    for point in sweep.points:
        writer.writerow(["" if (v := getattr(point, name)) is None else v for name in names])
    return file.getvalue().encode()
