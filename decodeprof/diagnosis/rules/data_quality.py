"""The recording has weaknesses that a reader should know before believing a number.

What it measures:
    How much the profiler dilates a step, how much unprofiled steps scatter, whether launches lack
    their kernels or kernels their launches, how many steps were recorded only in part, how many are
    left to take figures from, and how well replay reproduces the recording.

Why it costs time:
    It costs none: it costs certainty. A profile that makes a step twice as long shows where the
    host's time goes and not how much of it there is; a median of two steps is luck; kernels that
    were not recorded make the device look idle.

Thresholds:
    Fewer than three steady steps: the median of three is the first that one odd step cannot
    move. p90 above 1.3 × p10 of unprofiled steps: the machine did something else, or the steps
    differ. More than 1 % of launches without their kernel: a profile's ends cut off a few, and
    no more. A dilation above 1.5: from there on the host's part of the profile is largely the
    profiler's.

What to do:
    Record again on a machine that does nothing else, with more tokens, and with fewer things
    recorded (no stacks, no memory) when the dilation is high.

When to ignore it:
    When the step is device-bound, dilation hardly matters: device times do not change under a
    profiler.
"""

from __future__ import annotations

from decodeprof import units
from decodeprof.analysis.launches import kernel_launches
from decodeprof.analysis.replay.errors import WITHHOLD_ABOVE_SHARE
from decodeprof.diagnosis import gates, telling
from decodeprof.diagnosis.context import HIGH_DILATION
from decodeprof.diagnosis.judging import Case, Clear, Found, Outcome
from decodeprof.model.diagnosis import Evidence, Recommendation
from decodeprof.model.trace import NONE

CODE = "data-quality"
TITLE = "weaknesses of the recording"

FEWEST_STEADY = 3
WIDE_SPREAD = 1.3
MISSING_SHARE = 0.01


def judge(case: Case) -> Outcome:
    """Collect what weakens the figures."""
    facts = [*_timing(case), *_trace(case), *_steps(case)]
    if not facts:
        return gates.unable(case, "device", "calls") or Clear()
    more = f" (and {len(facts) - 1} more)" if len(facts) > 1 else ""
    found = telling.finding(
        case,
        CODE,
        f"The recording is weak in this: {facts[0].text}{more}.",
        evidence=facts,
        advice=[
            Recommendation(
                what="Record again under better conditions",
                how="an idle machine, --new-tokens of 32 or more, --budget for more unprofiled "
                "runs; in a profile of your own leave out with_stack and profile_memory, and "
                "record at least five decode steps",
                verify=telling.again(case, look="data-quality is clear"),
                risk="none",
            )
        ],
    )
    return Found((found,))


def _timing(case: Case) -> list[Evidence]:
    step, facts = case.diagnosis.step, []
    if step is None:
        return []
    if step.dilation is not None and step.dilation > HIGH_DILATION:
        facts.append(
            telling.measured(
                f"a profiled step takes {units.ratio(step.dilation)} as long as an unprofiled one"
            )
        )
    told = step.unprofiled_ns
    if told is not None and told.p10 and told.p90 and told.p90 > WIDE_SPREAD * told.p10:
        facts.append(
            telling.measured(
                f"unprofiled steps scatter from {units.time(told.p10)} (p10) to "
                f"{units.time(told.p90)} (p90)"
            )
        )
    return facts


def _trace(case: Case) -> list[Evidence]:
    trace = case.evidence.trace
    if not {"device", "calls"} <= trace.captured:
        return []
    facts = []
    launched, without = kernel_launches(trace)
    calls, bare = int(launched.sum()), int(without.sum())
    if bare > MISSING_SHARE * max(calls, 1):
        facts.append(
            telling.measured(
                f"{bare:,} of {units.counted(calls, 'launch call has', 'launch calls have')} no "
                "device activity"
            )
        )
    orphans = int((trace.device.call == NONE).sum())
    if orphans > MISSING_SHARE * max(len(trace.device), 1):
        facts.append(
            telling.measured(
                f"{orphans:,} of "
                + units.counted(len(trace.device), "device activity has", "device activities have")
                + " no launch call"
            )
        )
    error = case.diagnosis.replay.error_share
    if error is not None and error > WITHHOLD_ABOVE_SHARE:
        facts.append(
            telling.derived(
                f"replay misses the recorded device times by {units.share(error)}: no change is "
                "predicted"
            )
        )
    return facts


def _steps(case: Case) -> list[Evidence]:
    steps = case.diagnosis.steps
    if not steps.decode or case.evidence.device is None:
        return []
    facts = []
    if steps.unmeasured:
        facts.append(
            telling.measured(f"{units.counted(steps.unmeasured, 'step')} recorded only in part")
        )
    if steps.steady < FEWEST_STEADY:
        facts.append(
            telling.measured(
                f"{steps.steady} of {units.counted(steps.decode, 'decode step')} "
                f"{'is' if steps.steady == 1 else 'are'} steady"
            )
        )
    return facts
