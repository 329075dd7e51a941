"""Walks a view and the charts, and writes the page: structure here, looks in the templates."""

from __future__ import annotations

import base64
import functools
import hashlib
import re
from dataclasses import dataclass

import jinja2
from markupsafe import Markup

from decodeprof import units
from decodeprof.model.charts import Charts
from decodeprof.model.diagnosis import Diagnosis
from decodeprof.report.blocks import Section, Table, View
from decodeprof.report.html.memory import MemoryPicture, memory
from decodeprof.report.html.method import method_section
from decodeprof.report.html.roofline import RoofPicture, RoofUnknown, roofline
from decodeprof.report.html.samples import Samples, samples
from decodeprof.report.html.scale import percent
from decodeprof.report.html.tables import all_kernels, call_sites
from decodeprof.report.html.timeline import TimelinePicture, timeline
from decodeprof.report.html.waterfall import floors_fall, gains_fall
from decodeprof.report.names import cleaned, counted
from decodeprof.report.view import view

MARK = "<!doctype html>\n<!-- decodeprof report -->\n"
"""How a page begins: what begins otherwise was not written by decodeprof."""
# The order in which a page is read; what is not named here stays behind what precedes it in the
# view.
_ORDER = (
    "verdict",
    "cpu",
    "floors",
    "what-if",
    "step",
    "budget",
    "timeline",
    "findings",
    "syncs",
    "kernels",
    "sites",
    "roofline",
    "samples",
    "prefill",
    "memory",
    "measured",
    "steps",
    "method",
    "checked",
    "caveats",
    "next",
)
_DRAWN = {
    "timeline": "Timeline",
    "sites": "Kernels by call site",
    "roofline": "Roofline",
    "samples": "Unprofiled step times",
    "memory": "Memory",
}
"""Sections that only a page has, because they are pictures."""


@dataclass(frozen=True)
class Part:
    """One section of the page: blocks of the view, a picture, or both."""

    key: str
    title: str
    section: Section | None


@dataclass(frozen=True)
class _Pictures:
    """What is drawn; the names are the keys of `_DRAWN`."""

    timeline: TimelinePicture | None
    roofline: RoofPicture | RoofUnknown | None
    samples: Samples | None
    memory: MemoryPicture | None
    sites: Table | None


def html(diagnosis: Diagnosis, charts: Charts) -> str:
    """A diagnosis as one self-contained page.

    Args:
        diagnosis: what is told; the page walks the same view of it as the terminal.
        charts: what is drawn beside it.

    Returns:
        The page's text. It holds no date and no random value: the same input gives the same bytes.
    """
    shown = view(diagnosis)
    decode_sites = sum(site.phase == "decode" for site in diagnosis.syncs)
    pictures = _Pictures(
        timeline=timeline(charts, decode_sites=decode_sites),
        roofline=roofline(charts),
        samples=samples(diagnosis, charts),
        memory=memory(charts),
        sites=call_sites(diagnosis, charts),
    )
    style, script = _package_text("style.css"), _package_text("script.js")
    # The script only drives the timeline: a page without one runs none.
    return (
        _environment()
        .get_template("page.html.jinja")
        .render(
            mark=Markup(MARK),
            title=shown.title,
            kind=diagnosis.source.kind,
            verdict=diagnosis.verdict,
            parts=_parts(diagnosis, shown, pictures),
            pictures=pictures,
            floors_fall=floors_fall(diagnosis),
            gains_fall=gains_fall(diagnosis),
            tiles=_tiles(diagnosis),
            all_kernels=all_kernels(diagnosis),
            places=charts.places,
            pages=charts.pages,
            policy=_policy(style, script),
            style=Markup(style),
            script=Markup(script),
            data=_embedded(pictures.timeline.data) if pictures.timeline else "",
        )
    )


def _parts(diagnosis: Diagnosis, shown: View, pictures: _Pictures) -> list[Part]:
    sections = [*shown.sections, method_section(diagnosis)]
    parts = [Part(one.key, one.title, one) for one in sections if one is not None]
    places: list[tuple[int, int, Part]] = []
    place = 0
    for part in parts:
        place = _ORDER.index(part.key) if part.key in _ORDER else place
        places.append((place, len(places), part))
    for key, title in _DRAWN.items():
        if getattr(pictures, key) is not None:
            places.append((_ORDER.index(key), len(places), Part(key, title, None)))
    return [part for _, _, part in sorted(places, key=lambda found: found[:2])]


@dataclass(frozen=True)
class Tile:
    """One large figure of the page's head."""

    value: str
    label: str
    detail: str


def _tiles(diagnosis: Diagnosis) -> list[Tile]:
    """The figures that a reader looks for first; only those that are known."""
    # Where only a prefill was recorded, it is what the page is about.
    step, what = diagnosis.step, "step"
    if step is None:
        step, what = diagnosis.prefill, "prefill"
    generation = diagnosis.generation
    tiles = []
    now = None
    if step is not None:
        now = step.unprofiled_ns.median if step.unprofiled_ns else step.profiled_ns
        kind = "unprofiled" if step.unprofiled_ns else "in profiled time"
        tiles.append(Tile(units.time(now), f"decode {what}" if what == "step" else what, kind))
    if generation is not None and generation.tokens_per_s is not None:
        per_s = generation.tokens_per_s
        rate = f"{per_s:,.0f}" if per_s >= 100 else f"{per_s:.3g}"
        batch = f"batch {units.count(generation.batch)}" if generation.batch else "decode alone"
        tiles.append(Tile(rate, "tokens/s", batch))
    if step is not None and step.busy_ns is not None and now:
        share = units.share(min(1.0, step.busy_ns / now))
        tiles.append(Tile(share, "device busy", f"{units.time(step.busy_ns)} a {what}"))
    if step is not None and step.kernels is not None:
        launches = (step.launches or 0) + (step.graph_launches or 0)
        detail = counted(None if step.launches is None else launches, "launch", "launches")
        tiles.append(Tile(units.count(step.kernels), f"kernels a {what}", detail))
    return tiles


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


def _has_long_names(table: Table) -> bool:
    """Whether a narrow page shows each row's name above its figures: they alone fit beside it."""
    figures = all(column.align == "right" for column in table.columns[1:])
    return figures and any(
        not row.above and not row.below and sum(len(span.text) for span in row.cells[0]) > LONG_NAME
        for row in table.rows
    )


@functools.cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("decodeprof.report.html"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["time"] = units.time
    environment.filters["share"] = units.share
    environment.filters["literals"] = _literals
    environment.filters["percent"] = percent
    environment.filters["clean"] = cleaned
    environment.filters["has_long_names"] = _has_long_names
    environment.filters["kind"] = lambda block: type(block).__name__
    return environment


@functools.cache
def _package_text(name: str) -> str:
    environment = _environment()
    assert environment.loader is not None
    text, _, _ = environment.loader.get_source(environment, name)
    return text


def _policy(*inline: str) -> str:
    """A content security policy that allows this page's own style and script, and no request."""
    style, script = (
        f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
        for text in inline
    )
    # The empty icon is a data: address; without it a browser asks for /favicon.ico.
    return (
        f"default-src 'none'; style-src {style}; script-src {script}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _embedded(data: bytes) -> Markup:
    """JSON that can stand inside a script element: nothing in it can end the element."""
    text = data.decode()
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)
