"""How does the page come together: text, model, measurements, and a policy against requests?"""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import jinja2
import msgspec
from markupsafe import Markup, escape

from decodeprof import __version__
from decodeprof.teach.curves import MeasuredCurve
from decodeprof.teach.exercises import EXERCISES
from decodeprof.teach.steps import constants
from decodeprof.teach.templates import read

MARK = "<!doctype html>\n<!-- decodeprof learn -->\n"
"""How the page begins: what begins otherwise was not written by decodeprof."""


def learn_page(curves: list[MeasuredCurve]) -> str:
    """The page's text: the same curves give the same bytes.

    Args:
        curves: measured step times over batch, to stand beside the model's.
    """
    style, script = read("learn.css"), read("model.js") + read("learn.js")
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["code"] = _with_code
    return environment.from_string(read("learn.html.jinja")).render(
        mark=Markup(MARK),
        policy=_policy(style, script),
        style=Markup(style),
        script=Markup(script),
        data=_embedded({"constants": constants(), "curves": curves}),
        exercises=EXERCISES,
        version=__version__,
    )


def _with_code(text: str) -> Markup:
    """Text whose parts between backticks are code."""
    pieces = text.split("`")
    return Markup().join(
        Markup("<code>{}</code>").format(piece) if index % 2 else escape(piece)
        for index, piece in enumerate(pieces)
    )


def _policy(style: str, script: str) -> str:
    """A content security policy: the page's own style and script, and no request."""

    def source(text: str) -> str:
        digest = hashlib.sha256(text.encode()).digest()
        return f"'sha256-{base64.b64encode(digest).decode()}'"

    return (
        f"default-src 'none'; style-src {source(style)}; script-src {source(script)}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _embedded(value: Any) -> Markup:
    """JSON that can stand inside a script element: nothing in it can end the element."""
    text = msgspec.json.encode(value, order="deterministic").decode()
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)
