"""The page of several ranks: whole, self-contained, small, and readable on a telephone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from decodeprof.diagnosis.charts.pages import rule_pages
from decodeprof.diagnosis.ranks import analyze_ranks
from decodeprof.model.ranks import FailedRank, RankReport
from decodeprof.report.html import MARK
from decodeprof.report.html import ranks as page_of_ranks
from decodeprof.report.html.ranks import ranks_html
from decodeprof.report.ranks import ranks_view
from tests.browser import as_seen, chromium, requests
from tests.ranks import rank_loop, write_rank, write_ranks
from tests.report.html.pages import Structure
from tests.report.html.test_page import HOSTILE_HERE, MEGABYTE, lines_of
from tests.report.test_terminal import _with_name_everywhere
from tests.scenarios import US

LATE = 2
"""The rank that holds the others up, of three."""
replace = msgspec.structs.replace


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> RankReport:
    folder = tmp_path_factory.mktemp("ranks")
    paths = write_ranks(folder, [0, 10 * US, 60 * US])
    # One of them launches more than the others.
    odd = rank_loop(late_ns=10 * US, waits_ns=50 * US, extra_kernels=2).build()
    write_rank(paths[1], odd, 1, 3)
    return analyze_ranks(paths)


def page_of(report: RankReport) -> str:
    codes = {finding.code for rank in report.ranks for finding in rank.diagnosis.findings}
    return ranks_html(report, rule_pages(codes))


def test_the_page_says_all_that_the_view_says_and_each_ranks_own(report: RankReport) -> None:
    page = page_of(report)
    assert page.startswith(MARK)
    structure = Structure(page)
    told = "".join(structure.text.split())
    for section in ranks_view(report).sections:
        if section.key != "verdicts":
            for line in lines_of(section.blocks):
                text = "".join(span.text for span in line).replace("`", "")
                assert "".join(text.split()) in told, text
    for rank in report.ranks:
        own = re.search(rf'<details class="rank" id="rank-{rank.rank}">(.*?)</summary>', page, re.S)
        assert own is not None
        assert rank.diagnosis.verdict.sentence in Structure(own[1] + "</summary>").text.replace(
            "\xa0", " "
        )
        assert rank.name in own[1]
        for finding in rank.diagnosis.findings:
            assert f"rank-{rank.rank}-finding-{finding.code}" in structure.ids
    assert len(structure.ids) == len(set(structure.ids))
    inside = {link.removeprefix("#") for link in structure.links if link != "data:,"}
    assert inside <= set(structure.ids)
    assert page == page_of(report)


def test_the_bars_are_the_tables_times(report: RankReport) -> None:
    assert report.slowest == LATE
    page = page_of(report)
    rows = re.findall(r'<div class="row( slowest)?">\n<a class="label" href="#rank-(\d+)">', page)
    assert rows == [("", "0"), ("", "1"), (" slowest", "2")]
    longest = max(rank.stretch_ns for rank in report.ranks)
    for rank in report.ranks:
        bar = re.search(rf'href="#rank-{rank.rank}">.*?</svg>', page, re.S)
        assert bar is not None
        widths = dict(re.findall(r'class="r-(\w+)" x="[\d.]+%" width="([\d.]+)%"', bar[0]))
        lengths = {
            "compute": rank.compute_ns,
            "collective": rank.collective_ns,
            "waiting": rank.waiting_ns,
            "idle": rank.idle_ns,
        }
        assert set(widths) == {kind for kind, length in lengths.items() if length}
        for kind, width in widths.items():
            assert float(width) == pytest.approx(100 * (lengths[kind] or 0) / longest, abs=0.001)
    assert sum(page.count(f'"chip r-{kind}"') for kind in page_of_ranks._KINDS) == 4


def test_no_script_and_no_request_is_allowed(report: RankReport) -> None:
    page = page_of(report)
    assert "<script" not in page
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy is not None
    assert policy[1].startswith("default-src 'none'; style-src 'sha256-".replace("'", "&#39;"))
    assert "script-src" not in policy[1]
    assert not re.search(r"\bhttps?://(?!www\.w3\.org/2000/svg)", page)
    attributes = {key for key, _ in Structure(page).attributes}
    assert not {key for key in attributes if key == "style" or key.startswith("on")}


@pytest.mark.parametrize("name", HOSTILE_HERE.values(), ids=HOSTILE_HERE)
def test_hostile_names_change_no_structure(name: str, report: RankReport) -> None:
    def named(text: str) -> Structure:
        failed = [FailedRank(name=text, what=text, why=text, hint=text)]
        ranks = [
            replace(rank, name=text, diagnosis=_with_name_everywhere(rank.diagnosis, text))
            for rank in report.ranks
        ]
        page = page_of(replace(report, ranks=ranks, failed=failed, caveats=[text]))
        page.encode()  # no lone surrogate is left
        assert not any(c in page for c in "\x1b\x07\x00\r\u202e\u2066\u200f\u2028")
        return Structure(page)

    found, wanted = named(name), named("plain")
    assert [t for t in found.tags if t != "code"] == [t for t in wanted.tags if t != "code"]
    assert found.ids == wanted.ids


def test_many_ranks_fit_a_megabyte_and_those_that_stand_out_are_whole(report: RankReport) -> None:
    last = report.ranks[LATE]
    many = [
        *report.ranks[:LATE],
        *(replace(report.ranks[0], rank=i, name=f"rank{i}.json.gz") for i in range(LATE, 63)),
        replace(last, rank=63),
    ]
    page = page_of(replace(report, ranks=many, slowest=63))
    assert len(page.encode()) < MEGABYTE
    folded = re.findall(
        r'id="rank-(\d+)">(.*?)\n</details>\n(?=<details class="rank"|</s)', page, re.S
    )
    assert [int(rank) for rank, _ in folded] == list(range(64))
    whole = {int(rank) for rank, body in folded if "Where one step" in body}
    assert {0, 1, 63} <= whole
    assert len(whole) < 64
    for rank, body in folded:
        if int(rank) not in whole:
            assert f"decodeprof analyze rank{rank}.json.gz" in body


def test_ranks_of_different_kinds_have_no_picture(report: RankReport) -> None:
    alone = replace(
        report, stretch_ns=None, own_ns=None, busy_ns=None, slowest=None, slowest_by=None
    )
    page = page_of(alone)
    assert '<figure class="bars">' not in page
    assert "slowest" not in Structure(page).text


def test_one_rank_that_is_left_is_no_slowest(report: RankReport) -> None:
    alone = replace(report, ranks=report.ranks[:1], slowest=None, differences=[])
    assert "stands out" not in Structure(page_of(alone)).text


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.fixture
def page(browser: Any, report: RankReport, tmp_path: Path) -> Iterator[Any]:
    file = tmp_path / "ranks.html"
    file.write_text(page_of(report))
    as_seen(browser)
    requests(browser)
    browser.get(file.as_uri())
    yield browser
    assert requests(browser) == [file.as_uri()]
    assert browser.get_log("browser") == []


@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_wider_than_the_window(page: Any, width: int, scheme: str) -> None:
    as_seen(page, width=width, scheme=scheme)
    page.execute_script("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert page.execute_script("return document.documentElement.scrollWidth") <= width
    # The table of all ranks is read without moving it aside.
    inside = "const s = document.querySelector('.ranks .scroll'); return s.scrollWidth"
    assert page.execute_script(inside) <= width
    assert page.execute_script("return getComputedStyle(document.body).backgroundColor") == (
        "rgb(18, 20, 24)" if scheme == "dark" else "rgb(251, 251, 250)"
    )


def test_a_rank_is_folded_until_it_is_asked_for_by_the_keyboard(page: Any) -> None:
    first = page.find_element("css selector", "#rank-0 h4")
    assert not first.is_displayed()
    page.find_element("css selector", "#rank-0 > summary").send_keys("\n")
    assert first.is_displayed()


def test_on_paper_every_rank_is_unfolded(page: Any) -> None:
    height = "return document.querySelector('#rank-0').getBoundingClientRect().height"
    folded = page.execute_script(height)
    as_seen(page, media="print")
    assert page.execute_script(height) > 10 * folded
    assert not page.find_element("css selector", "nav").is_displayed()
