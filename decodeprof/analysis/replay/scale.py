"""By how much does the profiler dilate host work? The factor that leads replay to unprofiled time.

A calibration and no prediction: no constant per launch or per event predicts a profiler's dilation.
"""

from __future__ import annotations

from decodeprof.analysis.replay.changes import scaled
from decodeprof.analysis.replay.program import Program
from decodeprof.analysis.replay.run import replay

# The step must change by this share of a change in host work: below it, the uncertainty of an
# unprofiled time (a percent) would become a factor's uncertainty of 20 % and more.
LEAST_RESPONSE_SHARE = 0.05
_PROBE = 1.1
_LARGEST = 16.0
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
