"""What does a rule get, and what may it answer? And the one place that runs them all.

Three answers, as types: found, clear, could not tell. Nothing turns the third into the second: a
table that was not captured is unknown, not empty. A rule whose answer another rule gives better
leaves it to that one, and stands in none of the three lists.
"""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import dataclass
from types import ModuleType
from typing import Literal

from decodeprof.diagnosis import rules
from decodeprof.diagnosis.evidence import Evidence
from decodeprof.diagnosis.predictions import Predictions
from decodeprof.model.diagnosis import Diagnosis, Finding, Range, Skipped

Severity = Literal["high", "medium", "low", "info"]

# Shares of the step that a saving is worth. Below 1 % a change is lost in the noise of host times;
# from 20 % on a user sees it without measuring.
HIGH_SHARE = 0.20
MEDIUM_SHARE = 0.05
LOW_SHARE = 0.01


@dataclass(frozen=True)
class Case:
    """What is to be judged: the diagnosis so far, without findings, and what it was made from."""

    diagnosis: Diagnosis
    evidence: Evidence
    predicted: Predictions

    @property
    def step_ns(self) -> int | None:
        """The step that savings are a share of: replayed, else unprofiled, else profiled."""
        if self.predicted.outcomes is not None:
            return self.predicted.outcomes.step_ns
        return self.measured_step_ns

    @property
    def measured_step_ns(self) -> int | None:
        """The step that was measured: unprofiled where it is known, else profiled."""
        step = self.diagnosis.step
        if step is None:
            return None
        return step.unprofiled_ns.median if step.unprofiled_ns else step.profiled_ns

    def captured(self, *tables: str) -> bool:
        """Whether the capture was able to fill all of these tables."""
        return set(tables) <= set(self.diagnosis.source.captured)


@dataclass(frozen=True)
class Found:
    """The rule found something worth saying."""

    findings: tuple[Finding, ...]


@dataclass(frozen=True)
class Clear:
    """The rule looked, and there is nothing."""


@dataclass(frozen=True)
class CouldNotTell:
    """The rule could not look."""

    reason: str
    capture: str
    """What to capture so that it can."""


@dataclass(frozen=True)
class LeftTo:
    """Another rule says what this one would say, and more."""

    code: str


Outcome = Found | Clear | CouldNotTell | LeftTo


@dataclass(frozen=True)
class Judgement:
    """What all rules said."""

    findings: list[Finding]
    cleared: list[str]
    skipped: list[Skipped]


def severity(saving: Range | None, step_ns: int | None) -> Severity:
    """Severity from the expected saving's share of the step, the one place that decides it."""
    if saving is None or not step_ns:
        return "info"
    share = saving.expected / step_ns
    if share >= HIGH_SHARE:
        return "high"
    if share >= MEDIUM_SHARE:
        return "medium"
    return "low" if share >= LOW_SHARE else "info"


def all_rules() -> list[ModuleType]:
    """Every rule's module, by code."""
    modules = [
        importlib.import_module(f"{rules.__name__}.{info.name}")
        for info in pkgutil.iter_modules(rules.__path__)
    ]
    return sorted(modules, key=lambda module: str(module.CODE))


def judge_all(case: Case) -> Judgement:
    """Run every rule; findings with the largest expected saving come first."""
    findings: list[Finding] = []
    cleared: list[str] = []
    skipped: list[Skipped] = []
    for rule in all_rules():
        try:
            outcome: Outcome = rule.judge(case)
        # One rule's fault must not take the report away; it is said in the report.
        except Exception as error:
            outcome = CouldNotTell(
                reason=f"the rule failed: {type(error).__name__}: {error}",
                capture="report this with the recording: it is a fault of decodeprof",
            )
        if isinstance(outcome, Found):
            findings += outcome.findings
        elif isinstance(outcome, Clear):
            cleared.append(rule.CODE)
        elif isinstance(outcome, CouldNotTell):
            skipped.append(Skipped(code=rule.CODE, reason=outcome.reason, capture=outcome.capture))
    findings.sort(
        key=lambda f: (
            -(f.saving_ns_per_step.expected if f.saving_ns_per_step else -1),
            f.code,
            f.summary,
        )
    )
    return Judgement(findings=findings, cleared=cleared, skipped=skipped)
