"""Each file of the gallery is what is made now, byte for byte, and nothing else lies there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests import gallery
from tests.golden import check_golden

pytestmark = pytest.mark.skipif(
    not gallery.FIXTURES.is_dir(), reason="no recordings in this checkout"
)
MOST_BYTES = 7_000_000
MOST_PAGE_BYTES = 1_000_000


@pytest.mark.parametrize("exhibit", gallery.exhibits(), ids=lambda exhibit: exhibit.name)
def test_an_exhibit_is_what_is_made_now(exhibit: gallery.Exhibit) -> None:
    for path, data in gallery.files(exhibit).items():
        check_golden(path, data)


def test_the_index_and_the_terminals_picture_are_what_is_made_now() -> None:
    check_golden(gallery.INDEX, gallery.index())
    check_golden(gallery.TERMINAL, gallery.terminal_picture())
    assert "http" not in gallery.TERMINAL.read_text().replace("http://www.w3.org/2000/svg", "")


def test_every_stage_and_three_traces_are_shown() -> None:
    names = {exhibit.name for exhibit in gallery.exhibits()}
    stages = {path.parent.name for path in gallery.FIXTURES.glob("stage_*/recording.json")}
    assert stages <= names
    assert len([name for name in names if name.startswith("trace_")]) >= 3


def test_nothing_else_lies_there_and_all_of_it_is_small() -> None:
    exhibits = gallery.exhibits()
    folders = {path for path in gallery.REPORTS.iterdir() if path.is_dir()}
    assert folders == {exhibit.folder for exhibit in exhibits}
    for exhibit in exhibits:
        assert {path.name for path in exhibit.folder.iterdir()} == set(gallery.FILES)
        assert (exhibit.folder / "report.html").stat().st_size < MOST_PAGE_BYTES
    files = [path for path in gallery.REPORTS.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < MOST_BYTES


@pytest.mark.parametrize("file", [gallery.INDEX, gallery.REPORTS.parent / "README.md"])
def test_every_link_into_the_gallery_leads_somewhere(file: Path) -> None:
    links = re.findall(r"\]\((?!https?:|#)([^)\s]+)\)", file.read_text())
    assert links
    for link in links:
        assert (file.parent / link.partition("#")[0]).exists(), link


def test_the_pictures_are_pictures() -> None:
    for path in gallery.PICTURES:
        assert path.read_bytes().startswith(b"\x89PNG")
