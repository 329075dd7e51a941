"""What changed from one diagnosis to another, and was it what the first one predicted?

Which change was made is read off the counts, not asked: launches that became graph launches are a
graph, fewer kernels are a fusion, fewer blocking calls are syncs removed. The step that came out is
then set against the what-if of that change.

Two medians are told apart where they differ by more than both of

- twice the standard error of their difference. That of a median is 1.25 ÷ √n of the n samples'
  standard deviation, which is (p90 - p10) ÷ 2.56 of normal ones; the two errors add as squares.
- 5 % of the smaller one (`REPEAT_SHARE`), by which two runs of one program differ anyway.

The overlap of the samples' own spreads tells nothing of their medians. A prediction is held against
a time by the same rule, so that a step that is not told from the one before is not called off a
prediction of no change.
"""

from __future__ import annotations

import math

import msgspec

from decodeprof.diagnosis.compare_caveats import caveats, other_work, same_recording
from decodeprof.model.comparison import (
    REPEAT_SHARE,
    STANDARD_ERRORS,
    Comparison,
    Measure,
    Prediction,
    Unit,
)
from decodeprof.model.diagnosis import Diagnosis, Distribution, StepFigures, WhatIf

# Fewer kernels than this share of what there were, and kernels were fused; a stop check that comes
# and goes changes the count by a handful.
FUSED_SHARE = 0.9
# A graph leaves a few launches outside itself.
GRAPHED_SHARE = 0.5
# Of normal samples: p90 - p10 over their standard deviation, and the standard error of the median
# over that of the mean.
_SIGMAS = 2.56
_MEDIAN_ERROR = 1.25


def compare(before: Diagnosis, after: Diagnosis) -> Comparison:
    """Pair two diagnoses."""
    prediction, why_not = _prediction(before, after)
    codes_before = {f.code for f in before.findings}
    codes_after = {f.code for f in after.findings}
    # A rule that could not look has not found that there is nothing.
    gone = codes_before - codes_after - {rule.code for rule in after.skipped}
    came = codes_after - codes_before - {rule.code for rule in before.skipped}
    return Comparison(
        before=before.source.name,
        after=after.source.name,
        bound_before=before.verdict.bound_by,
        bound_after=after.verdict.bound_by,
        measures=_measures(before, after),
        gone=sorted(gone),
        came=sorted(came),
        untold=sorted((codes_before ^ codes_after) - gone - came),
        stayed=sorted(codes_before & codes_after),
        prediction=prediction,
        why_no_prediction=why_not,
        caveats=caveats(before, after),
        other_work=other_work(before, after),
        same_recording=same_recording(before, after),
    )


def _measures(before: Diagnosis, after: Diagnosis) -> list[Measure]:
    one, two = before.step, after.step
    rows = [
        _timed(
            "step, unprofiled",
            one.unprofiled_ns if one else None,
            two.unprofiled_ns if two else None,
        ),
        _timed("step, profiled", _profiled(one), _profiled(two)),
        _plain("device busy", "ns", _of(one, "busy_ns"), _of(two, "busy_ns")),
        _plain("device idle", "ns", _idle(one), _idle(two)),
    ]
    for name, field in (
        ("kernels", "kernels"),
        ("kernel launches", "launches"),
        ("graph launches", "graph_launches"),
        ("blocking calls", "syncs"),
    ):
        rows.append(_plain(name, "count", _of(one, field), _of(two, field)))
    first, second = before.generation, after.generation
    rows.append(
        _timed("first token", first.ttft_ns if first else None, second.ttft_ns if second else None)
    )
    rows.append(
        _plain(
            "tokens a second",
            "per_s",
            first.tokens_per_s if first else None,
            second.tokens_per_s if second else None,
        )
    )
    return [r for r in rows if r.before is not None or r.after is not None]


def _of(step: StepFigures | None, field: str) -> float | None:
    value = getattr(step, field) if step is not None else None
    return float(value) if value is not None else None


def _idle(step: StepFigures | None) -> float | None:
    if step is None or step.busy_ns is None or step.profiled_ns is None:
        return None
    return float(step.profiled_ns - step.busy_ns)


def _plain(name: str, unit: Unit, before: float | None, after: float | None) -> Measure:
    return Measure(name=name, unit=unit, before=before, after=after)


def _profiled(step: StepFigures | None) -> Distribution | None:
    if step is None or step.profiled_ns is None:
        return None
    return Distribution(
        median=step.profiled_ns, p10=step.profiled_p10_ns, p90=step.profiled_p90_ns, n=step.n
    )


def _timed(name: str, before: Distribution | None, after: Distribution | None) -> Measure:
    measure = Measure(
        name=name,
        unit="ns",
        before=before.median if before else None,
        after=after.median if after else None,
        spread_before=_spread(before),
        spread_after=_spread(after),
    )
    if before is None or after is None:
        return measure
    apart = abs(after.median - before.median)
    limit = _told_apart(before, after)
    # Even exact medians would not be told apart within what runs differ by.
    alike = apart <= _repeats(before.median, after.median) or (
        apart <= limit if limit is not None else None
    )
    return msgspec.structs.replace(measure, told_apart_ns=limit, alike=alike)


def _told_apart(before: Distribution, after: Distribution) -> float | None:
    """How far apart two medians may be by chance, ns; None: a median's error is not known."""
    errors = [_error(before), _error(after)]
    if None in errors:
        return None
    chance = STANDARD_ERRORS * math.hypot(*(e for e in errors if e is not None))
    return max(chance, _repeats(before.median, after.median))


def _repeats(before: float, after: float) -> float:
    return REPEAT_SHARE * min(before, after)


def _error(samples: Distribution) -> float | None:
    """The standard error of a median, ns; one sample does not tell it."""
    spread = _spread(samples)
    if spread is None or samples.n < 2:
        return None
    return _MEDIAN_ERROR * (spread[1] - spread[0]) / _SIGMAS / math.sqrt(samples.n)


def _spread(samples: Distribution | None) -> tuple[float, float] | None:
    if samples is None or samples.p10 is None or samples.p90 is None:
        return None
    return float(samples.p10), float(samples.p90)


def _prediction(before: Diagnosis, after: Diagnosis) -> tuple[Prediction | None, str | None]:
    """The what-if that the change answers to, set against what came out."""
    one, two = before.step, after.step
    if one is None or two is None:
        return None, "one of the two has no decode steps"
    other = other_work(before, after)
    if other is not None:
        return None, f"what the first one predicts is of another {other}"
    change = _change(one, two)
    if change is None and None in (one.kernels, two.kernels):
        return None, "what was changed is read off the counts, which are not known on both sides"
    if change is None:
        return None, "none of the changes that are predicted was made, as far as the counts show"
    told: WhatIf | None = getattr(before.what_if, change)
    if told is None:
        return None, f"the first one predicted nothing for what was done ({change})"
    if told.in_profiled_time:
        origin, measured = _profiled(one), _profiled(two)
    else:
        origin, measured = one.unprofiled_ns, two.unprofiled_ns
    if measured is None:
        return None, "the second one has no time of the kind that was predicted"
    return _held_against(change, told, origin, measured), None


def _held_against(
    change: str, told: WhatIf, origin: Distribution | None, measured: Distribution
) -> Prediction:
    """A prediction that was made from `origin`, and what came out."""
    expected, took = told.step_ns.expected, measured.median
    outside = max(told.step_ns.low - took, took - told.step_ns.high, 0)
    chance = _told_apart(_scaled(origin, expected), measured) if origin else None
    limit = chance if chance is not None else _repeats(expected, took)
    return Prediction(
        change=change,
        predicted_ns=told.step_ns,
        measured_ns=took,
        error_share=(expected - took) / took,
        in_profiled_time=told.in_profiled_time,
        in_range=outside == 0,
        by_chance=0 < outside <= limit,
    )


def _scaled(samples: Distribution, median: int) -> Distribution:
    """The samples' scatter around another median, in proportion."""
    if not samples.median or samples.p10 is None or samples.p90 is None:
        return msgspec.structs.replace(samples, median=median, p10=None, p90=None)
    by = median / samples.median
    return msgspec.structs.replace(
        samples, median=median, p10=int(by * samples.p10), p90=int(by * samples.p90)
    )


def _change(one: StepFigures, two: StepFigures) -> str | None:
    if one.kernels is None or two.kernels is None:
        return None
    fused = two.kernels < FUSED_SHARE * one.kernels
    graphed = (one.graph_launches or 0) < 1 <= (two.graph_launches or 0) and (
        two.launches or 0
    ) < GRAPHED_SHARE * (one.launches or 0)
    unsynced = one.syncs is not None and two.syncs is not None and two.syncs < one.syncs
    if graphed:
        return "all" if fused else "cuda_graph"
    if fused:
        return "fusion"
    return "no_syncs" if unsynced else None
