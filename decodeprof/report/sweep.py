"""How is a sweep told: one sentence, the curves, the points, the crossings, the caveats?"""

from __future__ import annotations

import bisect
import csv
import io

from decodeprof import units
from decodeprof.model.sweep import BucketPlan, Crossing, Point, Sweep
from decodeprof.report.blocks import (
    Block,
    Code,
    Column,
    Fact,
    Facts,
    Headline,
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
from decodeprof.report.plot import Curve, drawn

ABSENT = "-"
_INDENT = 4
"""Of code in a section, in cells."""
_BETWEEN = 2
"""Cells before each column of a table."""
_TITLES = {
    "floors": ("device floor reaches the host's time", "busy + n × node gap = n × launch cost"),
    "plateau": ("eager step leaves its plateau", "10 % above the host's time"),
    "roof": ("kernels reach the roof", "bytes or FLOPs explain 0.6 of the busy time"),
    "graph_gain": ("a graph stops paying", "it gains less than a tenth"),
}


_FORESEEN_FROM = {
    "floors": "its device floor and what the others must read and compute beyond it",
    "replay": "its recorded step replayed with kernels that grow by their bytes, FLOPs, elements "
    "and blocks",
}


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
        Section("crossings", "Crossings", (*_crossings(sweep), *_prediction(sweep))),
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


_COLUMNS = (
    ("eager", "eager_ns"),
    ("graph", "graph_ns"),
    ("predicted", "predicted_graph_ns"),
    ("host", "host_ns"),
    ("device", "device_ns"),
    ("bytes", "bytes_ns"),
    ("FLOPs", "flops_ns"),
    ("busy", "busy_ns"),
    ("TKLQT", "tklqt_ns"),
)


def _points(sweep: Sweep, width: int) -> tuple[Block, ...]:
    shown = [
        (title, field)
        for title, field in _COLUMNS
        if any(getattr(point, field) is not None for point in sweep.points)
    ]
    counted = any(point.kernels is not None for point in sweep.points)
    shares = [
        (title, field)
        for title, field in (
            ("exposed", "exposed_launch_share"),
            ("MBU", "mbu_share"),
            ("MFU", "mfu_share"),
        )
        if any(getattr(point, field) is not None for point in sweep.points)
    ]
    columns = [
        Column(sweep.axis, "right"),
        *(Column(title, "right") for title, _ in shown),
        *([Column("kernels", "right")] if counted else []),
        *(Column(title, "right") for title, _ in shares),
    ]
    rows = []
    for point in sweep.points:
        cells = [
            f"{point.value:,}",
            *(_time(getattr(point, field)) for _, field in shown),
            *([units.count(point.kernels) if point.kernels is not None else ABSENT] * counted),
            *(_share(getattr(point, field)) for _, field in shares),
        ]
        below: tuple[Line, ...] = ()
        if point.failed:
            below = (line(Span("left out: ", "warning"), point.failed),)
        rows.append(Row(tuple(line(cell) for cell in cells), below=below))
    blocks: list[Block] = [*_in_width(columns, rows, width)]
    told = {
        "predicted": "predicted: the step as one graph, by replay; no graph was run.",
        "host": "host: activities × the cost of a launch, taken from the launch-bound points.",
        "device": "device: busy + one node gap for each activity.",
        "bytes": "bytes, FLOPs: the least that must be read and computed, at the rates below.",
        "TKLQT": "TKLQT: kernel start − launch start, summed over the kernels of an eager step.",
    }
    names = {title for title, _ in shown}
    blocks += [Note("hint", line(text)) for name, text in told.items() if name in names]
    if shares:
        blocks.append(
            Note(
                "hint",
                line(
                    "exposed: what is left of the eager step without the device floor. MBU, MFU: "
                    "of the faster of both steps."
                ),
            )
        )
    return tuple(blocks)


def _in_width(columns: list[Column], rows: list[Row], width: int) -> list[Table]:
    """One table, or several that each begin with the axis, so that none is wider than `width`."""
    needs = [
        _BETWEEN + max(len(column.title), *(_length(row.cells[index]) for row in rows))
        for index, column in enumerate(columns)
    ]
    others = list(range(1, len(columns)))
    groups = [[0]]
    for each in range(len(others), 0, -1):
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


def _crossings(sweep: Sweep) -> tuple[Block, ...]:
    reasons = {crossing.reason for crossing in sweep.crossings}
    if len(reasons) == 1 and all(crossing.answer == "unknown" for crossing in sweep.crossings):
        return (Note("unknown", line(f"none can be told: {reasons.pop()}")),)
    facts = []
    for crossing in sweep.crossings:
        name, how = _TITLES[crossing.kind]
        facts.append(Fact(name, line(_answer(crossing, sweep.axis)), line(Span(how, "muted"))))
    return (Facts(tuple(facts)),)


def _answer(crossing: Crossing, axis: str) -> str:
    between = crossing.between or (0, 0)
    if crossing.answer == "none":
        return f"none up to {axis} {between[1]:,}"
    if crossing.answer == "before":
        return f"before {axis} {between[0]:,}"
    if crossing.answer == "unknown":
        return f"unknown: {crossing.reason}"
    return (
        f"{axis} {_number(crossing.at)} ({_number(crossing.low)} to {_number(crossing.high)}), "
        f"between points {between[0]:,} and {between[1]:,}"
    )


def _prediction(sweep: Sweep) -> tuple[Block, ...]:
    prediction = sweep.prediction
    if prediction is None:
        return ()
    first, last = sweep.points[0].value, sweep.points[-1].value
    seen = f"the floors were foreseen not to cross up to {sweep.axis} {last:,}"
    if prediction.at is not None:
        seen = f"the floors were foreseen to cross at {sweep.axis} {_number(prediction.at)}"
        seen += _off(prediction.error_share)
    if prediction.plateau_at is not None:
        seen += f", and the eager step to leave its plateau at {_number(prediction.plateau_at)}"
        seen += _off(prediction.plateau_error_share)
    how = _FORESEEN_FROM[prediction.method]
    text = f"From {sweep.axis} {first:,} alone, that is, {how}, {seen}."
    measured = sweep.crossings[0]
    good = [point for point in sweep.points if point.failed is None]
    if prediction.at is None and measured.at is not None:
        index = bisect.bisect_left([point.value for point in good], measured.at)
        foreseen, point = prediction.device_ns[index], good[index]
        text += (
            f" That misses: at {sweep.axis} {point.value:,} the device was to need "
            f"{units.time(foreseen)} and takes {units.time(point.device_ns)}. "
            "Its kernels move more than the least, or more slowly."
        )
    return (Paragraph(line(text)),)


def _off(error_share: float | None) -> str:
    if error_share is None:
        return ""
    sign = "above" if error_share > 0 else "below"
    return f", {units.share(abs(error_share))} {sign} what was measured"


def _plans(sweep: Sweep) -> tuple[Block, ...]:
    columns = (
        Column("plan"),
        Column("buckets"),
        Column("padded rows", "right"),
        Column("wasted time", "right"),
        Column("mean step", "right"),
    )
    return (
        Table(columns, tuple(_plan(plan) for plan in sweep.plans)),
        Note(
            "hint",
            line(
                "wasted time: the step at the bucket less the step at the live size, over all of "
                "it; unknown where a size lies beyond the last point."
            ),
        ),
    )


def _plan(plan: BucketPlan) -> Row:
    cells = (
        plan.name,
        _buckets(plan.buckets),
        units.share(plan.rows_share),
        units.share(plan.time_share),
        units.time(plan.step_ns),
    )
    return Row(tuple(line(cell) for cell in cells))


def _buckets(buckets: list[int]) -> str:
    if len(buckets) <= 8:
        return ", ".join(map(str, buckets))
    return f"{', '.join(map(str, buckets[:4]))}, … {buckets[-1]} ({len(buckets)})"


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


def _time(ns: int | None) -> str:
    return ABSENT if ns is None else units.time(ns)


def _share(share: float | None) -> str:
    return ABSENT if share is None else units.share(share)


def _number(value: float | None) -> str:
    return units.UNKNOWN if value is None else units.count(float(f"{value:.2g}"))


def sweep_csv(sweep: Sweep) -> bytes:
    """The points as CSV: one row a point, times in ns, what is unknown empty."""
    file = io.StringIO()
    names = list(Point.__struct_fields__)
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow([sweep.axis, *names[1:]])
    for point in sweep.points:
        writer.writerow(["" if (v := getattr(point, name)) is None else v for name in names])
    return file.getvalue().encode()
