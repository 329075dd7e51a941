"""What is worth changing, what was looked at and is clear, and what could not be told?"""

from __future__ import annotations

from typing import TypeAlias

from decodeprof import units
from decodeprof.model.diagnosis import Diagnosis, Finding, Where
from decodeprof.report.blocks import (
    Block,
    Card,
    Code,
    Fact,
    Facts,
    Leaf,
    Listing,
    Note,
    Paragraph,
    Section,
    Span,
    Style,
    line,
)
from decodeprof.report.names import place
from decodeprof.report.step import interval

Sources: TypeAlias = dict[str, dict[int, str]]
LINES_AROUND = 3
"""Lines of an excerpt before and after the one that counts, as far as they were recorded."""
_SEVERITY_STYLES: dict[str, Style] = {
    "high": "bad",
    "medium": "warning",
    "low": "plain",
    "info": "muted",
}


def findings_section(diagnosis: Diagnosis) -> Section | None:
    """Every finding, in the diagnosis' order: largest saving first."""
    if not diagnosis.findings:
        return None
    blocks: list[Block] = [
        Card(finding.code, finding.severity, tuple(_finding_blocks(finding, diagnosis.sources)))
        for finding in diagnosis.findings
    ]
    blocks.append(Note("hint", line("each in full: decodeprof explain CODE")))
    return Section("findings", "Findings", tuple(blocks))


def _finding_blocks(finding: Finding, sources: Sources) -> list[Leaf]:
    style = _SEVERITY_STYLES[finding.severity]
    blocks: list[Leaf] = [
        Paragraph(
            line(
                Span(f"{finding.code} ", "strong"),
                Span(f"{finding.severity}  ", style),
                finding.summary,
            )
        )
    ]
    saving = finding.saving_ns_per_step
    facts = []
    if saving is not None:
        facts.append(
            Fact("saves", line(f"{units.time(saving.expected)} a step"), line(interval(saving)))
        )
    facts += [Fact(fact.kind, line(fact.text)) for fact in finding.evidence]
    if facts:
        blocks.append(Facts(tuple(facts)))
    blocks += [_code(where, sources) for where in finding.where]
    for advice in finding.recommendations:
        blocks.append(Listing((line(Span(advice.what, "strong")),)))
        steps = [("how", advice.how)]
        # What has no saving of its own is a remark: how to act on it is enough here.
        if finding.severity != "info":
            steps += [("verify", advice.verify), ("risk", advice.risk)]
        blocks.append(Facts(tuple(Fact(label, line(told)) for label, told in steps)))
    return blocks


def _code(where: Where, sources: Sources) -> Code:
    """The line, and those around it that the recording holds."""
    lines = sources.get(where.file, {})
    excerpt: list[tuple[int, str]] = []
    if where.line is not None and where.line in lines:
        first = last = where.line
        while first - 1 in lines and where.line - first < LINES_AROUND:
            first -= 1
        while last + 1 in lines and last - where.line < LINES_AROUND:
            last += 1
        excerpt = [(number, lines[number]) for number in range(first, last + 1)]
    return Code(
        where.code or "", place(where.file, where.line), number=where.line, excerpt=tuple(excerpt)
    )


def could_not_tell_section(diagnosis: Diagnosis) -> Section | None:
    """Rules that are clear, and those that could not tell, with what to capture."""
    blocks: list[Block] = []
    if diagnosis.cleared:
        blocks.append(Note("none", line("clear: " + ", ".join(diagnosis.cleared))))
    codes: dict[tuple[str, str], list[str]] = {}
    for skipped in diagnosis.skipped:
        codes.setdefault((skipped.reason, skipped.capture), []).append(skipped.code)
    # One cause keeps many rules from looking, so it is said once.
    for (reason, capture), names in codes.items():
        blocks.append(Note("unknown", line(f"could not tell, {reason}: {', '.join(names)}")))
        blocks.append(Note("hint", line(capture)))
    return Section("checked", "Checked", tuple(blocks)) if blocks else None
