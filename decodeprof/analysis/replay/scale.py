"""Which factors lead replay to unprofiled time: on host work, and on what the device does?

Calibrations and no predictions: no constant per launch or per event predicts how much a profiler
dilates host work. Where the host is ahead of the device, its own cadence is that of unprofiled
steps. Then what is left is the device's: under a load without gaps its clocks are lower than in a
profile, in which it waits for a dilated host (on an H200 by 7 %, at its power limit).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from decodeprof.analysis.replay.changes import scaled
from decodeprof.analysis.replay.program import Program
from decodeprof.analysis.replay.run import replay
from decodeprof.analysis.replay.waits import WAIT

# The step must change by this share of a change in host work: below it, the uncertainty of an
# unprofiled time (a percent) would become a factor's uncertainty of 20 % and more.
LEAST_RESPONSE_SHARE = 0.05
_PROBE = 1.1
_LARGEST = 16.0
# Clocks under load are not further than this from those of a profile; what is further is another
# step than the profiled one.
_DEVICE_RANGE = (0.85, 1.2)
# A host whose cadence is below this share of the device's is ahead of it.
AHEAD_SHARE = 0.9
_TOLERANCE = 0.0005
_MOST_TRIES = 40


def response_share(program: Program, factor: float = 1.0) -> float:
    """Relative change of the period over that of host work: 1 host-bound, 0 not at all."""
    before = replay(scaled(program, factor)).period_ns
    after = replay(scaled(program, factor * _PROBE)).period_ns
    return (after - before) / max(before, 1) / (_PROBE - 1)


def host_scale(program: Program, unprofiled_step_ns: int) -> float | None:
    """The factor on host work for which the replayed step equals the unprofiled one.

    Returns:
        The factor; None ("not identifiable") where the step does not respond to host work, be it
        as recorded or as scaled, or where no host work at all still takes longer.
    """
    target = unprofiled_step_ns * program.steps
    if not program.host_work_ns or response_share(program) < LEAST_RESPONSE_SHARE:
        return None
    low, low_period = 0.0, replay(scaled(program, 0.0)).period_ns
    if low_period >= target:
        return None
    high, high_period = 1.0, replay(program).period_ns
    while high_period < target:
        low, low_period = high, high_period
        high *= 2
        if high > _LARGEST:
            return None
        high_period = replay(scaled(program, high)).period_ns
    factor = high
    for attempt in range(_MOST_TRIES):
        # Interpolation finds a straight part at once; halving now and then leaves flat parts.
        share = (target - low_period) / max(high_period - low_period, 1)
        factor = low + (high - low) * (0.5 if attempt % 3 == 2 else share)
        period = replay(scaled(program, factor)).period_ns
        if abs(period - target) <= _TOLERANCE * target:
            break
        if period < target:
            low, low_period = factor, period
        else:
            high, high_period = factor, period
    return factor if response_share(program, factor) >= LEAST_RESPONSE_SHARE else None


@dataclass(frozen=True)
class Scales:
    """Factors on host work and on the durations of activities; None: not identifiable."""

    host: float | None
    device: float | None

    def applied(self, program: Program) -> Program:
        """The program in unprofiled time, as far as it is known."""
        if self.host is not None:
            program = scaled(program, self.host)
        return program if self.device is None else with_durations(program, self.device)


def scales(program: Program, unprofiled_step_ns: int, host_step_ns: int | None = None) -> Scales:
    """The factors for which the replayed step equals the unprofiled one.

    Args:
        program: as recorded.
        unprofiled_step_ns: what a step takes without a profiler.
        host_step_ns: the cadence at which the host issues steps then; None: not known.
    """
    if (program.events.count > 1).any():
        # What a profile says of graphs is wrong by more than clocks: `graph_spans` sees to them.
        return Scales(host_scale(program, unprofiled_step_ns), None)
    ahead = (
        host_step_ns is not None
        and host_step_ns < AHEAD_SHARE * unprofiled_step_ns
        and program.host_work_ns > 0
        and not (program.events.op == WAIT).any()
    )
    if ahead and host_step_ns is not None:
        host: float | None = host_step_ns * program.steps / program.host_work_ns
    else:
        host = host_scale(program, unprofiled_step_ns)
        if host is not None:
            return Scales(host, None)
    asked = program if host is None else scaled(program, host)
    device = device_scale(asked, unprofiled_step_ns)
    # A host's cadence alone does not lead to the step: then the step is not explained.
    return Scales(host if device is not None else host_scale(program, unprofiled_step_ns), device)


def device_scale(program: Program, unprofiled_step_ns: int) -> float | None:
    """The factor on all durations for which the replayed step equals the unprofiled one.

    Returns:
        None where durations do not decide the step, or where the factor would be no matter of
        clocks (`_DEVICE_RANGE`).
    """
    target = unprofiled_step_ns * program.steps
    low, high = _DEVICE_RANGE
    periods = [replay(with_durations(program, each)).period_ns for each in (low, high)]
    if not periods[0] <= target <= periods[1]:
        return None
    if periods[1] - periods[0] < (high - low) * target / 2:
        return None
    for _ in range(_MOST_TRIES):
        factor = low + (high - low) * (target - periods[0]) / max(periods[1] - periods[0], 1)
        period = replay(with_durations(program, factor)).period_ns
        if abs(period - target) <= _TOLERANCE * target:
            break
        if period < target:
            low, periods[0] = factor, period
        else:
            high, periods[1] = factor, period
    return factor


def with_durations(program: Program, factor: float) -> Program:
    """The same with all durations multiplied."""
    duration_ns = np.maximum(np.rint(program.duration_ns * factor), 1).astype(np.int64)
    return replace(program, duration_ns=duration_ns)
