"""Which blocks tell a person what a run without a GPU predicts?"""

from __future__ import annotations

from decodeprof import units
from decodeprof.model.lint import Hazard, LintReport, PredictedCopy, PredictedSync
from decodeprof.model.ops import Place
from decodeprof.report.blocks import (
    Block,
    Code,
    Column,
    Headline,
    Leaf,
    Line,
    Listing,
    Note,
    Paragraph,
    Row,
    Section,
    Span,
    Style,
    Table,
    View,
    line,
)

_SEVERITY_STYLES: dict[str, Style] = {"refused": "bad", "wrong": "warning", "cost": "muted"}
_SEVERITY_WORDS = {
    "refused": "capture fails",
    "wrong": "replays wrongly",
    "cost": "at a price",
}


def lint_view(report: LintReport) -> View:
    """Lay a prediction out for reading."""
    title = (Span("decodeprof lint  ", "muted"), Span(report.target))
    return View(
        title,
        (
            Section(
                "verdict",
                "",
                (Headline(line(_headline(report))), *_stopped(report), *_no_device(report)),
            ),
            _sync_section(report),
            _copy_section(report),
            _hazard_section(report),
            _limits_section(report),
        ),
    )


def _headline(report: LintReport) -> str:
    if not report.on_device:
        return "Nothing to predict: no tensor of the target is ever put on a GPU."
    if report.decode_steps:
        waits = _waits(sum(sync.per_step or 0 for sync in report.syncs)) + " per decode step"
    else:
        waits = (
            _waits(sum(sync.in_prefill + sync.in_last for sync in report.syncs)) + " in the call"
        )
    until = ", until the run ended early" if report.stopped else ""
    return f"Predicted, without a GPU{until}: {waits}; {_graph(report)}."


def _stopped(report: LintReport) -> tuple[Block, ...]:
    if not report.stopped:
        return ()
    text = f"{report.stopped}: what would have come after is not in this report"
    if not report.decode_steps:
        text += "; no decode step was seen whole, so counts are those of the call until then"
    return (Note("caveat", line(text)),)


def _waits(number: float) -> str:
    return f"{units.counted(round(number, 2), 'wait')} for the device"


def _graph(report: LintReport) -> str:
    hazards = report.hazards
    if report.replays_per_step:
        graphs = units.counted(round(report.replays_per_step, 2), "CUDA graph")
        return f"a step replays {graphs} already"
    if hazards is None:
        return "whether a CUDA graph fits the step is unknown"
    if not hazards:
        return "nothing stands against a CUDA graph of the step"
    counts = []
    for severity, words in (
        ("refused", "would make the capture of a CUDA graph fail"),
        ("wrong", "would replay wrongly"),
    ):
        number = sum(hazard.severity == severity for hazard in hazards)
        if number:
            counts.append(f"{units.counted(number, 'line')} {words}")
    if not counts:
        return "a CUDA graph of the step is possible, under conditions that are listed"
    return ", ".join(counts)


def _no_device(report: LintReport) -> tuple[Block, ...]:
    if report.on_device:
        return ()
    text = (
        "the target chooses the CPU although `torch.cuda.is_available()` is true here; "
        "`--on-cuda` makes a GPU the default device"
    )
    return (Note("hint", line(text)),)


def _sync_section(report: LintReport) -> Section:
    title = "Predicted syncs: where the host would wait for the device"
    if not report.syncs:
        return Section("syncs", title, (Note("none", line("none")),))
    rows = tuple(_sync_row(sync) for sync in report.syncs)
    columns = (
        Column("operation"),
        Column("per decode step", "right"),
        Column("before", "right"),
        Column("last step and after", "right"),
    )
    return Section("syncs", title, (Table(columns, rows),))


def _rate(per_step: float | None) -> Line:
    return line("unknown" if per_step is None else units.count(round(per_step, 3)))


def _sync_row(sync: PredictedSync) -> Row:
    return Row(
        (
            line(sync.op.removeprefix("aten::")),
            _rate(sync.per_step),
            line(units.count(sync.in_prefill)),
            line(units.count(sync.in_last)),
        ),
        above=(*_where(sync.place), line(Span(sync.reason, "muted"))),
    )


def _where(place: Place) -> tuple[Line, ...]:
    """A place, its source and who called it: lines of their own, so that none is cut short."""
    head = line(Span(f"{place.file}:{place.line}", "place"), f" in {place.function}")
    code = (line(Span(place.code, "code")),) if place.code else ()
    return (head, *code, *_called_from(place))


def _called_from(place: Place) -> tuple[Line, ...]:
    return tuple(line(Span(text, "muted")) for text in _caller(place))


def _caller(place: Place) -> tuple[str, ...]:
    """The target's own line, where the place itself lies in a package."""
    own = [frame for frame in place.stack if "/" not in frame.split(":")[0]]
    if not own or own[-1].startswith(f"{place.file}:"):
        return ()
    return (f"called from {own[-1]}",)


def _copy_section(report: LintReport) -> Section:
    title = "Predicted copies through pageable memory"
    if not report.copies:
        return Section("copies", title, (Note("none", line("none")),))
    columns = (
        Column("direction"),
        Column("bytes", "right"),
        Column("per decode step", "right"),
        Column("before", "right"),
        Column("last step and after", "right"),
    )
    return Section("copies", title, (Table(columns, tuple(map(_copy_row, report.copies))),))


def _copy_row(copy: PredictedCopy) -> Row:
    remark = (
        "non_blocking has no effect on memory that is not page-locked: the runtime copies it first"
        if copy.non_blocking
        else "page-locked memory (`pin_memory`) with `non_blocking=True` would not stop the host"
    )
    return Row(
        (
            line(copy.direction),
            line(units.count(copy.bytes_per_copy)),
            _rate(copy.per_step),
            line(units.count(copy.in_prefill)),
            line(units.count(copy.in_last)),
        ),
        above=(*_where(copy.place), line(Span(remark, "muted"))),
    )


def _hazard_section(report: LintReport) -> Section:
    title = "Predicted hazards for a CUDA graph of the decode step"
    if report.hazards is None:
        return Section("hazards", title, (Note("unknown", line(report.why_no_hazards)),))
    if not report.hazards:
        return Section("hazards", title, (Note("none", line("none")),))
    return Section("hazards", title, hazard_blocks(report.hazards))


def hazard_blocks(found: list[Hazard]) -> tuple[Block, ...]:
    """Hazards by kind: what each kind does, where, and what to change."""
    blocks: list[Block] = []
    for (_, severity), hazards in _by_kind(found).items():
        word = Span(_SEVERITY_WORDS[severity], _SEVERITY_STYLES[severity])
        blocks += [
            Paragraph((word, Span(f": {hazards[0].why}"))),
            *(block for hazard in hazards for block in _hazard(hazard)),
            Paragraph((Span("change: ", "strong"), Span(hazards[0].change))),
        ]
    return tuple(blocks)


def _by_kind(hazards: list[Hazard]) -> dict[tuple[str, str], list[Hazard]]:
    groups: dict[tuple[str, str], list[Hazard]] = {}
    for hazard in hazards:
        groups.setdefault((hazard.kind, hazard.severity), []).append(hazard)
    return groups


def _hazard(hazard: Hazard) -> tuple[Leaf, ...]:
    place = hazard.place
    inside = f" in the {hazard.inside}" if hazard.inside else ""
    others = units.counted(hazard.count - 1, "more operation")
    more = f" (and {others} here)" if hazard.count > 1 else ""
    told = [
        Span(f"{place.file}:{place.line}", "place"),
        Span(f"{inside}: {hazard.summary}{more}"),
        *(Span(f"; {text}", "muted") for text in _caller(place)),
    ]
    return (Listing((tuple(told),)), *((Code(place.code),) if place.code else ()))


def _limits_section(report: LintReport) -> Section:
    blocks: list[Block] = [Note("caveat", line(text)) for text in report.caveats]
    blocks.append(Listing(tuple(line(text) for text in report.cannot_see)))
    return Section("limits", "What this prediction cannot see", tuple(blocks))
