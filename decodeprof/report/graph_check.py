"""Which blocks tell a person what came of capturing a step?"""

from __future__ import annotations

from decodeprof import units
from decodeprof.model.graph_check import Attempt, GraphCheck, Refusal, Segment, StepTimes
from decodeprof.report.blocks import (
    Block,
    Code,
    Column,
    Fact,
    Facts,
    Headline,
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
from decodeprof.report.lint import hazard_blocks

_STYLES: dict[str, Style] = {"captures": "good", "wrong": "bad", "refused": "bad"}
_WORDS = {
    "captures": "captured, and right",
    "wrong": "captured, and wrong",
    "refused": "refused",
    "unknown": "could not tell",
}
_SHORT_WORDS = {**_WORDS, "captures": "right", "wrong": "wrong"}
"""In a table, where few cells are to spare."""
_MOST_LISTED = 8


def graph_check_view(found: GraphCheck) -> View:
    """Lay the check out for reading."""
    title = [Span("decodeprof graph-check  ", "muted"), Span(found.target)]
    if found.device:
        title.append(Span(f"  on {found.device}", "muted"))
    sections = [
        Section("verdict", "", (Headline(line(found.sentence)),)),
        _stops(found),
        _attempts(found),
        _replay(found),
        _segments(found),
        _hazards(found),
        _caveats(found),
    ]
    return View(tuple(title), tuple(each for each in sections if each is not None))


def graph_check_section(found: GraphCheck) -> Section:
    """The same in short, as part of a diagnosis."""
    word = Span(_WORDS[found.verdict], _STYLES.get(found.verdict, "unknown"))
    blocks: list[Block] = [
        Paragraph((Span("measured: "), word, Span(f". {found.sentence}"))),
        *_refused(found.refusal),
        *_refused(found.whole_step_refusal),
    ]
    return Section("graph-check", "The step, captured as a CUDA graph", tuple(blocks))


def _stops(found: GraphCheck) -> Section | None:
    blocks: list[Block] = [*_refused(found.refusal)]
    if found.whole_step_refusal is not None:
        text = "a capture from one step's begin to the next one's, the loop's own code too:"
        blocks += [Paragraph(line(text)), *_refused(found.whole_step_refusal)]
    elif found.whole_step is not None and found.whole_step.captured:
        text = "the loop's own code was captured along with one step, without an error"
        blocks.append(Note("none", line(text)))
    return Section("stops", "What stops a capture", tuple(blocks)) if blocks else None


def _refused(refusal: Refusal | None) -> list[Block]:
    if refusal is None:
        return []
    error = refusal.error
    blocks: list[Block] = []
    if error.place is not None:
        place = error.place
        blocks.append(Code(place.code, f"{place.file}:{place.line} {place.function}"))
    rows = [
        Fact("first error", line(f"{error.kind}: {(error.message.splitlines() or [''])[0]}")),
        Fact("rule", line(refusal.rule)),
        Fact("why", line(refusal.why)),
        Fact("change", line(refusal.change)),
    ]
    if refusal.op is not None:
        rows.insert(0, Fact("operation", line(_short(refusal.op))))
    return [*blocks, Facts(tuple(rows))]


def _short(op: str) -> str:
    """``aten::add.Tensor`` as ``add``."""
    return op.removeprefix("aten::").partition(".")[0]


def _attempts(found: GraphCheck) -> Section | None:
    if not found.attempts:
        return None
    figures = ("before", "with graph", "on device", "capture", "pool")
    columns = (
        Column("shape"),
        Column("outcome"),
        *(Column(title, "right") for title in figures),
    )
    rows = tuple(_attempt_row(each) for each in found.attempts)
    text = "unprofiled medians (p10 to p90, number of steps below)"
    blocks = (Table(columns, rows), Note("hint", line(text)))
    return Section("measured", "Measured", blocks)


def _attempt_row(attempt: Attempt) -> Row:
    word = "refused" if not attempt.captured else "unknown"
    if attempt.captured and attempt.matches is not None:
        word = "captures" if attempt.matches else "wrong"
    seconds = attempt.capture_seconds
    return Row(
        (
            line(attempt.bucket or "as given"),
            line(Span(_SHORT_WORDS[word], _STYLES.get(word, "unknown"))),
            _median(attempt.before),
            _median(attempt.after),
            _median(attempt.graph_device),
            line("–" if seconds is None else f"{seconds:.2g} s"),
            line("–" if attempt.pool_bytes is None else units.bytes_(attempt.pool_bytes)),
        ),
        below=tuple(_spreads(attempt)),
    )


def _median(times: StepTimes | None) -> Line:
    return line("–" if times is None else units.time(times.median_ns))


def _spreads(attempt: Attempt) -> list[Line]:
    named = (
        ("before", attempt.before),
        ("with the graph", attempt.after),
        ("the graph alone on the device", attempt.graph_device),
        ("its launch call", attempt.graph_host),
    )
    parts = [
        f"{name} {units.time(each.p10_ns)} to {units.time(each.p90_ns)}, n = {each.n}"
        for name, each in named
        if each is not None
    ]
    return [line(Span("; ".join(parts), "muted"))] if parts else []


def _replay(found: GraphCheck) -> Section | None:
    blocks: list[Block] = []
    for attempt in found.attempts:
        label = f"{attempt.bucket}: " if attempt.bucket else ""
        items = [
            *(f"{d.name} ({d.kind}, input {d.input}): {d.text}" for d in attempt.differences),
            *(f"input {text}" for text in attempt.changed_inputs),
            *(f"Python: {c.name} {c.text}" for c in attempt.python_changes),
        ]
        if items:
            more = len(items) - _MOST_LISTED
            shown = [line(item) for item in items[:_MOST_LISTED]]
            shown += [line(Span(f"and {more} more", "muted"))] if more > 0 else []
            text = f"{label}what a step changes, or leaves otherwise than a replay does:"
            blocks += [Paragraph(line(text)), Listing(tuple(shown))]
        if attempt.static_inputs:
            names = ", ".join(attempt.static_inputs)
            size = units.bytes_(attempt.static_input_bytes)
            text = f"{label}inputs that need a buffer which stays ({size}): {names}"
            blocks.append(Paragraph(line(text)))
    return Section("replay", "Replay against the step itself", tuple(blocks)) if blocks else None


def _segments(found: GraphCheck) -> Section | None:
    if not found.segments:
        return None
    columns = (Column("segment"), Column("operations", "right"), Column("from"))
    rows = tuple(_segment_row(index, each) for index, each in enumerate(found.segments, 1))
    blocks: list[Block] = [Table(columns, rows)]
    if found.piecewise_ns is not None:
        text = f"predicted step with a graph for each segment: {units.time(found.piecewise_ns)}"
        blocks.append(Paragraph(line(text)))
    elif found.why_no_piecewise:
        text = f"the step with a graph for each segment is not predicted: {found.why_no_piecewise}"
        blocks.append(Note("unknown", line(text)))
    return Section("segments", "Parts of the whole step that can be captured", tuple(blocks))


def _segment_row(index: int, segment: Segment) -> Row:
    at, first = segment.stopped_at, segment.first
    below = [line("ends with the step")]
    if at is not None:
        op = _short(segment.stopped_by)
        below = [line("ends before ", Span(f"{at.file}:{at.line}", "place"), f": {op}")]
        below += [line(Span(at.code, "code"))] if at.code else []
    return Row(
        (
            line(str(index)),
            line(units.count(segment.operations)),
            line(Span(f"{first.file}:{first.line}", "place")),
        ),
        below=tuple(below),
    )


def _hazards(found: GraphCheck) -> Section | None:
    title = "Hazards, from two recorded steps"
    if found.hazards is None:
        text = "two consecutive steps were not recorded"
        return Section("hazards", title, (Note("unknown", line(text)),))
    if not found.hazards:
        return None
    return Section("hazards", title, hazard_blocks(found.hazards))


def _caveats(found: GraphCheck) -> Section | None:
    if not found.caveats:
        return None
    return Section(
        "caveats", "Caveats", tuple(Note("caveat", line(text)) for text in found.caveats)
    )
