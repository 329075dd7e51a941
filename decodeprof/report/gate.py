"""Which blocks tell a person whether a gate held; and which lines tell it to GitHub?"""

from __future__ import annotations

from collections.abc import Callable

from decodeprof import units
from decodeprof.model.diagnosis import SyncSite
from decodeprof.model.gate import Checked, GateResult
from decodeprof.report.blocks import (
    Block,
    Code,
    Column,
    Headline,
    Line,
    Note,
    Row,
    Section,
    Span,
    Style,
    Table,
    View,
    line,
)
from decodeprof.report.names import cleaned, place

_ANSWERS: dict[str, tuple[str, Style]] = {
    "held": ("✓ held", "good"),
    "failed": ("✗ failed", "bad"),
    "unknown": ("? could not tell", "warning"),
}
_HEADLINES = {
    "held": "The gate holds.",
    "failed": "The gate fails.",
    "unknown": "The gate cannot tell.",
}
_DASH = "–"
_ANNOTATION_TITLE = "decodeprof"

Located = tuple[str, int]
"""A file, as GitHub knows it, and a line."""


def gate_view(checked: Checked) -> View:
    """Lay the answers out: one row for each limit, then the places that are to blame."""
    sections = [
        Section("answer", "", (Headline(line(_HEADLINES[checked.answer])),)),
        Section("limits", "Per decode step", (_table(checked.results),)),
    ]
    for result in checked.results:
        if result.sites:
            new = result.name == "no-new-syncs"
            blocks: list[Block] = [block for site in result.sites for block in _site(site)]
            told = "New blocking calls" if new else "Blocking calls"
            sections.append(Section(result.name, told, tuple(blocks)))
    title = (Span("decodeprof check  ", "muted"), Span(checked.source))
    return View(title, tuple(sections))


def _table(results: list[GateResult]) -> Table:
    columns = (Column("limit"), Column("allowed", "right"), Column("found", "right"), Column(""))
    return Table(columns, tuple(_row(result) for result in results))


def _row(result: GateResult) -> Row:
    word, style = _ANSWERS[result.answer]
    cells = (
        line(Span(result.name, "strong")),
        line(_DASH if result.limit is None else _figure(result, result.limit)),
        line(Span(_DASH, "unknown") if result.found is None else _figure(result, result.found)),
        line(Span(word, style)),
    )
    below: list[Line] = [line(Span(result.text, "muted"))]
    if result.capture:
        below.append(line(Span(result.capture, "muted")))
    return Row(cells, below=tuple(below))


def _figure(result: GateResult, value: float) -> str:
    return units.share(value) if result.name == "min-mbu" else units.count(value)


def _site(site: SyncSite) -> tuple[Block, ...]:
    where = place(site.file, site.line) if site.file else f"in {site.op or site.api or 'a call'}"
    inside = f"{where} in {site.function}" if site.function else where
    return (Code((site.code or "").strip(), inside), Note("hint", line(_how(site))))


def _how(site: SyncSite) -> str:
    per = "prefill" if site.phase == "prefill" else "decode step"
    calls = f"{units.counted(site.calls_per_step, 'call')} a {per}"
    return ", ".join(part for part in (calls, site.op, site.api) if part)


def github_lines(checked: Checked, *, locate: Callable[[SyncSite], Located | None]) -> str:
    """The answers as workflow commands, which GitHub shows beside the changed lines.

    Args:
        checked: the answers.
        locate: the place of a site in the repository; None: it is in none of its files.
    """
    lines = []
    for result in checked.results:
        if result.answer == "held":
            lines.append(_command("notice", f"{result.name} held: {result.text}", None))
        elif result.answer == "unknown":
            text = ". ".join(part for part in (result.text, result.capture) if part)
            lines.append(_command("warning", f"{result.name}: {text}", None))
        else:
            limit = "" if result.limit is None else f", allowed {_figure(result, result.limit)}"
            lines.append(_command("error", f"{result.name} failed: {result.text}{limit}", None))
            lines += [_site_command(result, site, locate(site)) for site in result.sites]
    return "".join(f"{one}\n" for one in lines)


def _site_command(result: GateResult, site: SyncSite, at: Located | None) -> str:
    what = "new blocking call" if result.name == "no-new-syncs" else "blocking call"
    told = place(site.file, site.line) if site.file else "source line not recorded"
    code = f": {site.code.strip()}" if site.code else ""
    return _command("error", f"{what} ({_how(site)}) at {told}{code}", at)


def _command(kind: str, message: str, at: Located | None) -> str:
    """One workflow command. What comes from a trace must not end it, or begin another one."""
    properties = f"title={_property(_ANNOTATION_TITLE)}"
    if at is not None:
        properties = f"file={_property(at[0])},line={at[1]},{properties}"
    return f"::{kind} {properties}::{_data(message)}"


def _data(text: str) -> str:
    return cleaned(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
