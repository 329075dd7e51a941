"""How do templates become a page that asks for nothing? Filters, the policy, what is embedded."""

from __future__ import annotations

import base64
import functools
import hashlib
import re
from dataclasses import dataclass

import jinja2
from markupsafe import Markup

from decodeprof import units
from decodeprof.report.blocks import Table
from decodeprof.report.html.scale import percent
from decodeprof.report.names import cleaned

MARK = "<!doctype html>\n<!-- decodeprof report -->\n"
"""How a page begins: what begins otherwise was not written by decodeprof."""


@dataclass(frozen=True)
class _Prose:
    """A piece of text; a literal stood in backticks."""

    text: str
    literal: bool


# The space between a number and its unit, and that behind a comparison.
_UNIT = re.compile(r"(?<=\d) (?=[%×]|(?:[nµm]?s|[kMGT]?B|[GT]FLOP)\b)|(?<=[<>÷]) (?=\d)")
_NO_BREAK = "\N{NO-BREAK SPACE}"


def _literals(text: str) -> list[_Prose]:
    """Cut text at its backticks; one that is not closed stays as it is.

    Outside of literals a number stays on one line with its unit.
    """
    pieces = text.split("`")
    if len(pieces) % 2 == 0:
        pieces[-2:] = ["`".join(pieces[-2:])]
    return [
        _Prose(piece if i % 2 else _UNIT.sub(_NO_BREAK, piece), bool(i % 2))
        for i, piece in enumerate(pieces)
        if piece
    ]


LONG_NAME = 20
"""Letters of a first cell that leave figures no room on a telephone."""


def has_long_names(table: Table) -> bool:
    """Whether a narrow page shows each row's name above its figures: they alone fit beside it."""
    figures = all(column.align == "right" for column in table.columns[1:])
    return figures and any(
        not row.above and not row.below and sum(len(span.text) for span in row.cells[0]) > LONG_NAME
        for row in table.rows
    )


@functools.cache
def environment() -> jinja2.Environment:
    """The templates of pages; what one of them does not have is an error."""
    made = jinja2.Environment(
        loader=jinja2.PackageLoader("decodeprof.report.html"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters["time"] = units.time
    made.filters["share"] = units.share
    made.filters["literals"] = _literals
    made.filters["percent"] = percent
    made.filters["clean"] = cleaned
    made.filters["has_long_names"] = has_long_names
    made.filters["kind"] = lambda block: type(block).__name__
    return made


@functools.cache
def package_text(name: str) -> str:
    """A style sheet or a script, as it lies beside the templates."""
    loader = environment().loader
    assert loader is not None
    text, _, _ = loader.get_source(environment(), name)
    return text


def policy(style: str, script: str | None) -> str:
    """A content security policy that allows this page's own style and script, and no request."""
    allowed = [f"style-src {_digest(style)}"]
    if script is not None:
        allowed.append(f"script-src {_digest(script)}")
    # The empty icon is a data: address; without it a browser asks for /favicon.ico.
    return (
        f"default-src 'none'; {'; '.join(allowed)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def embedded(data: bytes) -> Markup:
    """JSON that can stand inside a script element: nothing in it can end the element."""
    text = data.decode()
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)
