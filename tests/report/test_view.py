from __future__ import annotations

import ast
from pathlib import Path

import msgspec
import pytest

import decodeprof.report
from decodeprof.model import diagnosis as d
from decodeprof.model.diagnosis import Diagnosis, Idle, Range, Skipped, Source, WhatIf, WhatIfs
from decodeprof.report.as_json import diagnosis_json
from decodeprof.report.blocks import Bar, Block, Column, Facts, Note, Row, Table, View, line
from decodeprof.report.terminal import text as text_of
from decodeprof.report.view import view
from tests.report.diagnoses import cpu_run, figures, foreign_trace, full, kernel, sync_site


def blocks(shown: View, key: str) -> tuple[Block, ...]:
    found = [section.blocks for section in shown.sections if section.key == key]
    assert len(found) == 1, f"{len(found)} sections {key!r}"
    return found[0]


def keys(shown: View) -> list[str]:
    return [section.key for section in shown.sections]


def notes(shown: View, key: str) -> list[tuple[str, str]]:
    return [
        (block.kind, "".join(span.text for span in block.text))
        for block in blocks(shown, key)
        if isinstance(block, Note)
    ]


def test_sections_come_in_reading_order() -> None:
    assert keys(view(full())) == [
        "verdict", "step", "budget", "floors", "what-if", "findings", "syncs", "kernels",
        "prefill", "steps", "measured", "agreement", "checked", "caveats", "next",
    ]  # fmt: skip


def test_the_budget_is_the_step_exactly() -> None:
    (bar,) = blocks(view(full()), "budget")
    assert isinstance(bar, Bar)
    assert bar.total_ns == 62_400_321 == sum(part.value_ns for part in bar.parts)
    assert [part.key for part in bar.parts] == ["█", "S", "L", "D", "P", "g", "w", "?"]
    assert {part.label for part in bar.parts} == {"busy", *Idle.__struct_fields__}


def test_no_call_captured_is_unknown_and_none_found_is_none() -> None:
    none = full(syncs=[], step=figures(syncs=0.0), prefill=None)
    assert [kind for kind, _ in notes(view(none), "syncs")] == ["none"]
    unknown = full(
        syncs=[],
        step=figures(syncs=None),
        source=Source(kind="torch", name="t", captured=["device"]),
    )
    assert notes(view(unknown), "syncs") == [("unknown", "unknown: no CUDA API call was captured")]


def test_blocking_calls_without_a_site_are_not_none() -> None:
    shown = view(full(syncs=[], step=figures(syncs=2.0)))
    assert notes(shown, "syncs") == [
        ("unknown", "2 blocking calls a step; where they are made is unknown")
    ]


def test_sites_that_are_not_shown_are_counted() -> None:
    shown = view(full(syncs=[sync_site(line=i) for i in range(20)]))
    table = blocks(shown, "syncs")[0]
    assert isinstance(table, Table)
    assert len(table.rows) == 12
    assert table.more == "8 more sites: see the JSON"


def test_an_unknown_figure_of_a_site_is_a_dash_and_zero_is_zero() -> None:
    shown = view(full(syncs=[sync_site(exposed_ns=None, idle_after_ns=0)]))
    table = blocks(shown, "syncs")[0]
    assert isinstance(table, Table)
    titles = [column.title for column in table.columns]
    cells = {
        title: "".join(span.text for span in cell)
        for title, cell in zip(titles, table.rows[0].cells, strict=True)
    }
    assert cells["exposed"] == "–"
    assert cells["idle after"] == "0"


def test_kernels_none_and_unknown() -> None:
    assert notes(view(full(kernels=[])), "kernels")[0][0] == "none"
    unknown = full(kernels=[], source=Source(kind="torch", name="t", captured=["calls"]))
    assert notes(view(unknown), "kernels")[0][0] == "unknown"


def test_achieved_bandwidth_is_a_column_where_it_is_known() -> None:
    row = msgspec.structs.replace(
        kernel("matrix", "nvjet", 1.0, 1000), bytes=4000, achieved_bytes_per_s=4e12
    )
    table, *rest = blocks(view(full(kernels=[row])), "kernels")
    assert isinstance(table, Table)
    assert table.columns[-1].title == "achieved"
    assert not rest


def test_a_cpu_run_says_what_it_can_and_cannot_tell() -> None:
    shown = view(cpu_run())
    assert keys(shown)[:2] == ["verdict", "cpu"]
    assert {"budget", "syncs", "kernels"}.isdisjoint(keys(shown))
    assert "cpu" not in keys(view(full()))
    assert "cpu" not in keys(view(foreign_trace()))


def test_a_saving_is_taken_from_the_kind_of_time_that_the_what_if_is_in() -> None:
    what_if = WhatIf(
        step_ns=Range(low=1, expected=60_400_321, high=3), in_profiled_time=True, assumes="a"
    )
    table = blocks(view(full(what_if=WhatIfs(no_syncs=what_if))), "what-if")[0]
    assert isinstance(table, Table)
    (row,) = table.rows
    assert row.cells[3] == line("2 ms")
    assert row.below[0][0].text == "in profiled time; assumes a"


def test_no_step_means_no_figures_per_step() -> None:
    steps = msgspec.structs.replace(full().steps, period_activities=3, period_count=640)
    shown = view(full(step=None, prefill=None, steps=steps))
    assert notes(shown, "step") == [
        ("unknown", "a period of 3 activities × 640, which is not known to be a step")
    ]
    assert "budget" not in keys(shown)


def test_a_pass_that_did_not_finish_is_named() -> None:
    assert ("unknown", "gpu_trace pass skipped: this torch has no gpu_trace hooks") in notes(
        view(full()), "measured"
    )


def test_a_row_with_missing_cells_is_refused() -> None:
    with pytest.raises(ValueError, match="1 cells under 2 columns"):
        Table((Column("a"), Column("b")), (Row((line("x"),)),))


def test_the_view_knows_nothing_of_rich() -> None:
    folder = Path(decodeprof.report.__file__).parent
    for path in folder.glob("*.py"):
        names = {
            name
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Import | ast.ImportFrom)
            for name in [getattr(node, "module", None), *(alias.name for alias in node.names)]
            if name
        }
        uses_rich = any(name.split(".")[0] == "rich" for name in names)
        assert uses_rich == (path.name == "terminal.py"), path.name


@pytest.mark.parametrize("diagnosis", [full(), foreign_trace(), cpu_run()])
def test_json_reads_back_as_the_same_diagnosis(diagnosis: Diagnosis) -> None:
    data = diagnosis_json(diagnosis)
    assert data.endswith(b"}\n")
    assert msgspec.json.decode(data, type=Diagnosis) == diagnosis
    assert data == diagnosis_json(diagnosis)


def test_facts_of_a_trace_without_calls_say_unknown_and_not_zero() -> None:
    (facts, *_) = blocks(view(foreign_trace()), "step")
    assert isinstance(facts, Facts)
    details = {row.label: "".join(span.text for span in row.detail) for row in facts.rows}
    assert details["kernels"] == "per step; API calls unknown"


def test_one_reason_that_keeps_many_rules_from_looking_is_said_once() -> None:
    skipped = [
        Skipped(code=code, reason=reason, capture="record again")
        for code, reason in (
            ("one", "no GPU was used"),
            ("two", "why"),
            ("three", "no GPU was used"),
        )
    ]
    text = text_of(view(full(skipped=skipped)), width=100)
    assert "? could not tell, no GPU was used: one, three\n" in text
    assert "? could not tell, why: two\n" in text


def test_a_remark_says_how_to_act_and_a_finding_what_to_check_and_to_risk() -> None:
    [told] = full().findings
    advice = told.recommendations[0]
    for severity, shown in (("high", True), ("info", False)):
        changed = msgspec.structs.replace(told, severity=severity)
        text = text_of(view(full(findings=[changed])), width=200)
        assert advice.how in text
        assert (advice.risk in text) is shown


@pytest.mark.parametrize(
    ("until", "told"),
    [
        ("yield", "TTFT to the first yield"),
        ("forward", "TTFT to the first forward's end, before sampling"),
        ("mark", "TTFT to the end of the marked prefill"),
        ("second_forward", "TTFT, at most: until the second step begins"),
    ],
)
def test_the_time_to_the_first_token_says_with_what_it_ends(until: str, told: str) -> None:
    generation = full().generation
    assert generation is not None
    shown = full(generation=msgspec.structs.replace(generation, ttft_until=until))
    assert f"58.1 ms        {told}" in text_of(view(shown), width=120)


def test_tokens_of_a_forward_are_told_where_they_are_not_one() -> None:
    generation = full().generation
    assert generation is not None
    shown = full(generation=msgspec.structs.replace(generation, tokens_per_step=2.0))
    assert "decode alone, batch 1, 2 tokens a step on average" in text_of(view(shown), width=120)
    assert "a step on average" not in text_of(view(full()), width=120)


def test_the_peak_that_operations_are_divided_by_is_named() -> None:
    floors = full().floors
    assert floors is not None
    known = msgspec.structs.replace(
        floors, flops=12_000_000_000, flops_ns=16_000, flops_per_s=7.33e14, flops_source="measured"
    )
    assert "12 GFLOP ÷ 733 TFLOP/s (measured)" in text_of(view(full(floors=known)), width=120)
    unknown = msgspec.structs.replace(floors, flops=12_000_000_000, flops_per_s=None)
    assert "12 GFLOP ÷ unknown" in text_of(view(full(floors=unknown)), width=120)


def test_a_call_that_only_a_detector_saw_says_what_its_number_is() -> None:
    seen = sync_site(call_ns=None, idle_inside_ns=None, idle_after_ns=None, calls_per_step=1 / 31)
    legend = notes(view(full(syncs=[seen])), "syncs")[-1][1]
    assert "its number is the detector's" in legend
    assert "detector's" not in notes(view(full(syncs=[sync_site()])), "syncs")[-1][1]


def test_passes_that_one_cause_keeps_from_running_are_said_once() -> None:
    notes_of = [
        d.PassNote(name=name, status=status, reason=reason, seconds=0)
        for name, status, reason in (
            ("ceilings", "skipped", "the target ran on the CPU alone"),
            ("timing", "partial", "the target raised"),
            ("gpu_trace", "skipped", "the target ran on the CPU alone"),
        )
    ]
    shown = view(full(about=msgspec.structs.replace(full().about, passes=notes_of)))
    assert [text for _, text in notes(shown, "measured")][:2] == [
        "ceilings, gpu_trace passes skipped: the target ran on the CPU alone",
        "timing pass done in part: the target raised",
    ]


def test_a_prefill_alone_lasts_to_the_calls_end() -> None:
    timed = figures(unprofiled_ns=figures().unprofiled_ns)
    for decode, until in ((4, "until the second step begins"), (0, "to its end")):
        steps = msgspec.structs.replace(full().steps, decode=decode)
        shown = text_of(view(full(prefill=timed, steps=steps)), width=120)
        assert f"from the call {until}; median of" in shown
