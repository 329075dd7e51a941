"""The passes after the timing: ceilings, profile, sync-debug and gpu_trace."""

from __future__ import annotations

import getpass
import socket
from typing import Any

from decodeprof import mark, units
from decodeprof.capture import ceilings as ceilings_of
from decodeprof.capture.calibration import UNSTEADY_NS, GapProbe, calibrate, with_samples
from decodeprof.capture.profiler import Session as ProfileSession
from decodeprof.capture.scrub import (
    EventCounts,
    count_events,
    scrub,
    without_throwaway,
    write_trace,
)
from decodeprof.capture.session import Session
from decodeprof.capture.statistics import lower_median
from decodeprof.capture.syncs import SyncCollector, gpu_trace, sync_debug
from decodeprof.capture.timing import steady_samples
from decodeprof.capture.watch import Counter
from decodeprof.model.ceilings import Ceilings
from decodeprof.recording import TRACE_FILE, PassReport, SyncPass

_FEWEST_STEPS = 12
"""Decode steps in a profile, at least; an eager step of 2,500 kernels makes 5 MB of trace."""
_MOST_STEPS = 36
"""Two whole periods of a stop check every 16 steps, and some to spare."""
_KERNELS = 60_000
"""So many are read back in a few seconds."""
_NS_PER_KERNEL = 2_000
"""Of a short kernel with its gap; a step that takes longer for each has fewer kernels."""
_UNSTEADY = "the device changed its speed by itself while this was recorded"
_OTHER_THREADS = (
    "the loop runs in a thread of its own, of which this torch's profiler records nothing: its "
    "steps are timed and not traced; let the target run it in the thread that it is called in"
)
NO_DEVICE = "the target ran on the CPU alone"


def ceilings(session: Session) -> PassReport:
    """Measure what the device can do."""
    if not session.on_device:
        return PassReport(name="ceilings", status="skipped", reason=NO_DEVICE)
    found: list[str] = []
    try:
        # First of all, while the device is as it was during the timing.
        session.gap_probe = GapProbe()
    except RuntimeError as error:  # CUDA's errors, and too little memory.
        found.append(f"node gap: {error}")
    measured, problems = ceilings_of.measure()
    session.change(ceilings=measured)
    problems = [*found, *problems]
    status = "partial" if problems else "done"
    return PassReport(name="ceilings", status=status, reason="; ".join(problems))


def profile_steps(session: Session) -> int:
    """Decode steps to profile: as asked for, or as many as make a trace of a fair size."""
    if session.job.profile_steps is not None:
        return session.job.profile_steps
    timing = session.recording.timing
    if timing is None or not timing.runs or not session.steps:
        return _FEWEST_STEPS
    return steps_for(lower_median(steady_samples(timing.runs)))


def steps_for(step_ns: int) -> int:
    """How many steps to profile when one takes so long."""
    kernels = max(1, step_ns // _NS_PER_KERNEL)
    return min(_MOST_STEPS, max(_FEWEST_STEPS, _KERNELS // kernels))


def fewer_tokens(session: Session, steps: int) -> dict[str, int] | None:
    """The argument that makes a call of so many decode steps; None: the whole call is needed."""
    tokens = session.recording.target.new_tokens
    surplus = session.steps - 1 - steps
    if not session.varies or session.token_parameter is None or tokens is None or surplus <= 0:
        return None
    return {session.token_parameter: tokens - surplus}


def profile(session: Session) -> PassReport:
    """Record a few steps with torch.profiler."""
    own = session.watches.profilers.places
    if own:
        site = session.places.site(own[0])
        reason = (
            f"the target runs torch.profiler itself ({site.file}:{site.line} {site.function}), "
            "and only one profiler can run in a process; record without it, or read its own "
            "trace with `decodeprof analyze`"
        )
        return PassReport(name="profile", status="failed", reason=reason)
    if session.on_device and session.recording.ceilings is not None:
        _calibrate(session, session.recording.ceilings)
    steps = profile_steps(session)
    override = fewer_tokens(session, steps)
    profiled = ProfileSession(
        session.watches.profilers,
        on_device=session.on_device,
        all_threads=session.other_threads,
        max_steps=steps if session.steps else None,
    )
    if session.on_device:
        profiled.prepare()
        session.settle(override=override)
    profiled.begin()
    try:
        session.call(profiled, override=override, around=profiled.call())
    finally:
        profiled.end_profile()
    session.channel.progress("profile", "writing the trace")
    trace = profiled.exported()
    _sample_gap(session)
    if session.other_threads and profiled.boundaries and mark.FORWARD.encode() not in trace:
        session.caveat(_OTHER_THREADS)
    counts = write_scrubbed(session, trace, file=TRACE_FILE)
    if session.on_device:
        counts = without_throwaway(counts)
    boundaries = max(0, profiled.boundaries - 1)
    reason = completeness(counts, on_device=session.on_device)
    if profiled.stopped_early or override is not None:
        first = "decode step" if boundaries == 1 else f"{boundaries} decode steps"
        reason = "; ".join(filter(None, [f"the first {first}", reason]))
    incomplete = session.on_device and not counts.kernels
    status = "partial" if incomplete else "done"
    session.no_gpu_activity = session.on_device and not (counts.kernels or counts.launches)
    tokens = next(iter(override.values())) if override else session.recording.target.new_tokens
    return PassReport(name="profile", status=status, reason=reason, new_tokens=tokens)


def _calibrate(session: Session, measured: Ceilings) -> None:
    probe = session.gap_probe
    if probe is None:
        return
    try:
        calibrated = calibrate(session.watches.profilers, measured, probe)
    except RuntimeError as error:  # CUDA's errors and the profiler's, and too little memory.
        reason = str(error).partition("\n")[0] or type(error).__name__
        session.caveat(f"what a graph's node costs could not be measured: {reason}")
        return
    session.change(ceilings=calibrated)
    _say_unsteady(session, calibrated)


def _sample_gap(session: Session) -> None:
    """Measure once more what a node's gap is: it changes while a recording is made."""
    probe, ceilings = session.gap_probe, session.recording.ceilings
    if probe is None or ceilings is None or not ceilings.node_gap_samples_ns:
        return
    probe.sample()
    sampled = with_samples(ceilings, probe.samples_ns)
    session.change(ceilings=sampled)
    _say_unsteady(session, sampled)


def _say_unsteady(session: Session, ceilings: Ceilings) -> None:
    low, high = min(ceilings.node_gap_samples_ns), max(ceilings.node_gap_samples_ns)
    if high - low <= UNSTEADY_NS:
        return
    # What was said of fewer samples is out of date.
    others = [text for text in session.recording.caveats if not text.startswith(_UNSTEADY)]
    session.change(caveats=others)
    session.caveat(
        f"{_UNSTEADY}: between two nodes of a graph it took {low} to {high} ns; what graphs would "
        "take is that uncertain"
    )


def write_scrubbed(session: Session, trace: bytes, *, file: str) -> EventCounts:
    """Write a trace without what tells of the machine; what it holds."""
    counts = count_events(trace)
    names = [socket.gethostname(), _user()]
    scrubbed = scrub(trace, prefixes=session.places.prefixes, names=names)
    write_trace(session.out / file, scrubbed)
    return counts


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""  # A container's user may have no name.


def completeness(counts: EventCounts, *, on_device: bool) -> str:
    """What a trace lacks, and why."""
    if not on_device:
        return f"CPU operators only: {NO_DEVICE}"
    if counts.kernels:
        return ""
    if counts.launches:
        return (
            f"{units.counted(counts.launches, 'launch', 'launches')} but no kernels: the "
            "profiler's GPU library (CUPTI) did not deliver; `decodeprof doctor` says more"
        )
    return "no GPU activity: this process launched nothing while the target ran"


def sync_debug_pass(session: Session) -> PassReport:
    """Find synchronising operations by torch's sync-debug mode."""
    if not session.on_device:
        return PassReport(name="sync_debug", status="skipped", reason=NO_DEVICE)
    counter = Counter()
    collector = SyncCollector(lambda: counter.step)
    with sync_debug(collector):
        override = _call_noting(session, collector, counter)
    session.change(sync_debug=_result(session, collector, counter))
    return PassReport(name="sync_debug", status="done", new_tokens=_tokens(session, override))


def gpu_trace_pass(session: Session) -> PassReport:
    """Find synchronisations by torch's own callbacks before each of them."""
    if not session.on_device:
        return PassReport(name="gpu_trace", status="skipped", reason=NO_DEVICE)
    counter = Counter()
    collector = SyncCollector(lambda: counter.step)
    gpu_trace(collector)
    override = _call_noting(session, collector, counter)
    session.change(gpu_trace=_result(session, collector, counter))
    _sample_gap(session)
    return PassReport(name="gpu_trace", status="done", new_tokens=_tokens(session, override))


def _call_noting(
    session: Session, collector: SyncCollector, counter: Counter
) -> dict[str, Any] | None:
    # As many steps as in the profile, so that the two can be laid side by side.
    override = fewer_tokens(session, profile_steps(session))
    session.call(counter, override=override, around=collector.noting())
    return override


def _result(session: Session, collector: SyncCollector, counter: Counter) -> SyncPass:
    return collector.result(session.places, boundaries=counter.boundaries)


def _tokens(session: Session, override: dict[str, Any] | None) -> int | None:
    return next(iter(override.values())) if override else session.recording.target.new_tokens
