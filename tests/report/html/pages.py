"""Pages for tests: of a synthetic loop, and of the diagnoses that every report is tried on."""

from __future__ import annotations

from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import msgspec

from decodeprof.diagnosis.charts import charts_of
from decodeprof.diagnosis.pipeline import Analyzed, analyze_path
from decodeprof.model import charts as c
from decodeprof.model.diagnosis import Diagnosis
from decodeprof.report.html import html
from tests.report import diagnoses
from tests.scenarios import decode_loop
from tests.write_kineto import write

DIAGNOSES: dict[str, Callable[[], Diagnosis]] = {
    "full": diagnoses.full,
    "foreign_trace": diagnoses.foreign_trace,
    "cpu_run": diagnoses.cpu_run,
}
NOTHING = c.Charts()
_VOID = {"meta", "link", "input", "br", "hr", "img"}


def loop(folder: Path, **size: int) -> Analyzed:
    """A decode loop, written as a trace and analysed."""
    return analyze_path(write(folder / "loop.json", decode_loop(**size).build()))


def page_of(analyzed: Analyzed) -> str:
    return html(analyzed.diagnosis, charts_of(analyzed.evidence, analyzed.diagnosis))


def named(charts: c.Charts, name: str) -> c.Charts:
    """The charts with every name that came from a trace replaced."""
    assert charts.timeline is not None
    replace = msgspec.structs.replace
    timeline = replace(
        charts.timeline,
        names=[replace(one, text=name) for one in charts.timeline.names],
        host=[replace(track, thread=name) for track in charts.timeline.host],
    )
    roofline = charts.roofline and replace(
        charts.roofline, points=[replace(p, name=name) for p in charts.roofline.points]
    )
    return replace(
        charts,
        timeline=timeline,
        roofline=roofline,
        places={code: replace(place, label=name) for code, place in charts.places.items()},
        call_sites=[replace(site, where=name, shapes=name) for site in charts.call_sites],
    )


class Structure(HTMLParser):
    """The tags of a page in order, with their nesting checked, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.feed(page)
        self.close()
        assert self.open == [], self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        for key, value in attrs:
            if key == "id":
                self.ids.append(value or "")
            if key == "href":
                self.links.append(value or "")
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in _VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag, (tag, self.getpos())

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in {"script", "style"}:
            self.text += data
