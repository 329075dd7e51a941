from __future__ import annotations

from decodeprof.model.diagnosis import Diagnosis
from decodeprof.report.blocks import Facts
from decodeprof.report.html.method import method_section
from tests.report import diagnoses


def told(diagnosis: Diagnosis) -> dict[str, str]:
    section = method_section(diagnosis)
    assert section is not None
    (facts,) = section.blocks
    assert isinstance(facts, Facts)
    return {row.label: row.value[0].text for row in facts.rows}


def test_a_recording_has_every_rule() -> None:
    rules = told(diagnoses.full())
    assert list(rules) == [
        "step time",
        "step budget",
        "floors",
        "predictions",
        "exposed cost",
        "evidence",
        "answers",
    ]
    assert "no profiler attached" in rules["step time"]


def test_what_a_trace_does_not_have_is_not_explained() -> None:
    rules = told(diagnoses.foreign_trace())
    assert list(rules) == ["step time", "step budget", "answers"]
    assert rules["step time"].startswith("as the profiler saw it")


def test_without_a_gpu_no_rule_applies() -> None:
    assert method_section(diagnoses.cpu_run()) is None
