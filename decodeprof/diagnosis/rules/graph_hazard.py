"""Lines of the decode step that a CUDA graph would refuse, or replay wrongly.

What it measures:
    Two consecutive decode steps, operation by operation, as a pass of the recording noted them:
    whether the same operations ran with the same shapes, Python values and tensors, whether they
    read memory of the host, and what the program still held a step later. Blocking calls are those
    that the sync passes saw.

Why it costs time:
    It costs none by itself. A graph repeats one step exactly, so each of these lines stands between
    the step and the time that a graph would take: either capture fails there, or, worse, every
    replay silently computes with what was true during capture.

Thresholds:
    None: one such line is enough to fail a capture, or to replay wrongly.

What to do:
    Change the lines that are inside of what is captured: state goes into tensors of a fixed size
    that stay where they are and are updated in place; values are read after the replay. What lies
    in the loop, outside of the captured forward, may stay.

When to ignore it:
    When no graph is wanted, or only a part of the step is captured and the line lies outside of it.
"""

from __future__ import annotations

from decodeprof import units
from decodeprof.analysis.hazard_texts import TEXTS
from decodeprof.analysis.hazards import graph_hazards
from decodeprof.diagnosis import gates, telling
from decodeprof.diagnosis.judging import Case, Clear, CouldNotTell, Found, LeftTo, Outcome
from decodeprof.model.diagnosis import Evidence, Finding, Recommendation, Where
from decodeprof.model.lint import Hazard

CODE = "graph-hazard"
TITLE = "lines that a CUDA graph of the step would refuse or replay wrongly"

_PASS = "operations"
_MOST_LINES = 8
"""Named for each of the two findings; more would bury the first ones."""
_SUMMARIES = {
    "refused": "would make the capture of a CUDA graph of it fail",
    "wrong": "would replay wrongly in a CUDA graph of it, with no error",
}
_RISK = "what stays baked in raises no error: compare replays with the eager step on two inputs"
_INSIDE = {"forward": "in the model's forward", "loop": "in the loop, after the forward"}


def judge(case: Case) -> Outcome:
    """Compare the two recorded steps, unless the step is launched as a graph already."""
    missing = gates.no_device(case)
    if missing is not None:
        return missing
    step = case.diagnosis.step
    if step is not None and step.graph_launches:
        return LeftTo("graph-unused")
    record = case.evidence.loaded.ops
    if record is None:
        return CouldNotTell(reason=_why_no_operations(case), capture=gates.RECORD)
    hazards = graph_hazards(record)
    if _syncs_were_looked_for(case):
        hazards = [each for each in hazards if each.kind != "sync"]
    found = [_finding(case, severity, hazards) for severity in _SUMMARIES]
    told = tuple(each for each in found if each is not None)
    return Found(told) if told else Clear()


def _why_no_operations(case: Case) -> str:
    recording = case.evidence.recording
    if recording is None:
        return "a trace does not say on which tensors and values its operations ran"
    for done in recording.passes:
        if done.name == _PASS and done.reason:
            return done.reason
    return "the recording holds no operations of two decode steps"


def _syncs_were_looked_for(case: Case) -> bool:
    recording = case.evidence.recording
    return recording is not None and bool(recording.gpu_trace or recording.sync_debug)


def _finding(case: Case, severity: str, hazards: list[Hazard]) -> Finding | None:
    mine = [each for each in hazards if each.severity == severity]
    evidence = [_told(each) for each in mine[:_MOST_LINES]]
    where = [_where(each) for each in mine]
    kinds = list(dict.fromkeys(each.kind for each in mine))
    if severity == "refused" and _syncs_were_looked_for(case):
        seen = [site for site in telling.decode_sites(case) if site.file is not None]
        evidence = [
            *(telling.measured(f"{telling.place_of(site)}: waits for the device") for site in seen),
            *evidence,
        ][:_MOST_LINES]
        where = [*(each for site in seen for each in telling.where_of(site)), *where]
        kinds = ["sync", *kinds] if seen else kinds
    places = list(dict.fromkeys((each.file, each.line) for each in where))
    if not places:
        return None
    summary = f"{units.counted(len(places), 'line')} of the decode step {_SUMMARIES[severity]}."
    return telling.finding(
        case,
        CODE,
        summary,
        evidence=evidence,
        advice=[
            Recommendation(
                what=TEXTS[kind].change[0].upper() + TEXTS[kind].change[1:],
                how=TEXTS[kind].why,
                verify=telling.again(case, look=f"`{CODE}` no longer names the line"),
                risk=_RISK,
            )
            for kind in kinds
        ],
        where=where,
    )


def _told(hazard: Hazard) -> Evidence:
    others = units.counted(hazard.count - 1, "more operation")
    more = f" (and {others} there)" if hazard.count > 1 else ""
    inside = f", {_INSIDE[hazard.inside]}" if hazard.inside is not None else ""
    place = f"{hazard.place.file}:{hazard.place.line}{inside}"
    return telling.derived(f"{place}: {hazard.summary}{more}")


def _where(hazard: Hazard) -> Where:
    place = hazard.place
    return Where(file=place.file, line=place.line, function=place.function, code=place.code)
