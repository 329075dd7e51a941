"""What does a capture that was tried say of a target's step?"""

from __future__ import annotations

import re

import msgspec

from decodeprof import units
from decodeprof.analysis.graph_refusals import refusal
from decodeprof.analysis.graph_segments import segments_of
from decodeprof.analysis.hazards import graph_hazards
from decodeprof.model.graph_check import (
    Attempt,
    GraphCheck,
    GraphCheckRun,
    PythonChange,
    Refusal,
    Verdict,
)
from decodeprof.model.lint import Hazard, HazardKind

_SHOWN_NAMES = 3


def checked(run: GraphCheckRun) -> GraphCheck:
    """Judge what the process that captured handed over."""
    record = run.record
    run = msgspec.structs.replace(run, attempts=[_grouped(each) for each in run.attempts])
    failed = next((each.error for each in run.attempts if each.error is not None), None)
    stopped = refusal(failed, record) if failed is not None else None
    whole = run.whole_step
    whole_error = whole.error if whole is not None else None
    whole_stopped = refusal(whole_error, record) if whole_error is not None else None
    verdict = _verdict(run.attempts)
    cut = segments_of(record) if record is not None else []
    hazards = graph_hazards(record) if record is not None else None
    parts = any(each.stopped_at is not None for each in cut)
    return GraphCheck(
        target=run.target,
        step=run.step,
        device=run.device,
        verdict=verdict,
        sentence=_sentence(run, verdict, stopped, whole_stopped, hazards or []),
        attempts=run.attempts,
        refusal=stopped,
        whole_step=whole,
        whole_step_refusal=whole_stopped,
        hazards=hazards,
        segments=cut if parts and (stopped is not None or whole_stopped is not None) else [],
        caveats=_caveats(run),
    )


def _verdict(attempts: list[Attempt]) -> Verdict:
    """The worst of all attempts: a bucket that fails is a bucket that cannot be served."""
    if any(each.error is not None and not each.captured for each in attempts):
        return "refused"
    if any(each.matches is False for each in attempts):
        return "wrong"
    if attempts and all(each.matches for each in attempts):
        return "captures"
    return "unknown"


def _sentence(
    run: GraphCheckRun,
    verdict: Verdict,
    stopped: Refusal | None,
    whole: Refusal | None,
    hazards: list[Hazard],
) -> str:
    name = f"`{run.step}`"
    around = f"the loop around it cannot be captured along{_at(whole)}" if whole is not None else ""
    if verdict == "refused" and stopped is not None:
        return f"{name} cannot be captured: it breaks the rule “{stopped.rule}”{_at(stopped)}."
    if verdict == "wrong":
        why = _why_wrong(run.attempts, hazards)
        rest = f" And {around}." if around else ""
        return f"{name} is captured, but a replay is not the step: {why}.{rest}"
    if verdict == "unknown":
        return f"{name}: could not tell; {_why_unknown(run.attempts)}."
    rest = f"; {around}" if around else ""
    if any(each.same_result is False for each in run.attempts):
        return (
            f"{name} is captured, and the replays that were compared are the step"
            f"{_gain(run.attempts)}, but with replays the target returned something else{rest}."
        )
    return f"{name} is captured, and its replay is the step{_gain(run.attempts)}{rest}."


def _at(found: Refusal) -> str:
    place = found.error.place
    if place is None:
        return ""
    code = f", `{place.code}`" if place.code else ""
    return f" at {place.file}:{place.line}{code}"


def _gain(attempts: list[Attempt]) -> str:
    first = attempts[0]
    if first.before is None or first.after is None:
        return ""
    times = f"{first.before.median_ns / max(first.after.median_ns, 1):.3g}"
    before, after = (units.time(each.median_ns) for each in (first.before, first.after))
    return f": {before} a step become {after}, {times} times as fast"


def _why_wrong(attempts: list[Attempt], hazards: list[Hazard]) -> str:
    """What a replay cannot follow, the likeliest cause first."""
    wrong = next(each for each in attempts if each.matches is False)
    grown = [each for each in wrong.python_changes if each.grows]
    if grown:
        place = _first(hazards, "shape")
        verb = "grow" if len(grown) > 1 else "grows"
        return (
            f"{_named(grown)} {verb} in each step{place}, and the graph keeps the length of its "
            "capture"
        )
    if wrong.changed_inputs:
        return f"an input changes in each step ({wrong.changed_inputs[0]})"
    if wrong.python_changes:
        verb = "change" if len(wrong.python_changes) > 1 else "changes"
        return (
            f"{_named(wrong.python_changes)} {verb} in each step ({wrong.python_changes[0].text})"
            f"{_first(hazards, 'scalar')}, and the graph keeps the value of its capture"
        )
    if wrong.error is not None:
        return f"it failed: {wrong.error.message.splitlines()[0]}"
    where = wrong.differences[0]
    which = "first" if where.input == 1 else "second"
    place = _first(hazards, "scalar")
    baked = f"; a Python value changes{place}" if place else ""
    return f"{where.name} differs with the {which} input ({where.text}){baked}"


def _first(hazards: list[Hazard], kind: HazardKind) -> str:
    """The first line at which two recorded steps differ in such a way, if they do."""
    found = next((each for each in hazards if each.kind == kind), None)
    return f" at {found.place.file}:{found.place.line}" if found is not None else ""


def _grouped(attempt: Attempt) -> Attempt:
    """The same with what a step changes alike in each layer told once."""
    groups: dict[tuple[str, str, str], list[PythonChange]] = {}
    for each in attempt.python_changes:
        name = re.sub(r"\[\d+\]", "[…]", each.name)
        groups.setdefault((name, each.kind, each.text), []).append(each)
    changes = [
        msgspec.structs.replace(same[0], name=name, text=f"{text}, {len(same)} times")
        if len(same) > 1
        else same[0]
        for (name, _, text), same in groups.items()
    ]
    return msgspec.structs.replace(attempt, python_changes=changes)


def _named(changes: list[PythonChange]) -> str:
    names = ", ".join(f"`{each.name}`" for each in changes[:_SHOWN_NAMES])
    more = len(changes) - _SHOWN_NAMES
    return f"{names} and {more} more" if more > 0 else names


def _why_unknown(attempts: list[Attempt]) -> str:
    for each in attempts:
        if each.why_unknown or each.note:
            return (each.why_unknown or each.note).splitlines()[0].rstrip(".")
    return "the call ended before a replay could be compared"


def _caveats(run: GraphCheckRun) -> list[str]:
    found = list(run.caveats)
    if run.own_replays:
        found.append(
            f"the target replays graphs of its own: {units.count(run.own_replays)} in one call"
        )
    for each in run.attempts:
        label = f"{each.bucket}: " if each.bucket else ""
        if each.note:
            found.append(label + each.note.replace("\n", "; "))
        if each.same_result is False:
            found.append(
                f"{label}with replays in place of the step the target returned something else, "
                "though both compared replays were right: it keeps a result that the next replay "
                "overwrites, or state in Python that a replay does not update"
            )
    return found
