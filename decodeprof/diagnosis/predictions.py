"""What would each fix win? Replay of the steady step, in unprofiled time where that is known.

What-ifs are withheld where replay does not reproduce the recording, and say "in profiled time"
where no unprofiled time exists or the step does not respond to its host's speed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from decodeprof.analysis.host import launching_thread
from decodeprof.analysis.replay.build import Source, build_program, prepare
from decodeprof.analysis.replay.errors import WITHHOLD_ABOVE_SHARE, reproduce
from decodeprof.analysis.replay.exposed import exposed_costs
from decodeprof.analysis.replay.fusable import Chain, fusable_chains
from decodeprof.analysis.replay.fusion import Traffic, roles
from decodeprof.analysis.replay.graph_spans import GraphTimes, graph_times, with_graph_times
from decodeprof.analysis.replay.program import Program
from decodeprof.analysis.replay.scale import Scales, scales
from decodeprof.analysis.replay.what_if import (
    Outcome,
    Outcomes,
    Question,
    events_of_sites,
    remove_waits,
    what_ifs,
)
from decodeprof.diagnosis.evidence import Evidence
from decodeprof.diagnosis.graph_costs import costs_of_graphs, gap_spread_ns, in_graph_ns
from decodeprof.diagnosis.graph_measured import cannot_capture
from decodeprof.model.diagnosis import Distribution, Range, Replay, WhatIf, WhatIfs
from decodeprof.model.trace import I64, NONE

# A replay this near to the unprofiled step tells of it, though no host work had to be scaled.
AS_TIMED_SHARE = 0.03


@dataclass(frozen=True)
class Predictions:
    """What replay says; everything None where it says nothing, with the reason."""

    replay: Replay
    outcomes: Outcomes | None
    in_profiled_time: bool
    exposed_ns: dict[int, int]
    """Per step, by index into the evidence's decode sites."""
    host_ns: int | None
    """Host work per step in unprofiled time."""
    node_gap_ns: int | None
    node_gap_source: str | None
    withheld: str | None = None
    """Why there are no outcomes."""
    site_saving_ns: dict[int, Range] = field(default_factory=dict)
    """What removing a site saves per step, by index into the evidence's decode sites."""
    chains: tuple[Chain, ...] = ()
    """What fusion would make one kernel of."""

    @property
    def what_if(self) -> WhatIfs:
        """The outcomes in the public form."""
        found = self.outcomes
        if found is None:
            return WhatIfs()
        return WhatIfs(
            cuda_graph=self._public(found.cuda_graph),
            piecewise=self._public(found.piecewise),
            no_syncs=self._public(found.no_syncs),
            fusion=self._public(found.fusion),
            faster_host=self._public(found.faster_host),
            no_host=self._public(found.no_host),
            all=self._public(found.all),
        )

    def _public(self, outcome: Outcome | None) -> WhatIf | None:
        if outcome is None:
            return None
        return WhatIf(
            step_ns=outcome.step_ns,
            in_profiled_time=self.in_profiled_time,
            assumes=outcome.assumes,
            activities_per_step=round(outcome.activities_per_step, 3),
        )


_SOURCES = {
    "ceilings": "measured on this device while recording",
    "trace": "measured on the graph launches in this trace",
    "typical": "typical of an H200, not measured here",
}


def predict(evidence: Evidence, unprofiled: Distribution | None) -> Predictions:
    """Replay the steady decode step of a trace.

    Args:
        evidence: the analysis.
        unprofiled: the unprofiled step time, if there is one.
    """
    thread = launching_thread(evidence.trace)
    launches, floors, device = evidence.launches, evidence.floors, evidence.device
    if launches is None or floors is None or device is None or thread is None:
        return _nothing("nothing that was launched on a device is in the trace")
    recording = evidence.recording
    ceilings = recording.ceilings if recording else None
    source = prepare(
        evidence.trace,
        evidence.steps,
        device=device,
        thread=thread,
        launches=launches,
        floors=floors,
        queue_depth=ceilings.queue_depth if ceilings else None,
    )
    reproduction = reproduce(source)
    error = reproduction.error_share if reproduction else None
    costs = costs_of_graphs(evidence, source)
    known = Predictions(
        replay=Replay(error_share=error, host_scale=None),
        outcomes=None,
        in_profiled_time=True,
        exposed_ns={},
        host_ns=None,
        node_gap_ns=costs.node_gap_ns,
        node_gap_source=_SOURCES[costs.source],
    )
    rows = steady_range(evidence)
    if rows is None:
        return _withheld(known, "no decode step was found that could be replayed")
    if error is None or error > WITHHOLD_ABOVE_SHARE:
        return _withheld(
            known, f"replay misses the recorded device times by {100 * (error or 1):.1f} %"
        )
    program, found = _in_unprofiled_time(evidence, source, rows, unprofiled)
    question = Question(
        program=program,
        roles=roles(evidence.trace, program),
        costs=costs,
        spread_share=_spread_share(unprofiled, evidence),
        traffic=_traffic(evidence),
        in_graph_ns=in_graph_ns(evidence, program, costs),
        gap_spread_ns=gap_spread_ns(evidence),
        cannot_capture=cannot_capture(evidence, program, _site_of_call(evidence)),
    )
    outcomes = what_ifs(question)
    as_timed = found != Scales(None, None) or _equal(outcomes.step_ns, unprofiled)
    exposed = exposed_costs(program, _site_of_call(evidence))
    return Predictions(
        replay=Replay(
            error_share=error,
            host_scale=found.host,
            device_scale=found.device,
            step_ns=outcomes.step_ns,
        ),
        outcomes=outcomes,
        # Unscaled replay is in the recording's own time, unless that turns out to be the timed one.
        in_profiled_time=not as_timed,
        exposed_ns=exposed,
        host_ns=_host_ns(program) if found.host is not None else None,
        node_gap_ns=costs.node_gap_ns,
        node_gap_source=_SOURCES[costs.source],
        site_saving_ns=_site_savings(question, exposed, _site_of_call(evidence)),
        chains=_chains(question, evidence),
    )


def _traffic(evidence: Evidence) -> Traffic | None:
    ceilings = evidence.recording.ceilings if evidence.recording else None
    if evidence.traffic is None or ceilings is None or not ceilings.read_bytes_per_s:
        return None
    return Traffic(bytes=evidence.traffic.bytes, bytes_per_s=ceilings.read_bytes_per_s)


def _in_unprofiled_time(
    evidence: Evidence, source: Source, rows: range, unprofiled: Distribution | None
) -> tuple[Program, Scales]:
    """The steps of these rows, and by what they were scaled."""
    program = with_graph_times(
        build_program(source, rows), evidence.trace, _graph_times(evidence, source)
    )
    if unprofiled is None:
        return program, Scales(None, None)
    found = scales(program, unprofiled.median, _host_step_ns(evidence))
    return found.applied(program), found


def _graph_times(evidence: Evidence, source: Source) -> dict[bytes, GraphTimes]:
    timing = evidence.recording.timing if evidence.recording else None
    if timing is None:
        return {}
    return graph_times(
        evidence.trace,
        source.launches,
        device_ns=timing.graph_ns,
        host_ns=timing.graph_host_ns,
        queued_ns=source.delays.queued_ns["graph"],
    )


def _host_step_ns(evidence: Evidence) -> int | None:
    """The cadence at which an unprofiled host issues steps while the queue has room for more."""
    timing = evidence.recording.timing if evidence.recording else None
    cadences = [each for run in timing.runs for each in run.host_step_ns[1:-1]] if timing else []
    return int(np.percentile(cadences, 25)) if cadences else None


def _equal(step_ns: int, unprofiled: Distribution | None) -> bool:
    if unprofiled is None:
        return False
    return abs(step_ns - unprofiled.median) <= AS_TIMED_SHARE * unprofiled.median


def _site_savings(
    question: Question, exposed: dict[int, int], site_of_call: I64
) -> dict[int, Range]:
    """The range of each site's exposed cost; where that is 0 there is no range to find."""
    return {
        site: remove_waits(
            question, events_of_sites(question.program, site_of_call, {site})
        ).saving_ns
        for site, cost in exposed.items()
        if cost
    }


def _chains(question: Question, evidence: Evidence) -> tuple[Chain, ...]:
    count = len(evidence.trace.device)
    ops = evidence.traffic.op if evidence.traffic else np.full(count, NONE, np.int64)
    return tuple(fusable_chains(evidence.trace, question.program, question.roles, ops))


def _nothing(reason: str) -> Predictions:
    return Predictions(
        replay=Replay(error_share=None, host_scale=None),
        outcomes=None,
        in_profiled_time=True,
        exposed_ns={},
        host_ns=None,
        node_gap_ns=None,
        node_gap_source=None,
        withheld=reason,
    )


def _withheld(known: Predictions, reason: str) -> Predictions:
    return Predictions(
        replay=known.replay,
        outcomes=None,
        in_profiled_time=True,
        exposed_ns={},
        host_ns=None,
        node_gap_ns=known.node_gap_ns,
        node_gap_source=known.node_gap_source,
        withheld=reason,
    )


def steady_range(evidence: Evidence) -> range | None:
    """One whole period of consecutive steps that holds the step whose times are shown."""
    figures = evidence.decode
    if figures is None:
        return None
    rows, shown = set(figures.rows.tolist()), figures.shown
    for first in range(shown, shown - figures.period, -1):
        candidate = range(first, first + figures.period)
        if set(candidate) <= rows:
            return candidate
    return range(shown, shown + 1)


def _site_of_call(evidence: Evidence) -> I64:
    sites = np.full(len(evidence.trace.calls), NONE, np.int64)
    for index, site in enumerate(evidence.decode_sites):
        sites[site.calls] = index
    return sites


def _host_ns(program: Program) -> int:
    return round(program.host_work_ns / max(program.steps, 1))


def _spread_share(unprofiled: Distribution | None, evidence: Evidence) -> float:
    """Half the middle 80 % of the samples over their median, of whichever steps there are."""
    if unprofiled and unprofiled.p10 is not None and unprofiled.p90 is not None:
        # The median of n samples repeats better than a single one by the root of n.
        half = (unprofiled.p90 - unprofiled.p10) / 2 / math.sqrt(max(unprofiled.n, 1))
        return half / max(unprofiled.median, 1)
    figures = evidence.decode
    if figures is None or len(figures.step_ns) < 2:
        return 0.0
    low, high = np.percentile(figures.step_ns, (10, 90))
    middle = max(int(np.median(figures.step_ns)), 1)
    return (float(high) - float(low)) / 2 / middle
