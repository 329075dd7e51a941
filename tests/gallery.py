"""The gallery below reports/: what decodeprof makes of the recordings that ship with it.

``python -m tests.gallery`` writes all of it again; a test holds each file against what is made now.
"""

from __future__ import annotations

import argparse
import functools
import io
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from decodeprof import units
from decodeprof.cli.demo import FIXTURES
from decodeprof.cli.pages import page_text
from decodeprof.diagnosis.pipeline import Analyzed, analyze_path
from decodeprof.recording import RECORDING_FILE, TRACE_FILE
from decodeprof.report.as_json import diagnosis_json
from decodeprof.report.terminal import render, text
from decodeprof.report.view import view
from tests.browser import as_seen, chromium

REPORTS = FIXTURES.parent / "reports"
INDEX = REPORTS / "README.md"
PICTURES = (REPORTS / "page.png", REPORTS / "timeline.png")
"""Not held against what is drawn now: versions of Chromium draw letters differently."""
PICTURE_HEIGHT = 1150
TERMINAL = REPORTS / "terminal.svg"
SHOWN = "plain_0p6b"
"""The recording whose terminal report is a picture in the README."""
FILES = ("report.html", "report.txt", "diagnosis.json")
TEXT_WIDTH = 100
PICTURED = ("verdict", "step", "budget", "what-if")
"""Sections in the terminal's picture: a whole report would be too small to read."""
# Without their recording these traces are what a server would send.
AS_TRACES = ("plain_0p6b", "hf_generate_0p6b", "stage_compiled", "stage_pipelined")
# Fonts come from the reader's machine: rich's own template would fetch them from a server.
_SVG = """\
<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; \
font-size: {char_height}px; line-height: {line_height}px; }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal"><rect x="0" y="0" width="{terminal_width}" \
height="{terminal_height}" /></clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


@dataclass(frozen=True)
class Exhibit:
    """One scenario of the gallery."""

    name: str
    source: Path

    @property
    def folder(self) -> Path:
        """Where its files lie."""
        return REPORTS / self.name


def exhibits() -> list[Exhibit]:
    """Every recording that ships, and some of their traces alone."""
    recordings = sorted(path.parent for path in FIXTURES.glob(f"*/{RECORDING_FILE}"))
    found = [Exhibit(folder.name, folder) for folder in recordings]
    found += [Exhibit(f"trace_{name}", FIXTURES / name / TRACE_FILE) for name in AS_TRACES]
    return [exhibit for exhibit in found if exhibit.source.exists()]


@functools.cache
def analyzed(exhibit: Exhibit) -> Analyzed:
    """What decodeprof concludes from an exhibit, made once."""
    return analyze_path(exhibit.source)


def files(exhibit: Exhibit) -> dict[Path, bytes]:
    """The exhibit's files, made anew."""
    found = analyzed(exhibit)
    shown = view(found.diagnosis)
    made = (
        page_text(found),
        text(shown, width=TEXT_WIDTH).encode(),
        diagnosis_json(found.diagnosis),
    )
    return {exhibit.folder / name: data for name, data in zip(FILES, made, strict=True)}


def index() -> bytes:
    """The gallery's table of contents."""
    lines = [
        "# What decodeprof makes of its own recordings",
        "",
        "Each row is one recording, made on the GPU that its report names, or a trace of one taken",
        "alone, as a server would send it. A page opens offline: download it, then open it.",
        "`python -m tests.gallery` makes all of this again.",
        "",
        "| scenario | page | text | JSON | step | verdict |",
        "| --- | --- | --- | --- | ---: | --- |",
    ]
    lines += [_row(exhibit) for exhibit in exhibits()]
    lines += [
        "",
        "[worked_example.txt](worked_example.txt) and [hf_story.txt](hf_story.txt) set many",
        "recordings side by side; [predictions.txt](predictions.txt) sets predictions beside what",
        "was then measured, hits and misses. Each `sweep_….txt`, with its points as CSV, follows a",
        "step along one axis to behind the crossing; [speculative.txt](speculative.txt) sets",
        "drafts beside graphs, and [ncu.txt](ncu.txt) counted bytes beside hardware counters.",
        "",
    ]
    return "\n".join(lines).encode()


def _row(exhibit: Exhibit) -> str:
    diagnosis = analyzed(exhibit).diagnosis
    step = diagnosis.step
    now = None if step is None else step.unprofiled_ns.median if step.unprofiled_ns else None
    shown = units.time(now) if now is not None else "not timed"
    links = " | ".join(
        f"[{label}]({exhibit.name}/{file})"
        for label, file in zip(("page", "text", "JSON"), FILES, strict=True)
    )
    return f"| `{exhibit.name}` | {links} | {shown} | {diagnosis.verdict.sentence} |"


def terminal_picture() -> bytes:
    """The head of a report in a terminal's colours, as SVG that fetches nothing."""
    exhibit = next(exhibit for exhibit in exhibits() if exhibit.name == SHOWN)
    whole = view(analyzed(exhibit).diagnosis)
    console = Console(
        file=io.StringIO(),
        width=TEXT_WIDTH,
        record=True,
        color_system="truecolor",
        force_terminal=True,
        legacy_windows=False,
        _environ={},
    )
    sections = tuple(s for s in whole.sections if s.key in PICTURED)
    console.print(
        f"$ decodeprof diagnose {analyzed(exhibit).diagnosis.about.target}", highlight=False
    )
    render(type(whole)(whole.title, sections), console)
    svg = console.export_svg(title="decodeprof", code_format=_SVG, unique_id="decodeprof")
    return svg.encode()


def everything() -> dict[Path, bytes]:
    """Every file of the gallery."""
    found = {INDEX: index(), TERMINAL: terminal_picture()}
    for exhibit in exhibits():
        found |= files(exhibit)
    return found


def pictures() -> dict[Path, bytes]:
    """The page as Chromium draws it: its head, and a stretch of its timeline."""
    made = {}
    with chromium() as browser:
        as_seen(browser, height=PICTURE_HEIGHT)
        browser.get((REPORTS / SHOWN / FILES[0]).as_uri())
        made[PICTURES[0]] = browser.get_screenshot_as_png()
        browser.find_element("css selector", "a[data-place=graph-missing]").click()
        browser.find_element("css selector", ".tl-main").send_keys(".")
        made[PICTURES[1]] = browser.find_element("css selector", "#tl").screenshot_as_png
    return made


def main() -> None:
    """Write the gallery; with ``--pictures`` the README's screenshots too, which needs Chromium."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--pictures", action="store_true")
    asked = parser.parse_args()
    _write(everything())
    if asked.pictures:
        _write(pictures())


def _write(found: dict[Path, bytes]) -> None:
    for path, data in found.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        print(f"{len(data):>9,}  {path.relative_to(REPORTS.parent)}")


if __name__ == "__main__":
    main()
