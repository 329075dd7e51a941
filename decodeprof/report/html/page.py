"""Walks a view and the charts, and writes the page: structure here, looks in the templates."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from decodeprof import units
from decodeprof.model.charts import Charts
from decodeprof.model.diagnosis import Diagnosis
from decodeprof.report.blocks import Section, Table, View
from decodeprof.report.html.memory import MemoryPicture, memory
from decodeprof.report.html.method import method_section
from decodeprof.report.html.roofline import RoofPicture, RoofUnknown, roofline
from decodeprof.report.html.samples import Samples, samples
from decodeprof.report.html.tables import all_kernels, call_sites
from decodeprof.report.html.templating import MARK, embedded, environment, package_text, policy
from decodeprof.report.html.timeline import TimelinePicture, timeline
from decodeprof.report.html.waterfall import floors_fall, gains_fall
from decodeprof.report.view import view

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
    style, script = package_text("style.css"), package_text("script.js")
    # The script only drives the timeline: a page without one runs none.
    return (
        environment()
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
            policy=policy(style, script),
            style=Markup(style),
            script=Markup(script),
            data=embedded(pictures.timeline.data) if pictures.timeline else "",
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
        detail = units.counted(None if step.launches is None else launches, "launch", "launches")
        tiles.append(Tile(units.count(step.kernels), f"kernels a {what}", detail))
    return tiles
