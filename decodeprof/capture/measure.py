"""The second pass: unprofiled timing, repeated until the median is known or the time is spent."""

from __future__ import annotations

import time

import msgspec
import torch

from decodeprof.capture import about
from decodeprof.capture.compiled import compiled_graphs
from decodeprof.capture.graph_times import time_graphs
from decodeprof.capture.session import SETTLE_SECONDS, Session
from decodeprof.capture.statistics import half_interval_share
from decodeprof.capture.timing import (
    Clocked,
    Stamps,
    slope_ns_per_token,
    steady_samples,
)
from decodeprof.recording import PassReport, Run, Timing, write_recording

TARGET_SHARE = 0.03
"""Half the 95 % interval of the median step, over the median: well known below this."""
_FEWEST_RUNS = 3
"""Steps of one call resemble each other more than those of two calls do."""
_MAX_RUNS = 50
"""Of very short calls; as many as tell anything about their spread."""
_SHORT_RUNS = 2
_FEWEST_TOKENS = 8
"""Half of fewer tokens is too short to time."""
_NS_PER_S = 1_000_000_000


def measure(session: Session) -> PassReport:
    """Time the target without a profiler; the samples are in the recording after it."""
    budget_ns = int(session.job.budget_s * _NS_PER_S)
    tokens = session.recording.target.new_tokens
    # A longer call has settled them by itself.
    if session.on_device and session.last_call_seconds < SETTLE_SECONDS:
        session.channel.progress("timing", "settling the device's clocks")
        session.settle()
    runs: list[Run] = []
    begin_ns = time.monotonic_ns()
    share = None
    stopped_by = "runs"
    while len(runs) < _MAX_RUNS:
        spent_ns = time.monotonic_ns() - begin_ns
        session.channel.progress("timing", f"run {len(runs) + 1}", min(1.0, spent_ns / budget_ns))
        if runs and spent_ns + runs[-1].total_ns > budget_ns:
            stopped_by = "budget"
            break
        runs.append(_run(session, tokens, with_allocator=not runs))
        share = half_interval_share(steady_samples(runs))
        _save(session, runs, stopped_by="budget", share=share)
        if len(runs) >= _FEWEST_RUNS and share is not None and share < TARGET_SHARE:
            stopped_by = "interval"
            break
    _save(session, runs, stopped_by=stopped_by, share=share)
    _note_uneven(session, runs)
    reason = _cross_check(session, runs)
    _add_graph_times(session)
    return PassReport(name="timing", status="done", reason=reason, new_tokens=tokens)


def _run(session: Session, tokens: int | None, *, with_allocator: bool = False) -> Run:
    before = {}
    if session.on_device and with_allocator:
        session.drain()
        torch.cuda.reset_peak_memory_stats()
        before = about.allocator_figures()
    run = timed_call(session, tokens=tokens)
    if before:
        session.change(allocator=about.allocator(before, about.allocator_figures()))
    return run


def timed_call(
    session: Session, *, tokens: int | None, override: dict[str, int] | None = None
) -> Run:
    """One unprofiled call, with its boundaries timed on the device where there is one."""
    watch = session.watches.steps
    stamps = Stamps(session.on_device, ends_with_token=session.first_forward_gives_token)
    watch.on_item = stamps.item
    try:
        called = session.call(stamps, override=override)
    finally:
        watch.on_item = None
    clocked = Clocked(called.began_at, called.returned_at, called.drained_ns, stamps)
    return clocked.run(tokens=tokens)


def _save(session: Session, runs: list[Run], *, stopped_by: str, share: float | None) -> None:
    clock = "cuda_events" if session.on_device else "host_clock"
    method = clock if session.steps else "none"
    session.change(
        timing=Timing(
            method=method, runs=list(runs), stopped_by=stopped_by, half_interval_share=share
        )
    )
    # A run that never ends takes nothing of those before it with it.
    write_recording(session.out, session.recording)


def _note_uneven(session: Session, runs: list[Run]) -> None:
    steps = sorted({run.steps for run in runs})
    if len(steps) > 1:
        listed = " to ".join(str(number) for number in (steps[0], steps[-1]))
        session.caveat(f"the target's calls differ: they took {listed} decode steps")


def _add_graph_times(session: Session) -> None:
    if not session.on_device or not session.replays:
        return
    clock, timing = time_graphs(session), session.recording.timing
    if clock is not None and timing is not None:
        session.change(
            timing=msgspec.structs.replace(
                timing, graph_ns=clock.device_ns(), graph_host_ns=clock.host_ns
            )
        )


def _cross_check(session: Session, runs: list[Run]) -> str:
    """Time runs of half the tokens, for the slope; why not, where that is not possible."""
    name, tokens = session.token_parameter, session.recording.target.new_tokens
    if name is None or tokens is None or tokens < _FEWEST_TOKENS:
        return "no cross-check by slope: no argument is the number of new tokens"
    if compiled_graphs() or session.graphs_captured_in:
        return "no cross-check by slope: another length may compile or capture anew"
    short_tokens = tokens // 2
    override = {name: short_tokens}
    warm = timed_call(session, tokens=short_tokens, override=override)
    if session.steps and warm.steps != runs[-1].steps - (tokens - short_tokens):
        return f"no cross-check by slope: `{name}` does not change the number of steps alike"
    short = [
        timed_call(session, tokens=short_tokens, override=override) for _ in range(_SHORT_RUNS)
    ]
    session.varies = session.steps > 0
    timing = session.recording.timing
    assert timing is not None
    slope_ns = slope_ns_per_token(runs, short)
    session.change(timing=msgspec.structs.replace(timing, slope_ns_per_token=slope_ns))
    return ""
