"""`decodeprof explain`: a rule's manual page, or the table of all rules."""

from __future__ import annotations

import difflib
import inspect
import json
import re
import typing

import click

from decodeprof.cli.options import Output, debug_option, output_options
from decodeprof.cli.show import show_view, write_data
from decodeprof.errors import UsageError

if typing.TYPE_CHECKING:
    from types import ModuleType

    from decodeprof.report.blocks import Block, View

_HEADING = re.compile(r"(?P<title>[A-Z][a-z ]+):")


@click.command(
    "explain",
    epilog="""\b
Examples:
  decodeprof explain
  decodeprof explain graph-missing
""",
)
@click.argument("code", required=False)
@output_options
@debug_option
def command(*, code: str | None, output: Output) -> None:
    """Print the manual page of the rule CODE, or a table of all rules.

    A page says what the rule measures, why that costs time, what to do about it and when to ignore
    it.
    """
    from decodeprof.diagnosis.judging import all_rules

    rules = {str(rule.CODE): rule for rule in all_rules()}
    chosen = list(rules.values())
    if code is not None:
        rule = rules.get(code.strip().lower())
        if rule is None:
            raise _unknown(code, list(rules))
        chosen = [rule]
    if output.as_json:
        write_data(_as_json(chosen))
    else:
        show_view(_table(chosen) if code is None else _page(chosen[0]), output)


def _as_json(rules: list[ModuleType]) -> bytes:
    pages = [
        {"code": rule.CODE, "title": rule.TITLE, "page": inspect.cleandoc(rule.__doc__ or "")}
        for rule in rules
    ]
    return json.dumps(pages, indent=1, ensure_ascii=False).encode() + b"\n"


def _unknown(code: str, codes: list[str]) -> UsageError:
    near = difflib.get_close_matches(code.lower().replace("_", "-"), codes, n=1)
    hint = f"did you mean `{near[0]}`?" if near else "`decodeprof explain` lists them"
    return UsageError(f"no rule is called `{code}`", hint=hint)


def _table(rules: list[ModuleType]) -> View:
    from decodeprof.report.blocks import Fact, Facts, Note, Section, View, line

    blocks = (
        # Not a table, which would cut what is longer than the terminal is wide.
        Facts(tuple(Fact(rule.CODE, line(rule.TITLE)) for rule in rules)),
        Note("hint", line("one in full: decodeprof explain CODE")),
    )
    return View(line(f"{len(rules)} rules"), (Section("rules", "", blocks),))


def _page(rule: ModuleType) -> View:
    from decodeprof.report.blocks import Headline, Paragraph, Section, Span, View, line

    first, *rest = inspect.cleandoc(rule.__doc__ or "").split("\n\n")
    sections = [Section("what", "", (Headline(line(" ".join(first.split()))),))]
    title = ""
    blocks: list[Block] = []
    for paragraph in rest:
        lines = paragraph.splitlines()
        heading = _HEADING.fullmatch(lines[0])
        if heading is not None:
            if blocks:
                sections.append(Section(title, title, tuple(blocks)))
            title, blocks, lines = heading["title"], [], lines[1:]
        blocks.append(Paragraph(line(" ".join(" ".join(lines).split()))))
    sections.append(Section(title, title, tuple(blocks)))
    return View(line(Span(rule.CODE, "strong")), tuple(sections))
