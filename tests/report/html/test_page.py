from __future__ import annotations

import base64
import hashlib
import json
import re
from pathlib import Path

import msgspec
import pytest

from decodeprof.diagnosis.charts import charts_of
from decodeprof.diagnosis.pipeline import Analyzed
from decodeprof.model import diagnosis as d
from decodeprof.report.blocks import Card, Facts, Line, Listing, Note, Paragraph, Table
from decodeprof.report.html import MARK, html
from decodeprof.report.view import view
from tests.report import diagnoses
from tests.report.html.pages import DIAGNOSES, NOTHING, Structure, loop, named, page_of
from tests.report.test_terminal import HOSTILE, _with_name_everywhere

MEGABYTE = 1_000_000
HOSTILE_HERE = {
    **HOSTILE,
    "ends a script": "</script><script>alert(1)</script>",
    "comment": "<!--<script>",
    "attribute": '" onload="alert(1)',
    "template": "{{ 7 * 7 }}{% raw %}",
    "style": "</style><img src=x onerror=alert(1)>",
}


@pytest.fixture(scope="module")
def analyzed(tmp_path_factory: pytest.TempPathFactory) -> Analyzed:
    return loop(tmp_path_factory.mktemp("page"))


@pytest.mark.parametrize("scenario", DIAGNOSES)
def test_a_page_without_pictures_is_whole(scenario: str) -> None:
    page = html(DIAGNOSES[scenario](), NOTHING)
    structure = Structure(page)
    assert page.startswith(MARK)
    assert "timeline" not in structure.ids
    assert "<script" not in page
    assert len(structure.ids) == len(set(structure.ids))


def test_every_link_leads_to_a_place_of_the_page(analyzed: Analyzed) -> None:
    structure = Structure(page_of(analyzed))
    inside = [link for link in structure.links if link != "data:,"]
    assert inside
    assert {link.removeprefix("#") for link in inside} <= set(structure.ids)
    assert all(link.startswith("#") for link in inside)


def test_the_policy_allows_this_pages_style_and_script_and_nothing_else(
    analyzed: Analyzed,
) -> None:
    page = page_of(analyzed)
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy is not None
    told = policy[1].replace("&#39;", "'")
    for tag in ("style", "script"):
        body = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.S)
        assert len(body) == 1
        digest = base64.b64encode(hashlib.sha256(body[0].encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in told
    assert told.startswith("default-src 'none'; ")
    assert "unsafe" not in told
    assert not re.search(r"\bhttps?://(?!www\.w3\.org/2000/svg)", page)
    # The policy stops a style attribute, which would be lost in silence.
    assert "style" not in {key for key, _ in Structure(page).attributes}
    assert not [key for key, _ in Structure(page).attributes if key.startswith("on")]


@pytest.mark.parametrize("scenario", DIAGNOSES)
def test_the_page_says_all_that_the_view_says(scenario: str) -> None:
    diagnosis = DIAGNOSES[scenario]()
    told = "".join(Structure(html(diagnosis, NOTHING)).text.split())
    for section in view(diagnosis).sections:
        for line in lines_of(section.blocks):
            text = "".join(span.text for span in line).replace("`", "")
            assert "".join(text.split()) in told, text


def lines_of(blocks: tuple[object, ...]) -> list[Line]:
    lines: list[Line] = []
    for block in blocks:
        if isinstance(block, Card):
            first = block.blocks[0]
            assert isinstance(first, Paragraph)
            lines += [(first.text[0],), first.text[2:], *lines_of(block.blocks[1:])]
        elif isinstance(block, Paragraph | Note):
            lines.append(block.text)
        elif isinstance(block, Facts):
            lines += [part for row in block.rows for part in (row.value, row.detail)]
        elif isinstance(block, Listing):
            lines += block.items
        elif isinstance(block, Table):
            lines += [line for row in block.rows for line in (*row.above, *row.cells, *row.below)]
    return lines


@pytest.mark.parametrize("name", HOSTILE_HERE.values(), ids=HOSTILE_HERE)
def test_hostile_names_change_no_structure(name: str, analyzed: Analyzed) -> None:
    charts = charts_of(analyzed.evidence, analyzed.diagnosis)
    page = html(_with_name_everywhere(analyzed.diagnosis, name), named(charts, name))
    plain = html(_with_name_everywhere(analyzed.diagnosis, "plain"), named(charts, "plain"))
    page.encode()  # no lone surrogate is left
    found, wanted = Structure(page), Structure(plain)
    # Backticks and a name's length may add or take a piece of text, and no element but `code`.
    assert [t for t in found.tags if t != "code"] == [t for t in wanted.tags if t != "code"]
    assert found.ids == wanted.ids
    assert not any(c in page for c in "\x1b\x07\x00\r\u202e\u2066\u200f\u2028")
    assert len(page) < len(plain) + 100_000
    data = re.search(r'<script type="application/json"[^>]*>(.*?)</script>', page, re.S)
    assert data is not None
    assert json.loads(data[1])["length"] > 0
    if name.startswith("[red]"):
        assert "[red]gone[/red]" in found.text


def test_the_same_input_gives_the_same_bytes(analyzed: Analyzed) -> None:
    assert page_of(analyzed) == page_of(analyzed)


def test_a_name_that_a_template_lacks_is_an_error() -> None:
    import jinja2

    from decodeprof.report.html.templating import environment

    with pytest.raises(jinja2.UndefinedError):
        environment().from_string("{{ nothing }}").render()
    assert environment().from_string("{{ x }}").render(x="<b>") == "&lt;b&gt;"


def test_four_steps_of_2500_kernels_are_less_than_a_megabyte(tmp_path: Path) -> None:
    # Four kernels a layer, three more, and the copy: 2,504 activities a step.
    page = page_of(loop(tmp_path, steps=4, layers=625))
    assert len(page.encode()) < MEGABYTE
    assert page.count("<section") > 8


def test_a_finding_shows_its_line_among_those_around_it() -> None:
    lines = {number: f"    line {number}" for number in range(30, 50)}
    page = html(diagnoses.full(sources={"my_script.py": lines}), NOTHING)
    excerpt = re.search(r"<pre>(.*?)</pre>", page, re.S)
    assert excerpt is not None
    assert re.findall(r"<i>(\d+)</i>", excerpt[1]) == [str(n) for n in range(35, 42)]
    assert re.findall(r'class="src here"><i>(\d+)</i>    line 38', excerpt[1]) == ["38"]


def test_text_in_backticks_is_a_literal_and_an_open_one_stays() -> None:
    caveats = ["run `nvidia-smi` first", "a ` alone", "`<b>` and ` alone"]
    page = html(diagnoses.full(caveats=caveats), NOTHING)
    assert "run <code>nvidia-smi</code> first" in page
    assert "a ` alone" in page
    assert "<code>&lt;b&gt;</code> and ` alone" in page


def test_a_number_stays_with_its_unit_and_a_literal_as_it_is() -> None:
    caveats = ["busy 15 % of 23.4 ms, < 5 kernels, 3 steps", "`take 5 ms`"]
    page = html(diagnoses.full(caveats=caveats), NOTHING)
    assert "busy 15\xa0% of 23.4\xa0ms, &lt;\xa05 kernels, 3 steps" in page
    assert "<code>take 5 ms</code>" in page


def test_every_family_of_kernels_and_every_idle_cause_has_a_colour() -> None:
    from decodeprof.model.families import FAMILIES
    from decodeprof.report.html.templating import package_text

    style = package_text("style.css")
    for name in [
        *(f"f-{f.replace(' ', '-')}" for f in FAMILIES),
        *(f"c-{c}" for c in d.IDLE_CAUSES),
    ]:
        assert re.search(rf"\.{name}\b[^{{]*\{{ fill: var", style), name


def test_the_head_of_a_prefill_alone_tells_of_the_prefill() -> None:
    diagnosis = diagnoses.full()
    alone = msgspec.structs.replace(diagnosis, prefill=diagnosis.step, step=None, generation=None)
    tiles = re.findall(r"<li><b>([^<]*)</b><span>([^<]*)</span>", html(alone, NOTHING))
    assert [label for _, label in tiles] == ["prefill", "device busy", "kernels a prefill"]


@pytest.mark.parametrize(("letters", "stacked"), [(21, True), (20, False)])
def test_long_names_stand_above_their_figures_on_a_telephone(letters: int, stacked: bool) -> None:
    from decodeprof.report.blocks import Column, Row, line
    from decodeprof.report.html.templating import has_long_names

    columns = (Column("name"), Column("time", "right"))
    row = Row((line("x" * letters), line("1 ms")))
    assert has_long_names(Table(columns, (row,))) == stacked
    assert not has_long_names(Table((Column("name"), Column("what")), (row,)))


def test_an_empty_recording_is_a_page_too() -> None:
    empty = diagnoses.cpu_run()
    nothing = msgspec.structs.replace(
        empty,
        step=None,
        generation=None,
        about=d.About(),
        steps=d.Steps(
            method="none",
            method_text="no steps were found",
            prefill=0,
            decode=0,
            steady=0,
            unmeasured=0,
            query_length=None,
            left_out=[],
            rows=[],
        ),
    )
    assert "no steps were found" in Structure(html(nothing, NOTHING)).text
