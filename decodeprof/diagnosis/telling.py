"""How is a finding put into words: severity, evidence, source lines, how to see it worked?"""

from __future__ import annotations

from collections.abc import Iterable

from decodeprof.analysis.replay.what_if import Outcome
from decodeprof.diagnosis.judging import Case, severity
from decodeprof.model.diagnosis import (
    Evidence,
    Finding,
    Range,
    Recommendation,
    SyncSite,
    Where,
)

# Places that a finding lists; the table of blocking calls holds them all.
MOST_PLACES = 5


def finding(
    case: Case,
    code: str,
    summary: str,
    *,
    evidence: Iterable[Evidence],
    advice: Iterable[Recommendation],
    where: Iterable[Where] = (),
    saving: Range | None = None,
) -> Finding:
    """A finding with the severity that its saving gives it."""
    return Finding(
        code=code,
        severity=severity(saving, case.step_ns),
        summary=summary,
        saving_ns_per_step=saving,
        evidence=list(evidence),
        recommendations=list(advice),
        where=list(dict.fromkeys(where))[:MOST_PLACES],
    )


def measured(text: str) -> Evidence:
    """Read off events."""
    return Evidence(text=text, kind="MEASURED")


def derived(text: str) -> Evidence:
    """Computed from what was measured."""
    return Evidence(text=text, kind="DERIVED")


def modelled(text: str) -> Evidence:
    """Assumes something, which the text says."""
    return Evidence(text=text, kind="MODELLED")


def assumption(outcome: Outcome) -> Evidence:
    """What a what-if assumes."""
    return modelled(f"assumes {outcome.assumes.removesuffix('.')}")


def timed(case: Case) -> str:
    """What stands behind a replayed time that is not unprofiled time."""
    return " in profiled time" if case.predicted.in_profiled_time else ""


def share_of_step(case: Case, ns: int | None) -> float:
    """A saving's share of the step; 0 where either is not known."""
    return ns / case.step_ns if ns and case.step_ns else 0.0


def again(case: Case, *, look: str) -> str:
    """How to see that a change worked.

    Args:
        case: the case.
        look: what to look at in the new report.
    """
    told = case.diagnosis.about.command
    command = f"`{told}`" if told else "profile again, then `decodeprof analyze` the new trace"
    return f"{command}: {look}"


def place_of(site: SyncSite) -> str:
    """A blocking site in a sentence: its line, else its op, else its API."""
    if site.file is not None:
        return f"{site.file}:{site.line}"
    return f"`{site.op}`" if site.op else f"`{site.api}`"


def where_of(site: SyncSite) -> list[Where]:
    """A blocking site's line; nothing where it is not known."""
    if site.file is None:
        return []
    return [Where(file=site.file, line=site.line, function=site.function, code=site.code)]


def caller_of(case: Case, site: SyncSite) -> str | None:
    """The innermost frame outside installed packages, where the site itself lies in one."""
    recording = case.evidence.recording
    packages = {"torch", *(recording.environment.packages if recording else ())}
    if site.file is None or site.file.split("/")[0] not in packages:
        return None
    return next((f for f in reversed(site.stack) if f.split("/")[0] not in packages), None)


def uses_transformers(case: Case) -> bool:
    """Whether the target was run by the `transformers` library."""
    recording = case.evidence.recording
    return recording is not None and "transformers" in recording.environment.packages


def decode_sites(case: Case) -> list[SyncSite]:
    """Blocking sites of decode steps, in the order of the evidence's."""
    return [site for site in case.diagnosis.syncs if site.phase == "decode"]
