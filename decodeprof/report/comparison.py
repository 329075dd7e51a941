"""Which blocks tell a person what changed between two diagnoses?"""

from __future__ import annotations

from decodeprof import units
from decodeprof.model.comparison import (
    REPEAT_SHARE,
    STANDARD_ERRORS,
    Comparison,
    Measure,
    Prediction,
)
from decodeprof.report.blocks import (
    Column,
    Fact,
    Facts,
    Headline,
    Line,
    Note,
    Paragraph,
    Row,
    Section,
    Span,
    Table,
    View,
    line,
)

_CHANGES = {
    "cuda_graph": "one CUDA graph a step",
    "no_syncs": "blocking calls removed",
    "fusion": "kernels fused",
    "all": "one graph a step and kernels fused",
    "piecewise": "graphs between what cannot be captured",
    "faster_host": "a host twice as fast",
    "no_host": "no host work",
}

_RULE = (
    f"medians are told apart where they differ by more than {STANDARD_ERRORS:g} standard errors, "
    f"from p10 – p90 and the number of samples, and by more than {100 * REPEAT_SHARE:g} %, by "
    "which two runs of one program may differ"
)


def comparison_view(comparison: Comparison) -> View:
    """Lay a comparison out for reading."""
    title = (
        Span("decodeprof compare  ", "muted"),
        Span(comparison.before),
        Span("  →  ", "muted"),
        Span(comparison.after),
    )
    return View(
        title,
        (
            Section("verdict", "", (Headline(line(_headline(comparison))),)),
            Section(
                "changes",
                "A decode step, before and after",
                (_table(comparison.measures), *_rule(comparison)),
            ),
            _prediction_section(comparison),
            _findings_section(comparison),
            *_caveats(comparison),
        ),
    )


def _headline(comparison: Comparison) -> str:
    step = next((m for m in comparison.measures if m.name == "step, unprofiled"), None)
    if step is None or step.before is None or step.after is None:
        step = next((m for m in comparison.measures if m.name == "step, profiled"), None)
    if step is None or step.before is None or step.after is None:
        return "Cannot tell: one of the two holds no decode step."
    kind = "" if step.name == "step, unprofiled" else " in profiled time"
    before, after = units.time(step.before), units.time(step.after)
    other = f", of another {comparison.other_work}" if comparison.other_work else ""
    times = f"{before} a step before, {after} after{other}{kind}"
    if comparison.same_recording:
        return f"No difference, both are the same recording: {before} a step{kind}."
    if step.alike:
        return f"No difference that can be told from chance: {times}."
    ratio = step.before / step.after if step.after < step.before else step.after / step.before
    word = "faster" if step.after < step.before else "slower"
    doubt = "; how far single steps vary is not known" if step.alike is None else ""
    return f"{units.ratio(ratio)} {word}: {times}{doubt}."


def _rule(comparison: Comparison) -> tuple[Paragraph, ...]:
    if all(measure.alike is None for measure in comparison.measures):
        return ()
    return (Paragraph(line(Span(_RULE, "muted"))),)


def _value(measure: Measure, value: float | None) -> str:
    if value is None:
        return "unknown"
    if measure.unit == "ns":
        return units.time(value)
    return units.count(round(value, 3)) if measure.unit == "count" else f"{value:,.1f}"


def _delta(measure: Measure) -> str:
    if measure.before is None or measure.after is None:
        return "–"
    if measure.before == measure.after:
        return "same"
    if not measure.before:
        return f"+{_value(measure, measure.after)}"
    return f"{100 * (measure.after / measure.before - 1):+.1f} %"


def _spread_text(measure: Measure, spread: tuple[float, float] | None) -> str:
    if spread is None:
        return ""
    return f"{_value(measure, spread[0])} – {_value(measure, spread[1])}"


def _table(measures: list[Measure]) -> Table:
    rows = []
    for measure in measures:
        one = _spread_text(measure, measure.spread_before)
        two = _spread_text(measure, measure.spread_after)
        below: tuple[Line, ...] = ()
        if one or two:
            chance = "; not told apart" if measure.alike else ""
            below = (
                line(Span(f"p10 – p90: {one or '–'} before, {two or '–'} after{chance}", "muted")),
            )
        rows.append(
            Row(
                (
                    line(measure.name),
                    line(_value(measure, measure.before)),
                    line(_value(measure, measure.after)),
                    line(_delta(measure)),
                ),
                below=below,
            )
        )
    return Table(
        (
            Column("what"),
            Column("before", "right"),
            Column("after", "right"),
            Column("change", "right"),
        ),
        tuple(rows),
    )


def _prediction_section(comparison: Comparison) -> Section:
    found = comparison.prediction
    if found is None:
        why = comparison.why_no_prediction or "nothing was predicted"
        return Section("prediction", "Prediction", (Note("unknown", line(why)),))
    return Section("prediction", "Prediction", (Facts(_prediction_facts(found)),))


def _prediction_facts(found: Prediction) -> tuple[Fact, ...]:
    low, high = units.time(found.predicted_ns.low), units.time(found.predicted_ns.high)
    off = not (found.in_range or found.by_chance)
    where = "inside its range" if found.in_range else "outside its range"
    if found.by_chance:
        where += ", by no more than can be chance"
    kind = "in profiled time; " if found.in_profiled_time else ""
    return (
        Fact("change", line(_CHANGES.get(found.change, found.change)), line("as the counts show")),
        Fact(
            "predicted",
            line(units.time(found.predicted_ns.expected)),
            line(f"{kind}{low} – {high}"),
        ),
        Fact(
            "measured",
            line(Span(units.time(found.measured_ns), "bad" if off else "good")),
            line(f"{kind}the prediction is {100 * found.error_share:+.1f} % off; {where}"),
        ),
    )


def _findings_section(comparison: Comparison) -> Section:
    facts = [
        Fact(name, line(", ".join(codes) or "none"))
        for name, codes in (
            ("gone", comparison.gone),
            ("came", comparison.came),
            ("stayed", comparison.stayed),
        )
    ]
    if comparison.untold:
        told = line(", ".join(comparison.untold))
        facts.append(Fact("unknown", told, line("found in one; the other could not tell")))
    bound = f"{comparison.bound_before} → {comparison.bound_after}"
    return Section("findings", "Findings", (Facts((Fact("bound by", line(bound)), *facts)),))


def _caveats(comparison: Comparison) -> tuple[Section, ...]:
    if not comparison.caveats:
        return ()
    return (
        Section(
            "caveats", "Caveats", tuple(Note("caveat", line(text)) for text in comparison.caveats)
        ),
    )
