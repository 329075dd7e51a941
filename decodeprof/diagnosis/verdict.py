"""What bounds a step, in one word and one sentence?

The device floor is what the device would take if the host were never late: busy time plus one node
gap for each activity. A step longer than that by a tenth waits for its host: it is sync-bound when
removing the blocking calls would win more than half of what removing the host would, else
launch-bound. Otherwise the device bounds it: memory-bound or compute-bound when its busy time is
well explained by the bytes or the operations that it must move or do, else kernel-bound: busy with
kernels that reach neither roof; and device-bound where neither roof is known. Where the
capture does not say why the device mostly idles, nothing is blamed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from decodeprof import units
from decodeprof.analysis.collectives import collectives_alone, rank_activity
from decodeprof.analysis.intervals import union
from decodeprof.analysis.launches import kernel_launches, lost_copies
from decodeprof.analysis.steps.find import LOST_SHARE
from decodeprof.diagnosis.context import unprofiled_step
from decodeprof.model.diagnosis import IDLE_CAUSES, BoundBy, Verdict
from decodeprof.model.trace import ActivityKind

if TYPE_CHECKING:
    from decodeprof.diagnosis.evidence import Evidence
    from decodeprof.recording import Recording

# Host times repeat to a few percent at best, so that within a tenth of a threshold neither side
# can be claimed.
TRANSITION_SHARE = 0.10
SYNC_SHARE = 0.5
# More than half of something is "most of it".
MOST_SHARE = 0.5
_IDLE_WORDS = {
    "sync": "it waits while the host is inside blocking calls",
    "launch": "it waits while the host is inside the CUDA API",
    "dispatch": "it waits while the host is inside framework operators",
    "python": "it waits while the host runs Python",
    "dependency": "it waits for another stream",
}
# Above this share of the roof, no rearrangement of kernels can win more than 1 / 0.6.
ROOF_SHARE = 0.6


@dataclass(frozen=True)
class Bound:
    """What is known of one step; times in ns of one kind (all unprofiled, or all profiled)."""

    step_ns: int
    device_floor_ns: int
    """busy + node gaps."""
    busy_ns: int
    sync_saving_ns: int | None
    """What removing all blocking calls would save."""
    host_saving_ns: int | None
    """What removing the host would save."""
    bytes_ns: int | None
    flops_ns: int | None
    unknown_idle_share: float = 0.0
    """Of the device's idle time, the share whose cause the capture does not say."""
    collective_ns: int = 0
    """Of the busy time, that in which only collectives ran: they may have waited for others."""


def judge(bound: Bound) -> BoundBy:
    """Name what bounds the step."""
    ratio = bound.step_ns / max(bound.device_floor_ns, 1)
    if ratio > 1 + TRANSITION_SHARE:
        if bound.unknown_idle_share > MOST_SHARE:
            return "unknown"
        saved, all_saved = bound.sync_saving_ns, bound.host_saving_ns
        if saved is not None and all_saved and saved > SYNC_SHARE * all_saved:
            return "sync"
        return "launch"
    roof = max(bound.bytes_ns or 0, bound.flops_ns or 0) / max(bound.busy_ns, 1)
    # Neither roof is a collective's: what it moves goes over links, if it moves anything.
    mostly_collectives = bound.collective_ns > MOST_SHARE * bound.busy_ns
    if mostly_collectives or (bound.bytes_ns is None and bound.flops_ns is None):
        return "device"
    if abs(roof - ROOF_SHARE) <= TRANSITION_SHARE * ROOF_SHARE:
        return "transition"
    if roof < ROOF_SHARE:
        return "kernel"
    return "memory" if (bound.bytes_ns or 0) >= (bound.flops_ns or 0) else "compute"


def sentence_of(bound_by: BoundBy, bound: Bound, *, launching: str, what: str, timed: str) -> str:
    """The verdict as one sentence, and one more where collectives may make the GPU look busy.

    Args:
        bound_by: the bound.
        bound: its numbers.
        launching: what the host does for a step: "launch 1,763 kernels".
        what: "each decode step" or "the prefill".
        timed: "" or " in profiled time": a foreign trace has no other.
    """
    sentence = _one_sentence(bound_by, bound, launching=launching, what=what, timed=timed)
    if bound.collective_ns <= TRANSITION_SHARE * bound.busy_ns:
        return sentence
    return f"{sentence} {_of_collectives(bound.collective_ns, bound.busy_ns)}."


def _of_collectives(collective_ns: int, busy_ns: int) -> str:
    return (
        f"Of the busy time {units.share(collective_ns / busy_ns)} is inside collectives alone, "
        "where a GPU that waits for other ranks looks busy and does no work"
    )


def _one_sentence(bound_by: BoundBy, bound: Bound, *, launching: str, what: str, timed: str) -> str:
    step, busy = units.time(bound.step_ns), units.time(bound.busy_ns)
    share = units.share(bound.busy_ns / max(bound.step_ns, 1))
    # Busy time is as profiled, which makes a graph's nodes last longer than the step may have.
    busy_for = f"{share} of it" if bound.busy_ns < bound.step_ns else "all of it"
    idle = units.time(max(bound.step_ns - bound.busy_ns, 0))
    took = f"{what} takes {step}{timed}"
    if bound_by == "launch":
        return (
            f"Launch-bound: {took}, of which the GPU works {busy} ({share}); it waits {idle} for "
            f"the host to {launching}."
        )
    if bound_by == "sync":
        return (
            f"Sync-bound: {took}, of which the GPU works {busy} ({share}); most of the {idle} "
            "that it waits would go if the host did not stop to wait for it."
        )
    if bound_by == "kernel":
        roof_ns = max(bound.bytes_ns or 0, bound.flops_ns or 0)
        return (
            f"Kernel-bound: {took}, and the GPU is busy {busy_for}; at its bandwidth and its "
            f"arithmetic rate what the step must do would take {units.time(roof_ns)}."
        )
    if bound_by in ("memory", "compute"):
        roof = "memory bandwidth" if bound_by == "memory" else "arithmetic rate"
        return f"{bound_by.capitalize()}-bound: {took}, near the GPU's {roof}."
    if bound_by == "transition":
        return f"At the transition: {took}; the GPU is busy {busy_for}, between two bounds."
    if bound_by == "unknown":
        return (
            f"Cannot tell what bounds it: {took}, of which the GPU works {busy} ({share}); for "
            f"{units.share(bound.unknown_idle_share)} of the {idle} that it waits the capture does "
            "not say why."
        )
    return (
        f"Device-bound: {took}, and the GPU is busy {busy_for}, so the host does not hold it "
        "up; how near its kernels are to the roof is not known."
    )


def without_steps(evidence: Evidence) -> Verdict:
    """The verdict where no step was found."""
    trace = evidence.trace
    if evidence.recording is not None and not evidence.steps.count and not _was_timed(evidence):
        return Verdict(bound_by="unknown", sentence=_call_sentence(evidence.recording))
    if evidence.recording is not None and not trace.captured:
        return Verdict(bound_by="unknown", sentence=_untraced_sentence(evidence.recording))
    if evidence.recording is not None and evidence.recording.device is None:
        return Verdict(bound_by="unknown", sentence=_cpu_sentence(evidence))
    if not len(trace.device):
        if len(trace.calls):
            return Verdict(
                bound_by="unknown",
                sentence="Cannot tell: the trace holds launch calls and no device activity, so "
                "the profiler got no kernels from the driver.",
            )
        return Verdict(
            bound_by="unknown",
            sentence="Cannot tell: the trace holds no device activity; only the host was recorded.",
        )
    assert evidence.gaps is not None
    span = trace.span_ns()
    assert span is not None
    busy = evidence.gaps.busy.total_ns
    busy_share = busy / max(span[1] - span[0], 1)
    if evidence.steps.period is not None:
        period = evidence.steps.period
        found = (
            f"a period of {units.counted(period.activities, 'activity', 'activities')} × "
            f"{period.count:,} repeats, but nothing shows that it is a step"
        )
    else:
        found = "no decode steps were found"
    launching, bare = kernel_launches(trace)
    if bare.sum() > LOST_SHARE * launching.sum():
        # What was lost can only add to it.
        return Verdict(
            bound_by="unknown",
            sentence=f"Cannot tell per step: {found}. Over the whole window the GPU is busy "
            f"{units.at_least(busy_share)}{_of_what(evidence, busy)}: {units.count(bare.sum())} of "
            f"{units.counted(launching.sum(), 'launch has', 'launches have')} no kernel in the "
            "recording.",
        )
    if copies := lost_copies(trace):
        called = units.counted(copies, "call copies", "calls copy")
        return Verdict(
            bound_by="unknown",
            sentence=f"Cannot tell per step: {found}. Over the whole window the GPU is busy "
            f"{units.at_least(busy_share)}: {called}, and no copy is in the recording.",
        )
    return Verdict(
        bound_by="unknown",
        sentence=f"Cannot tell per step: {found}. Over the whole window the GPU is busy "
        f"{units.share(busy_share)}"
        f"{_of_what(evidence, busy)}.{_in_collectives(evidence, busy, span=span)}",
    )


def _in_collectives(evidence: Evidence, busy_ns: int, *, span: tuple[int, int]) -> str:
    assert evidence.device is not None
    inside = collectives_alone(rank_activity(evidence.trace, evidence.device), *span)
    if inside <= TRANSITION_SHARE * busy_ns:
        return ""
    return f" {_of_collectives(inside, busy_ns)}."


def _of_what(evidence: Evidence, busy_ns: int) -> str:
    """What fills most of a window's busy time, and most of its idle time; empty where nothing does.

    Graphs of which only the whole is known say so: the device may have idled inside them.
    """
    trace, gaps = evidence.trace, evidence.gaps
    assert gaps is not None
    table = trace.device.take(trace.device.device == evidence.device)
    told = ""
    copies = table.kind == ActivityKind.COPY
    copying_ns = union(table.start_ns[copies], table.end_ns[copies]).total_ns
    if copying_ns > MOST_SHARE * busy_ns:
        told += f", {units.share(copying_ns / busy_ns)} of that with copies"
    if (table.kind == ActivityKind.GRAPH).any():
        told += " (a graph counts as busy from its first node to its last: its inside is not known)"
    idle = int((gaps.end_ns - gaps.start_ns).sum())
    if not idle:
        return told
    causes = dict(zip(IDLE_CAUSES, gaps.causes_ns.sum(axis=0).tolist(), strict=True))
    cause = max(causes, key=lambda name: causes[name])
    if causes[cause] > MOST_SHARE * idle and cause in _IDLE_WORDS:
        told += f"; {units.share(causes[cause] / idle)} of the rest {_IDLE_WORDS[cause]}"
    elif cause == "unknown" and "calls" in trace.captured and "ops" not in trace.captured:
        calling = union(trace.calls.start_ns, trace.calls.end_ns)
        outside_ns = idle - int(calling.within(gaps.start_ns, gaps.end_ns).sum())
        if outside_ns > MOST_SHARE * idle:
            told += (
                f"; {units.share(outside_ns / idle)} of the rest no CUDA call is under way, and "
                "what the host does then was not recorded"
            )
    return told


def _call_sentence(recording: Recording) -> str:
    """The verdict on a recording in which no step was seen: what is known of a whole call."""
    runs = recording.timing.runs if recording.timing else []
    tokens = next((run.tokens for run in runs if run.tokens), None)
    if not runs or not tokens:
        return (
            "Cannot tell: no decode step was seen, in the trace or by the clock; did the call make "
            "any tokens?"
        )
    call_ns = sorted(run.total_ns for run in runs)[(len(runs) - 1) // 2]
    made = units.counted(tokens, "token")
    return (
        f"Cannot tell per step: a call takes {units.time(call_ns)} for {made}, unprofiled; where "
        "its steps begin was not seen."
    )


def _was_timed(evidence: Evidence) -> bool:
    return unprofiled_step(evidence.recording) is not None


def _untraced_sentence(recording: Recording) -> str:
    """The verdict on a recording whose profile pass left no trace."""
    step = unprofiled_step(recording)
    took = f"each decode step takes {units.time(step.median)}; " if step else ""
    profile = next((p for p in recording.passes if p.name == "profile"), None)
    why = f"the profile pass {profile.status}" if profile else "there was no profile pass"
    return f"Cannot tell what bounds it: {took}{why}, so nothing is known of what a step does."


def _cpu_sentence(evidence: Evidence) -> str:
    recording = evidence.recording
    assert recording is not None
    step = unprofiled_step(recording)
    took = f"each decode step takes {units.time(step.median)} on this CPU; " if step else ""
    return (
        f"No GPU was used: {took}whether the target would be launch-bound or memory-bound on a "
        "GPU cannot be told from here."
    )
