"""The table of sources: what is compared is shown, and what is not known is called so."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from decodeprof.model.diagnosis import AgreementRow
from decodeprof.report.agreement import agreement_section
from decodeprof.report.blocks import View, line
from decodeprof.report.html import html
from decodeprof.report.terminal import text
from tests.report.diagnoses import agreement, compared, full
from tests.report.html.pages import NOTHING


def printed(*rows: AgreementRow, width: int = 80) -> str:
    section = agreement_section(full(agreement=agreement(*rows)))
    assert section is not None
    return text(View(line("t"), (section,)), width=width)


def test_sources_side_by_side() -> None:
    assert printed().splitlines()[2:] == [
        "Do the sources agree?",
        "  a decode step    unprofiled  sync-debug  gpu_trace    torch     nsys",
        "  kernels                   –           –          –    2,508    2,508  agree",
        "  kernel launches           –           –          –    2,508    2,400  differ",
        "    unexplained: no count of either source shows why",
        "  graph launches            –           –          –        0        –  alone",
        "  blocking calls            –           1          2        2        3  differ",
        "    the driver's calls: cuCtxSynchronize",
        "  device busy               –           –          –  4.51 ms  4.53 ms  agree",
        "  step time           49.7 ms           –          –  62.4 ms  71.1 ms  differ",
        "    slower",
    ]


def test_five_sources_fit_into_80_cells() -> None:
    assert max(map(cell_len, printed().splitlines())) <= 80


def test_a_source_that_says_why_it_is_silent_is_heard() -> None:
    silent = compared("kernels", None, None, None, 7, None, agrees=None, why="graphs as a whole")
    told = printed(silent)
    assert "alone" in told
    assert "graphs as a whole" in told
    assert "unexplained" not in told


def test_no_table_without_sources() -> None:
    assert agreement_section(full(agreement=None)) is None


@pytest.mark.parametrize("said", ["Do the sources agree?", "unexplained: no count", "2,400"])
def test_the_page_walks_the_same_table(said: str) -> None:
    shown = full()
    assert said in html(shown, NOTHING)
    assert said not in html(full(agreement=None), NOTHING)
