"""How long would the step be after each change, within what range, and on what assumption?"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from decodeprof.analysis.replay.changes import (
    GraphCosts,
    as_graphs,
    last_wait,
    longer,
    scaled,
    without_host,
    without_waits,
)
from decodeprof.analysis.replay.fusion import Traffic, fused
from decodeprof.analysis.replay.program import Program
from decodeprof.analysis.replay.run import ReplayResult, replay
from decodeprof.analysis.replay.waits import WAIT
from decodeprof.model.diagnosis import Range
from decodeprof.model.trace import I8, I64, NONE, Bool

# Busy time of the same kernels differs between eager and graph launches, with their grids: over 12
# measured workloads the prediction was at most 3 % off.
GRAPH_SHARE = 0.03
# Removing a wait moves work that was never seen to overlap.
SYNC_SHARE, SYNC_NS = 0.2, 5_000
# What a fused kernel takes is a guess from its parts.
FUSION_SHARE = 0.1
# Where no host at all saves less of the step than this, the device decides its length.
DEVICE_BOUND_SHARE = 0.05
FASTER_HOST = 2.0


@dataclass(frozen=True)
class Outcome:
    """A step after one change, in ns."""

    step_ns: Range
    saving_ns: Range
    """Against the step as it is; its low end belongs to the step's high end."""
    assumes: str
    activities_per_step: float
    launches_per_step: float


@dataclass(frozen=True)
class Outcomes:
    """All changes; None: the change does not apply to this step."""

    step_ns: int
    """The step as it is, replayed in the same time."""
    device_bound: bool
    floor_ns: int
    """Device busy and node gaps of the step as it is: no change of the host goes below it."""
    cuda_graph: Outcome | None
    piecewise: Outcome | None
    no_syncs: Outcome | None
    fusion: Outcome | None
    faster_host: Outcome
    no_host: Outcome
    all: Outcome | None


@dataclass(frozen=True)
class Question:
    """A program and what is known beside it."""

    program: Program
    """In the time that is wanted: scaled to unprofiled time, or as profiled."""
    roles: I8
    """From `fusion.roles`."""
    costs: GraphCosts
    spread_share: float
    """Run-to-run spread of the step: no range is narrower than this share of it."""
    cannot_capture: Bool | None = None
    """For each event, whether it is a wait that no graph can hold and that stays; None: unknown."""
    traffic: Traffic | None = None
    in_graph_ns: I64 | None = None
    """Per activity: how much longer it takes as a graph's node (`changes.node_shifts`)."""

    gap_spread_ns: int = 0
    """How far the node gap may be from the one in `costs`."""

    @property
    def for_graphs(self) -> Program:
        """The program with the durations that its activities have as nodes."""
        return self.program if self.in_graph_ns is None else longer(self.program, self.in_graph_ns)


def what_ifs(question: Question) -> Outcomes:
    """Replay every change to a step.

    Args:
        question: the program and its context.
    """
    program = question.program
    before = replay(program)
    alone = replay(without_host(program))
    floor = device_floor_ns(question.for_graphs, question.costs.node_gap_ns)
    bound = before.period_ns - alone.period_ns < DEVICE_BOUND_SHARE * before.period_ns
    told = _Teller(question=question, before=before, device_bound=bound, floor_ns=floor)
    waits = np.asarray(program.events.op == WAIT)
    smaller = fused(program, question.roles, question.traffic)
    fuses = smaller.activities < program.activities
    launches = int(program.events.is_launch.sum())
    graph = as_graphs(question.for_graphs, last_wait(program), question.costs)
    captures = int(graph.events.is_launch.sum()) < launches
    together = without_waits(smaller)
    if captures:
        together = without_waits(fused(question.for_graphs, question.roles, question.traffic))
        together = as_graphs(together, np.zeros(len(together.events), bool), question.costs)
    return Outcomes(
        step_ns=before.step_ns,
        device_bound=bound,
        floor_ns=floor,
        cuda_graph=told.graph(graph, kept=last_wait(program)) if captures else None,
        piecewise=told.piecewise(),
        no_syncs=told.no_syncs(without_waits(program)) if waits.any() else None,
        fusion=told.fusion(smaller) if fuses else None,
        faster_host=told.host(scaled(program, 1 / FASTER_HOST), FASTER_HOST),
        no_host=told.no_host(without_host(program)),
        all=told.together(together) if captures or fuses or waits.any() else None,
    )


def remove_waits(question: Question, chosen: Bool) -> Outcome:
    """The step without one site's waits.

    Args:
        question: the program and its context.
        chosen: for each event, whether it belongs to the site.
    """
    program = question.program
    before = replay(program)
    alone = replay(without_host(program)).period_ns
    bound = before.period_ns - alone < DEVICE_BOUND_SHARE * before.period_ns
    floor = device_floor_ns(question.for_graphs, question.costs.node_gap_ns)
    told = _Teller(question=question, before=before, device_bound=bound, floor_ns=floor)
    return told.no_syncs(without_waits(program, chosen))


def device_floor_ns(program: Program, node_gap_ns: int) -> int:
    """Device time per step with nothing between activities but the node gap."""
    events = without_host(program).events
    gaps = np.maximum(events.count - 1, 0) * node_gap_ns
    bare = replace(
        without_host(program),
        events=replace(
            events,
            queued_ns=np.minimum(events.queued_ns, node_gap_ns),
            between_ns=np.minimum(events.between_ns, gaps),
        ),
    )
    return replay(bare).step_ns


@dataclass(frozen=True)
class _Teller:
    """Turns replayed changes into outcomes with ranges."""

    question: Question
    before: ReplayResult
    device_bound: bool
    floor_ns: int

    def _outcome(
        self,
        program: Program,
        *,
        share: float,
        least_ns: int,
        assumes: str,
        floor_ns: int | None = None,
    ) -> Outcome:
        step = self.before.step_ns
        # No change makes a step longer that it is meant to shorten.
        expected = min(replay(program).step_ns, step)
        width = max(round(share * expected), least_ns, round(self.question.spread_share * step / 2))
        # Nothing can undercut the activities themselves; a saving has no certain low end where
        # the device decides, since clocks fall when its gaps are taken away.
        busy = min(device_floor_ns(program, 0), expected)
        low = max(expected - width, busy - round(self.question.spread_share * step / 2), 0)
        # What keeps the kernels that there are stays above their floor.
        low = max(low, min(self.floor_ns if floor_ns is None else floor_ns, expected))
        high = max(expected + width, step) if self.device_bound else min(expected + width, step)
        high = max(high, low + round(self.question.spread_share * step), expected)
        steps = max(program.steps, 1)
        return Outcome(
            step_ns=Range(low=low, expected=expected, high=high),
            saving_ns=Range(
                low=max(step - high, 0), expected=step - expected, high=max(step - low, 0)
            ),
            assumes=assumes,
            activities_per_step=program.activities / steps,
            launches_per_step=int(program.events.is_launch.sum()) / steps,
        )

    def graph(self, program: Program, kept: Bool) -> Outcome:
        costs = self.question.costs
        rest = (
            "the wait that reads the step's result and the Python around it stay"
            if kept.any()
            else "no wait is left in the step"
        )
        # The floor is no surer than what it is made of.
        gap_ns = max(costs.node_gap_ns - self.question.gap_spread_ns, 0)
        floor_ns = (1 - GRAPH_SHARE) * device_floor_ns(self.question.for_graphs, gap_ns)
        large = "" if costs.large_gap_ns is None else f", {costs.large_gap_ns} ns at large kernels"
        return self._outcome(
            program,
            share=GRAPH_SHARE,
            least_ns=self._unsteady_ns(program),
            floor_ns=round(floor_ns),
            assumes=(
                "the step is captured whole and its activities run back to back with a gap of "
                f"{costs.node_gap_ns} ns{large} ({_SOURCES[costs.source]}); {rest}."
            ),
        )

    def _unsteady_ns(self, program: Program) -> int:
        """What the device's own changes of speed do to so many nodes."""
        return self.question.gap_spread_ns * program.activities // max(program.steps, 1)

    def piecewise(self) -> Outcome | None:
        question = self.question
        if question.cannot_capture is None or not question.cannot_capture.any():
            return None
        program = as_graphs(question.for_graphs, question.cannot_capture, question.costs)
        pieces = int(program.events.is_launch.sum()) / max(program.steps, 1)
        return self._outcome(
            program,
            share=GRAPH_SHARE,
            least_ns=self._unsteady_ns(program),
            assumes=(
                "one graph launch a step replaces all others, and the wait beside it stays."
                if round(pieces, 2) == 1
                else f"{pieces:.3g} graph launches a step replace all others, and the waits "
                "between them stay."
            ),
        )

    def no_syncs(self, program: Program) -> Outcome:
        saved = max(self.before.step_ns - replay(program).step_ns, 0)
        return self._outcome(
            program,
            share=0.0,
            least_ns=max(round(SYNC_SHARE * saved), SYNC_NS),
            assumes="the waits take no time, and the host goes on with what it did after them.",
        )

    def fusion(self, program: Program) -> Outcome:
        return self._outcome(
            program,
            share=FUSION_SHARE,
            least_ns=0,
            floor_ns=0,
            assumes=(
                f"{self.question.program.activities / max(program.steps, 1):,.0f} activities "
                f"become {program.activities / max(program.steps, 1):,.0f}: each chain between "
                "matrix and attention kernels is one kernel, as long as its median part and its "
                "bytes."
            ),
        )

    def host(self, program: Program, times: float) -> Outcome:
        return self._outcome(
            program,
            share=0.0,
            least_ns=0,
            assumes=f"all host work takes 1/{times:g} of its time; the device is the same.",
        )

    def no_host(self, program: Program) -> Outcome:
        return self._outcome(
            program,
            share=0.0,
            least_ns=0,
            assumes="the host takes no time and never waits; each activity is launched as now.",
        )

    def together(self, program: Program) -> Outcome:
        return self._outcome(
            program,
            share=FUSION_SHARE,
            least_ns=0,
            floor_ns=0,
            assumes="no waits, fused chains and one graph launch a step, all together.",
        )


_SOURCES = {
    "ceilings": "measured on this device",
    "trace": "measured in this trace's graph launches",
    "typical": "modelled: typical of an H200",
}


def events_of_sites(program: Program, site_of_call: I64, wanted: set[int]) -> Bool:
    """For each event whether its call belongs to one of the wanted sites."""
    call = program.events.call
    site = np.where(call == NONE, NONE, site_of_call[call])
    found: Bool = np.isin(site, sorted(wanted)) & (call != NONE)
    return found
