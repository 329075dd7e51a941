"""Which blocks tell a person what a rollup did?"""

from __future__ import annotations

from decodeprof import units
from decodeprof.model.rollup import Summary
from decodeprof.report.blocks import (
    Fact,
    Facts,
    Headline,
    Listing,
    Note,
    Section,
    Span,
    View,
    line,
)


def rollup_view(summary: Summary) -> View:
    """Lay a rollup's summary out for reading."""
    title = line(Span("decodeprof rollup  ", "muted"), summary.out)
    new = summary.ok + summary.bad + summary.failed
    headline = (
        f"{units.count(new)} of {units.counted(summary.found, 'trace is', 'traces are')} new: "
        f"{units.count(summary.ok)} analysed, {units.count(summary.bad)} bad, "
        f"{units.count(summary.failed)} failed."
    )
    facts = [
        Fact("in the table before", line(units.count(summary.already)), line("not read again")),
        Fact("same bytes", line(units.count(summary.same)), line("under another name: no row")),
        Fact("rows of steps", line(units.count(summary.steps))),
        Fact("took", line(units.time(round(summary.seconds * 1e9)))),
    ]
    sections = [
        Section("verdict", "", (Headline(line(headline)),)),
        Section("done", "What was done", (Facts(tuple(facts)),)),
    ]
    if summary.bound_by:
        bounds = tuple(
            Fact(bound, line(units.count(count))) for bound, count in summary.bound_by.items()
        )
        sections.append(Section("bounds", "What bounds the new traces", (Facts(bounds),)))
    if summary.errors:
        sections.append(
            Section(
                "errors",
                "Could not be analysed",
                (
                    Listing(tuple(line(text) for text in summary.errors)),
                    Note("hint", line("each has a row in the table; failed ones are tried again")),
                ),
            )
        )
    return View(title, tuple(sections))
