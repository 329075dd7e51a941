"""Which rule finds the steps, and which of them are steady-state decode steps?"""

from __future__ import annotations

from collections import Counter

import numpy as np

from decodeprof import units
from decodeprof.analysis.intervals import union
from decodeprof.analysis.launches import kernel_launches
from decodeprof.analysis.steps import forwards, graphs, marks, sequence
from decodeprof.analysis.steps.cuts import Context, Cuts, Phase, is_training
from decodeprof.analysis.steps.found import Steps
from decodeprof.model.calls import CallKind
from decodeprof.model.trace import I32, I64, NONE, Bool, Trace

_RULES = (marks.find, forwards.find, graphs.find, sequence.find)
# A step with this much more or less work than the median step did something once (a cache grew,
# kernels were compiled); a stop check every few steps adds a handful of activities.
ONE_OFF_SHARE = 0.2
# In sound recordings every kernel launch has its kernel; a stray one does not spoil a step.
LOST_SHARE = 0.1
# A pause of the profiler's own, through which the device stood idle for more than this share of a
# step, makes its times the profiler's. A host that runs ahead may pause for longer than a step.
PAUSE_SHARE = 0.01
# An idle stretch that is less of a pause than this is one of the device's usual gaps.
IDLE_SHARE_OF_PAUSE = 0.25


def find_steps(trace: Trace, *, device: int, context: Context) -> Steps:
    """Find the steps by the first rule that works.

    Args:
        trace: the trace.
        device: the device whose windows are the steps' times.
        context: what is known beside the trace.
    """
    for rule in _RULES:
        cuts = rule(trace, context)
        if cuts is not None and cuts.cuts:
            return _assign(trace, cuts, device)
    return _none(trace)


def _none(trace: Trace) -> Steps:
    empty = np.empty(0, np.int64)
    flags = np.empty(0, np.bool_)
    if is_training(trace):
        text, period = (
            "none: autograd or an optimizer ran, so repetitions are no decode steps",
            None,
        )
    elif not trace.captured:
        text, period = "none: no trace was recorded", None
    elif not len(trace.device):
        text, period = "none: no mark says where one begins, and nothing ran on a device", None
    else:
        period = sequence.find_period(trace)
        text = "none of the rules for finding steps holds"
        if period is not None:
            text = (
                f"none: a period of {units.counted(period.activities, 'activity', 'activities')} × "
                f"{period.count:,} repeats, but nothing in it shows a step (no embedding, sampling "
                "op or blocking call)"
            )
    return Steps(
        method="none",
        text=text,
        phases=(),
        query_lengths=(),
        host_start_ns=empty,
        host_end_ns=empty,
        device_start_ns=empty,
        device_end_ns=empty,
        steady=flags,
        measured=flags,
        reasons=(),
        activity_step=np.full(len(trace.device), NONE, np.int32),
        call_step=np.full(len(trace.calls), NONE, np.int32),
        left_out=(),
        period=period,
    )


def _assign(trace: Trace, cuts: Cuts, device: int) -> Steps:
    starts = np.array([cut.start_ns for cut in cuts.cuts], np.int64)
    ends = np.r_[starts[1:], cuts.end_ns]
    ends = np.array(
        [
            cut.end_ns if cut.end_ns is not None else end
            for cut, end in zip(cuts.cuts, ends, strict=True)
        ],
        np.int64,
    )
    call_step = _step_of(trace.calls.start_ns, starts, ends)
    call_step[_waits_behind_the_loop(trace, call_step, cuts)] = NONE
    activity_step = np.full(len(trace.device), NONE, np.int32)
    linked = trace.device.call != NONE
    activity_step[linked] = call_step[trace.device.call[linked]]
    device_start, device_end = _windows(trace, activity_step, count=len(starts), device=device)
    phases = tuple(cut.phase for cut in cuts.cuts)
    measured, reasons = _measured(trace, activity_step, call_step, device_start)
    steady = _steady(
        trace,
        activity_step,
        phases=phases,
        measured=measured,
        reasons=reasons,
        windows=(device_start, device_end),
        cuts=cuts,
        device=device,
    )
    return Steps(
        method=cuts.method,
        text=cuts.text,
        phases=phases,
        query_lengths=tuple(cut.query_length for cut in cuts.cuts),
        host_start_ns=starts,
        host_end_ns=ends,
        device_start_ns=device_start,
        device_end_ns=device_end,
        steady=steady,
        measured=measured,
        reasons=tuple(reasons),
        activity_step=activity_step,
        call_step=call_step,
        left_out=tuple(_left_out(trace, activity_step, phases, reasons)),
        single=cuts.single,
    )


def _step_of(times: I64, starts: I64, ends: I64) -> I32:
    step = np.searchsorted(starts, times, side="right") - 1
    inside = (step >= 0) & (times < ends[np.maximum(step, 0)])
    return np.where(inside, step, NONE).astype(np.int32)


def _waits_behind_the_loop(trace: Trace, call_step: I32, cuts: Cuts) -> Bool:
    """For each call whether it is a wait in the last step that belongs to what follows the loop.

    Where nothing says where the last step ends, it runs to the recording's end, and holds the
    synchronisation that people put before they stop a profiler, and the profiler's own. Those begin
    when the device has done everything, and no other step makes such a call.
    """
    calls, last = trace.calls, len(cuts.cuts) - 1
    done = int(trace.device.end_ns.max(initial=0))
    behind: Bool = (call_step == last) & (calls.kind == CallKind.SYNC) & (calls.start_ns >= done)
    if last == 0 or cuts.cuts[last].end_ns is not None:
        return np.zeros_like(behind)
    elsewhere: Bool = np.isin(calls.name, calls.name[(call_step >= 0) & (call_step < last)])
    return behind & ~elsewhere


def _windows(trace: Trace, activity_step: I32, *, count: int, device: int) -> tuple[I64, I64]:
    """Device windows: each from its first activity's start to the next step's first one's start."""
    table = trace.device
    # An activity of zero length bounds no gap, so that it must not bound a window either.
    mine = (activity_step != NONE) & (table.device == device) & (table.end_ns > table.start_ns)
    rows = np.flatnonzero(mine)
    rows = rows[np.argsort(activity_step[rows], kind="stable")]
    bounds = np.searchsorted(activity_step[rows], np.arange(count + 1))
    start = np.full(count, NONE, np.int64)
    end = np.full(count, NONE, np.int64)
    previous = -1
    for step in range(count):
        starts = table.start_ns[rows[bounds[step] : bounds[step + 1]]]
        # On another stream a step's first activity may overtake the step before it: a window
        # begins with its first activity that did not.
        at = int(np.searchsorted(starts, previous, side="right"))
        if at < len(starts):
            start[step] = previous = starts[at]
    known = np.flatnonzero(start != NONE)
    if len(known):
        last = rows[bounds[known[-1]] : bounds[known[-1] + 1]]
        end[known] = np.r_[start[known][1:], table.end_ns[last].max()]
    return start, end


def _measured(
    trace: Trace, activity_step: I32, call_step: I32, device_start: I64
) -> tuple[np.ndarray[tuple[int], np.dtype[np.bool_]], list[str | None]]:
    """Steps that the recording holds in whole.

    Those of which kernels are missing, and replays with fewer nodes than others, are not: what is
    missing would pass for idle time.
    """
    measured = device_start >= 0
    reasons: list[str | None] = [
        None if known else "nothing of it ran on the device" for known in measured
    ]
    for step in range(int(np.flatnonzero(measured)[-1]) + 1 if measured.any() else 0, len(reasons)):
        reasons[step] = "the recording ended before anything of it ran on the device"
    launching, bare = kernel_launches(trace)
    launches, lost = (
        np.bincount(call_step[rows & (call_step != NONE)], minlength=len(measured))
        for rows in (launching, bare)
    )
    for step in np.flatnonzero(measured & (lost > LOST_SHARE * launches)).tolist():
        measured[step] = False
        reasons[step] = "kernels that it launched are missing in the recording"
    rows, sizes = graphs.graph_sizes(trace)
    if len(rows):
        usual = Counter(sizes[sizes >= graphs.WHOLE_STEP_ACTIVITIES].tolist()).most_common(1)
        if usual:
            full = usual[0][0]
            short = rows[(sizes < full) & (sizes >= (1 - 2 * ONE_OFF_SHARE) * full)]
            partial = np.isin(trace.device.call, short)
            for step in set(activity_step[partial].tolist()) - {NONE}:
                measured[step] = False
                reasons[step] = "its graph replay was recorded with fewer nodes than others"
    return measured, reasons


def _steady(
    trace: Trace,
    activity_step: I32,
    *,
    phases: tuple[Phase, ...],
    measured: np.ndarray[tuple[int], np.dtype[np.bool_]],
    reasons: list[str | None],
    windows: tuple[I64, I64],
    cuts: Cuts,
    device: int,
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Decode steps less the first, the last and those with one-off work; fills in the reasons."""
    decode = [i for i, phase in enumerate(phases) if phase == "decode"]
    steady = np.zeros(len(phases), np.bool_)
    for i, phase in enumerate(phases):
        if phase != "decode" and reasons[i] is None:
            reasons[i] = "prefill" if phase == "prefill" else "neither prefill nor decode is known"
    if not decode:
        return steady
    if cuts.single:
        reasons[decode[0]] = "one step alone is not a steady state"
        return steady
    counts = np.bincount(activity_step[activity_step != NONE], minlength=len(phases))
    usual = float(np.median(counts[decode]))
    allocating = _steps_with(trace, cuts, (CallKind.ALLOCATE,), len(phases))
    pauses = _idle_in_pauses(trace, *windows, device=device)
    last = max((i for i in decode if windows[0][i] != NONE), default=NONE)
    for i in decode:
        if reasons[i] is not None:
            continue
        if i == decode[0]:
            reasons[i] = "the first decode step"
        elif i == last:
            reasons[i] = "the last step: nothing follows that would bound its idle time"
        elif abs(counts[i] - usual) > ONE_OFF_SHARE * usual:
            reasons[i] = "one-off work: its number of activities is unlike the others'"
        elif allocating[i]:
            reasons[i] = "one-off work: it allocated device memory"
        elif pauses[i] > PAUSE_SHARE * (windows[1][i] - windows[0][i]):
            reasons[i] = "the profiler paused in it"
        else:
            steady[i] = measured[i]
    return steady


def _idle_in_pauses(trace: Trace, starts: I64, ends: I64, *, device: int) -> I64:
    """For each window the time that the device stood idle through the profiler's pauses.

    Of each pause the longest idle stretch alone, if it is much of it: through a pause that matters
    the device idles in one piece, and through one that does not it leaves its usual short gaps.
    """
    table = trace.device
    mine = table.device == device
    idle_from, idle_to = union(table.start_ns[mine], table.end_ns[mine]).holes()
    found = np.zeros(len(starts), np.int64)
    pauses = union(
        np.array([a for a, _ in trace.profiler_overhead_ns], np.int64),
        np.array([b for _, b in trace.profiler_overhead_ns], np.int64),
    )
    for begin, end in zip(pauses.starts.tolist(), pauses.ends.tolist(), strict=True):
        for step in np.flatnonzero((starts != NONE) & (starts < end) & (ends > begin)).tolist():
            low, high = max(begin, int(starts[step])), min(end, int(ends[step]))
            inside = np.minimum(idle_to, high) - np.maximum(idle_from, low)
            longest = int(inside.max(initial=0))
            found[step] += longest if longest > IDLE_SHARE_OF_PAUSE * (high - low) else 0
    return found


def _steps_with(trace: Trace, cuts: Cuts, kinds: tuple[CallKind, ...], count: int) -> I64:
    starts = np.array([cut.start_ns for cut in cuts.cuts], np.int64)
    rows = np.isin(trace.calls.kind, [int(kind) for kind in kinds])
    step = np.searchsorted(starts, trace.calls.start_ns[rows], side="right") - 1
    return np.bincount(step[step >= 0], minlength=count).astype(np.int64)


def _left_out(
    trace: Trace, activity_step: I32, phases: tuple[Phase, ...], reasons: list[str | None]
) -> list[str]:
    texts = []
    for reason, n in Counter(
        reason
        for phase, reason in zip(phases, reasons, strict=True)
        if phase != "prefill" and reason is not None
    ).items():
        texts.append(f"{n} step{'s' if n > 1 else ''}: {reason}")
    unlinked = int((trace.device.call == NONE).sum())
    outside = int(((activity_step == NONE) & (trace.device.call != NONE)).sum())
    if unlinked:
        texts.append(
            f"{_activities(unlinked)} without a recorded launch (made before the profiler "
            "started), which belong to no step"
        )
    if outside:
        texts.append(f"{_activities(outside)} launched outside all steps")
    return texts


def _activities(n: int) -> str:
    return units.counted(n, "device activity", "device activities")
