from __future__ import annotations

from types import ModuleType, SimpleNamespace

import msgspec
import pytest

from decodeprof.diagnosis import judging
from decodeprof.diagnosis.judging import (
    Case,
    Clear,
    CouldNotTell,
    Found,
    LeftTo,
    Outcome,
    all_rules,
    judge_all,
    severity,
)
from decodeprof.diagnosis.pipeline import diagnose
from decodeprof.model.diagnosis import Diagnosis, Finding, Range
from tests.build import TraceBuilder
from tests.diagnosis.cases import MS, US, case, loop, reading, recording, timing
from tests.scenarios import decode_loop

CODES = [str(rule.CODE) for rule in all_rules()]


def finding(code: str, saving_ns: int | None) -> Finding:
    saving = None if saving_ns is None else Range(low=0, expected=saving_ns, high=saving_ns)
    return Finding(
        code=code,
        severity="info",
        summary=code,
        saving_ns_per_step=saving,
        evidence=[],
        recommendations=[],
        where=[],
    )


def rule(code: str, outcome: Outcome | Exception) -> SimpleNamespace:
    def judge(what: Case) -> Outcome:
        del what
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    return SimpleNamespace(CODE=code, judge=judge)


def judged(monkeypatch: pytest.MonkeyPatch, *rules: SimpleNamespace) -> judging.Judgement:
    monkeypatch.setattr(judging, "all_rules", lambda: list(rules))
    return judge_all(case(decode_loop(steps=4)))


@pytest.mark.parametrize(
    ("saving_ns", "wanted"),
    [
        (200, "high"),
        (199, "medium"),
        (50, "medium"),
        (49, "low"),
        (10, "low"),
        (9, "info"),
        (None, "info"),
    ],
)
def test_severity_is_the_share_of_the_step(saving_ns: int | None, wanted: str) -> None:
    saving = None if saving_ns is None else Range(low=0, expected=saving_ns, high=1_000)
    assert severity(saving, 1_000) == wanted
    assert severity(saving, None) == "info"


def test_the_largest_saving_comes_first_and_what_saves_nothing_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = judged(
        monkeypatch,
        rule("a", Found((finding("a", None), finding("a", 0)))),
        rule("b", Found((finding("b", 10), finding("b", 300)))),
        rule("c", Found((finding("c", 20),))),
    ).findings
    savings = [f.saving_ns_per_step.expected if f.saving_ns_per_step else None for f in found]
    assert savings == [300, 20, 10, 0, None]


def test_the_answers_go_into_their_lists_and_what_is_left_to_another_into_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answer = judged(
        monkeypatch,
        rule("a", Clear()),
        rule("b", CouldNotTell(reason="why", capture="what")),
        rule("c", LeftTo("a")),
    )
    assert answer.cleared == ["a"]
    assert [(s.code, s.reason, s.capture) for s in answer.skipped] == [("b", "why", "what")]
    assert answer.findings == []


def test_a_rule_that_fails_is_said_and_takes_nothing_away(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = judged(monkeypatch, rule("a", ZeroDivisionError("by zero")), rule("b", Clear()))
    [skipped] = answer.skipped
    assert skipped.reason == "the rule failed: ZeroDivisionError: by zero"
    assert answer.cleared == ["b"]


def cases() -> dict[str, Case]:
    """Recordings of many kinds, whole and in part."""
    cpu = TraceBuilder()
    for _ in range(4):
        with cpu.op("aten::mm"):
            cpu.work(100 * US)
    lone = TraceBuilder()
    lone.unlinked("kernel", start_ns=0, ns=5 * US)
    lone.unlinked("kernel", start_ns=10 * US, ns=5 * US)
    return {
        "cpu": case(cpu, recording(device=None, timing=timing([MS] * 8))),
        "no launches": case(lone),
        "no steps": case(loop(reading, decode=1)),
        "no calls": case(decode_loop(steps=8), without=("calls",)),
        "device alone": case(decode_loop(steps=8), without=("calls", "ops", "shapes", "frames")),
        "plain": case(decode_loop(steps=8), recording()),
        "unprofiled": case(loop(reading), recording(timing=timing([450 * US] * 8))),
    }


@pytest.mark.parametrize("name", list(cases()))
def test_every_rule_answers_without_failing_on_whatever_was_recorded(name: str) -> None:
    what = cases()[name]
    answer = judge_all(what)
    assert [s.reason for s in answer.skipped if "the rule failed" in s.reason] == []
    assert {s.code for s in answer.skipped} <= set(CODES)
    for told in answer.findings:
        assert told.summary.endswith(".")
        assert told.evidence
        assert told.recommendations


def test_without_a_gpu_every_rule_about_one_gives_the_same_reason_and_none_is_clear() -> None:
    answer = judge_all(cases()["cpu"])
    # What torch.compile logs, it logs on a CPU too.
    assert answer.cleared == ["compile-breaks"]
    assert answer.findings == []
    assert [s.code for s in answer.skipped] == [c for c in CODES if c != "compile-breaks"]
    assert {s.reason for s in answer.skipped} == {"no GPU was used"}


def test_without_api_calls_nothing_that_needs_them_is_clear() -> None:
    needing = {
        "allocation-in-loop",
        "blocking-read",
        "data-quality",
        "graph-missing",
        "graph-unused",
        "host-after-sync",
        "one-off-costs",
        "pageable-copy",
        "small-kernels",
        "sync-harmless",
        "sync-site",
    }
    assert needing & set(judge_all(cases()["no calls"]).cleared) == set()


def test_no_saving_exceeds_what_no_host_and_fused_kernels_would_leave() -> None:
    for name in ("plain", "unprofiled"):
        what = cases()[name]
        outcomes = what.predicted.outcomes
        assert outcomes is not None
        for told in judge_all(what).findings:
            if told.saving_ns_per_step is not None:
                assert told.saving_ns_per_step.expected <= outcomes.step_ns
                assert told.saving_ns_per_step.low <= told.saving_ns_per_step.expected


def test_the_diagnosis_holds_the_answers_and_keeps_its_schema() -> None:
    diagnosis = diagnose(cases()["plain"].evidence)
    assert diagnosis.findings[0].code == "graph-missing"
    assert set(diagnosis.cleared) | {s.code for s in diagnosis.skipped} < set(CODES)
    assert msgspec.json.decode(msgspec.json.encode(diagnosis), type=Diagnosis) == diagnosis


def test_all_rules_are_modules_in_order() -> None:
    assert all(isinstance(module, ModuleType) for module in all_rules())
    assert sorted(CODES) == CODES
