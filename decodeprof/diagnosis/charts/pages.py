"""What do the manual pages of the rules that found something say?"""

from __future__ import annotations

import inspect

from decodeprof.diagnosis.judging import all_rules
from decodeprof.model.charts import RulePage

_WHY, _IGNORE = "Why it costs time:", "When to ignore it:"


def rule_pages(codes: set[str]) -> dict[str, RulePage]:
    """The parts of each rule's page that its finding does not repeat, by code."""
    pages = {}
    for rule in all_rules():
        if rule.CODE in codes:
            text = inspect.cleandoc(rule.__doc__ or "")
            pages[str(rule.CODE)] = RulePage(
                why=_section(text, _WHY), ignore=_section(text, _IGNORE)
            )
    return pages


def _section(text: str, heading: str) -> str:
    """The paragraphs under a heading, as one line; empty where there is no such heading."""
    for paragraph in text.split("\n\n"):
        first, _, rest = paragraph.partition("\n")
        if first == heading:
            return " ".join(rest.split())
    return ""
