"""When does everything start, and what is the period?

An activity starts when its launch has arrived and what it depends on has ended; a wait ends when
what it waits for has drained; a launch into a full queue waits. The program is repeated until its
period no longer changes, so that run-ahead of the host is seen: the result is a period and not a
makespan from an empty queue.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from decodeprof.analysis.replay.program import LAUNCH, Program
from decodeprof.analysis.replay.waits import RECORD, WAIT
from decodeprof.model.trace import I64

# Successive periods that differ by less are taken for the steady state.
PERIOD_TOLERANCE = 0.001
# A first repetition starts from an empty device; two periods are compared, which takes three.
FEWEST_REPEATS = 3
# Chains of waits across streams and steps settle within a few repetitions; a program that has not
# settled by then alternates, and the mean of its last periods is its rate.
MOST_REPEATS = 24
ALTERNATING_PERIODS = 8
NEVER_NS = -(2**60)


@dataclass(frozen=True)
class Start:
    """One repetition: when everything happened, in ns of the replay's own clock."""

    launch_ns: I64
    """Per event: when its launch call began to be served; when others began."""
    start_ns: I64
    """Per event: its first activity's start; `NEVER_NS` for what launches nothing."""
    end_ns: I64
    """Per event: its last activity's end; for a wait its return."""
    host_end_ns: int


@dataclass(frozen=True)
class ReplayResult:
    """A program's steady state."""

    step_ns: int
    """Mean step of the period."""
    period_ns: int
    windows_ns: I64
    """Each step's device window; they sum to the period. Empty where nothing runs on the device."""
    waits_ns: I64
    """Per event: the time inside it beyond a launch's own cost; for waits the whole call."""
    starts_ns: I64
    """Per event: its first activity's start from the period's; `NEVER_NS`: launches nothing."""
    queue_depth_mean: float | None
    """Launched and not started, averaged over the launches."""
    queue_depth_max: int | None
    repeats: int
    converged: bool


class _Machine:
    """The state that one repetition leaves to the next: plain lists, for speed."""

    def __init__(self, program: Program) -> None:
        events = program.events
        self.clock = 0
        self.depth = program.queue_depth
        self.tail = program.tail_ns
        streams = max(program.streams, 1)
        self.ready = [NEVER_NS] * streams
        self.pending = [NEVER_NS] * streams
        self.queues: list[list[int]] = [[] for _ in range(streams)]
        self.slots = [NEVER_NS] * (2 * max(program.slots, 1))
        self.events = program.slots
        # One tuple an event: the loop below is all that replay costs.
        self.rows = list(
            zip(
                events.op.tolist(),
                events.work_ns.tolist(),
                events.stream.tolist(),
                events.slot.tolist(),
                (events.submit_ns + events.lag_ns).tolist(),
                events.least_ns.tolist(),
                events.queued_ns.tolist(),
                program.block_ns().tolist(),
                strict=True,
            )
        )

    def run(self) -> Start:
        """Play the program once, from the state that the last time left."""
        clock, ready, pending, slots = self.clock, self.ready, self.pending, self.slots
        depth, queues, events = self.depth, self.queues, self.events
        launched: list[int] = []
        starts: list[int] = []
        ends: list[int] = []
        for op, work, stream, slot, lag, least, queued, block in self.rows:
            clock += work
            start = NEVER_NS
            if op == LAUNCH:
                queue = queues[stream]
                if len(queue) >= depth and queue[-depth] > clock:
                    clock = queue[-depth]
                start = max(clock + lag, ready[stream] + queued, pending[stream] + queued)
                end = ready[stream] = start + block
                queue.append(start)
                launched.append(clock)
            else:
                launched.append(clock)
                if op == WAIT:
                    drained = (
                        slots[slot]
                        if slot >= 0
                        else max(ready)
                        if stream < 0
                        else max(ready[stream], pending[stream])
                    )
                    clock = end = max(clock + least, drained + lag)
                elif op == RECORD:
                    slots[slot + events] = slots[slot]
                    slots[slot] = end = max(ready[stream], pending[stream])
                else:
                    end = slots[slot]
                    if end > pending[stream]:
                        pending[stream] = end
            starts.append(start)
            ends.append(end)
        self.clock = clock + self.tail
        return Start(
            launch_ns=np.array(launched, np.int64),
            start_ns=np.array(starts, np.int64),
            end_ns=np.array(ends, np.int64),
            host_end_ns=self.clock,
        )


def play_once(program: Program) -> Start:
    """Replay a program one time from an idle device: for whole recordings, which do not repeat."""
    return _Machine(program).run()


def replay(program: Program) -> ReplayResult:
    """Repeat a program until its period changes by less than 0.1 %, and return that period."""
    machine = _Machine(program)
    runs = [machine.run(), machine.run()]
    periods = [_apart(program, runs[0], runs[1])]
    converged = False
    while len(runs) < MOST_REPEATS:
        runs.append(machine.run())
        periods.append(_apart(program, runs[-2], runs[-1]))
        if abs(periods[-1] - periods[-2]) <= PERIOD_TOLERANCE * periods[-1]:
            converged = True
            break
    period = periods[-1] if converged else round(float(np.mean(periods[-ALTERNATING_PERIODS:])))
    last, following = runs[-2], runs[-1]
    depths = _depths(program, runs)
    return ReplayResult(
        step_ns=round(period / max(program.steps, 1)),
        period_ns=period,
        windows_ns=_windows(program, last, _begin(program, following)),
        waits_ns=_waits(program, last),
        starts_ns=np.where(
            last.start_ns == NEVER_NS, NEVER_NS, last.start_ns - _begin(program, last)
        ),
        queue_depth_mean=float(depths.mean()) if len(depths) else None,
        queue_depth_max=int(depths.max()) if len(depths) else None,
        repeats=len(runs),
        converged=converged,
    )


def period_ns(program: Program) -> int:
    """The period alone."""
    return replay(program).period_ns


def step_starts(program: Program, run: Start) -> I64:
    """When each step's first activity started; `NEVER_NS` for steps that run nothing."""
    far = np.iinfo(np.int64).max
    first = np.full(max(program.steps, 1), far)
    real = program.events.is_launch & (program.block_ns() > 0) & (program.events.step >= 0)
    np.minimum.at(first, program.events.step[real], run.start_ns[real])
    first[first == far] = NEVER_NS
    return first


def _begin(program: Program, run: Start) -> int:
    """A repetition's start on the device; on the host where the device has nothing to do."""
    known = step_starts(program, run)
    known = known[known != NEVER_NS]
    return int(known[0]) if len(known) else run.host_end_ns


def _apart(program: Program, earlier: Start, later: Start) -> int:
    """Time between two repetitions: of streams that never meet, the slower one's."""
    events = program.events
    real = np.flatnonzero(events.is_launch & (program.block_ns() > 0))
    if not len(real):
        return later.host_end_ns - earlier.host_end_ns
    _, first = np.unique(events.stream[real], return_index=True)
    return int((later.start_ns - earlier.start_ns)[real[first]].max())


def _windows(program: Program, run: Start, end_ns: int) -> I64:
    begins = step_starts(program, run)
    begins = begins[begins != NEVER_NS]
    return np.diff(np.r_[begins, end_ns]) if len(begins) else np.empty(0, np.int64)


def _waits(program: Program, run: Start) -> I64:
    return np.where(program.events.op == WAIT, run.end_ns - run.launch_ns, 0)


def _depths(program: Program, runs: list[Start]) -> I64:
    """At each launch of the last repetition: how many launches had not started."""
    launches = program.events.is_launch
    if not launches.any():
        return np.empty(0, np.int64)
    started = np.sort(np.concatenate([run.start_ns[launches] for run in runs]))
    at = runs[-1].launch_ns[launches]
    made = (len(runs) - 1) * int(launches.sum()) + np.arange(1, int(launches.sum()) + 1)
    return made - np.searchsorted(started, at, side="right")
