from __future__ import annotations

import io
import re
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from rich.cells import cell_len
from rich.console import Console

from decodeprof.model.diagnosis import Diagnosis
from decodeprof.report import terminal
from decodeprof.report.blocks import (
    Bar,
    BarPart,
    Fact,
    Facts,
    Paragraph,
    Section,
    Table,
    View,
    line,
)
from decodeprof.report.view import view
from tests.golden import check_golden
from tests.report import diagnoses

GOLDENS = Path(__file__).parent / "goldens"
SCENARIOS: dict[str, Callable[[], Diagnosis]] = {
    "full": diagnoses.full,
    "foreign_trace": diagnoses.foreign_trace,
    "cpu_run": diagnoses.cpu_run,
}
HOSTILE = {
    "markup": "[red]gone[/red] [link=http://x]y",
    "ansi": "\x1b[31mred\x1b[0m\x1b]0;title\x07",
    "rtl": "\u202egnp.exe\u202c\u2066x\u2069\u200f",
    "breaks": "one\ntwo\r\nthree\x0bfour\u2028five\x00",
    "surrogate": "bad \udcff name",
    "long": "x" * 10_000,
}


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_report_is_the_committed_one(scenario: str, width: int) -> None:
    text = terminal.text(view(SCENARIOS[scenario]()), width=width)
    check_golden(GOLDENS / f"{scenario}_{width}.txt", text.encode())


def test_every_golden_is_read_by_a_test() -> None:
    expected = {f"{scenario}_{width}.txt" for scenario in SCENARIOS for width in (80, 120)}
    assert {path.name for path in GOLDENS.iterdir()} == expected


@pytest.mark.parametrize("width", [40, 60, 80, 100, 120, 200])
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_no_line_of_prose_is_wider_than_the_console(scenario: str, width: int) -> None:
    text = terminal.text(view(SCENARIOS[scenario]()), width=width)
    widest = max(map(cell_len, text.splitlines()))
    # The sources side by side need 77 cells; they are never cut, since a cut figure is wrong.
    assert widest <= max(width, 77)
    assert not any(line.endswith(" ") for line in text.splitlines())


def test_colour_adds_escapes_and_changes_no_text() -> None:
    shown = view(diagnoses.full())
    file = io.StringIO()
    console = Console(
        file=file, width=80, color_system="truecolor", force_terminal=True, _environ={}
    )
    terminal.render(shown, console)
    assert "\x1b[" in file.getvalue()
    from rich.text import Text

    assert Text.from_ansi(file.getvalue()).plain.rstrip() == terminal.text(shown, width=80).rstrip()


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
def test_hostile_names_change_no_structure(name: str) -> None:
    diagnosis = _with_name_everywhere(diagnoses.full(), name)
    text = terminal.text(view(diagnosis), width=80)
    text.encode()  # no lone surrogate is left
    assert not any(character in text for character in "\x1b\x07\x00\r\u202e\u2066\u200f\u2028")
    plain = terminal.text(view(_with_name_everywhere(diagnoses.full(), "plain")), width=80)
    titles = [line for line in plain.splitlines() if line and not line.startswith(" ")]
    assert [line for line in text.splitlines() if line in titles[2:]] == titles[2:]
    if name.startswith("[red]"):
        assert "[red]gone[/red]" in text
    assert len(text) < 40_000


def _with_name_everywhere(diagnosis: Diagnosis, name: str) -> Diagnosis:
    replace = msgspec.structs.replace
    return replace(
        diagnosis,
        source=replace(diagnosis.source, name=name),
        syncs=[
            replace(site, file=name, function=name, code=name, op=name, api=name, in_user_code=name)
            for site in diagnosis.syncs
        ],
        kernels=[replace(row, name=row.name and name) for row in diagnosis.kernels],
        caveats=[name],
        about=replace(diagnosis.about, target=name, arguments={name: name}, device=name),
    )


def test_bar_draws_every_part_that_is_not_zero_and_fills_the_width() -> None:
    parts = (
        BarPart("█", "busy", 1, "busy", "a"),
        BarPart("S", "sync", 10**9, "sync", "b"),
        BarPart("L", "launch", 0, "launch", "c"),
    )
    shown = View((), (Section("b", "B", (Bar("caption", 10**9 + 1, parts),)),))
    lines = terminal.text(shown, width=80).splitlines()
    bar = next(line for line in lines if "SSS" in line)
    assert bar == "  █" + "S" * 77
    assert "  no time: launch" in lines


def test_bar_refuses_parts_that_do_not_sum() -> None:
    with pytest.raises(ValueError, match="sum to 1 ns, not to 2"):
        Bar("caption", 2, (BarPart("S", "sync", 1, "sync", "b"),))


def test_a_block_that_the_terminal_does_not_know_is_an_error() -> None:
    class Other:
        pass

    shown = View((), (Section("o", "O", (Other(),)),))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="Other"):
        terminal.text(shown, width=80)


def test_a_table_without_rows_prints_its_titles() -> None:
    from decodeprof.report.blocks import Column

    shown = View((), (Section("t", "T", (Table((Column("a"), Column("b")), ()),)),))
    assert "  a  b" in terminal.text(shown, width=80).splitlines()


def test_a_style_does_not_spread_to_what_follows() -> None:
    facts = Facts((Fact("label", line("value"), line("detail")),))
    shown = View((), (Section("f", "", (facts,)),))
    file = io.StringIO()
    console = Console(
        file=file, width=80, color_system="standard", force_terminal=True, _environ={}
    )
    terminal.render(shown, console)
    assert "\x1b[2mlabel\x1b[0m  value  detail\n" in file.getvalue()


def test_a_number_and_its_unit_stay_on_one_line() -> None:
    words = "of a step it took 8.0 % and 12.5 µs and 3 s and 4.27 TB/s at most"
    shown = View((), (Section("p", "", (Paragraph(line(words)),)),))
    for width in range(40, 60):
        lines = terminal.text(shown, width=width).split("\n")
        assert not any(re.match(r"(%|µs|s|TB/s)( |$)", one) for one in lines), width
        assert " ".join(lines).split() == words.split()
