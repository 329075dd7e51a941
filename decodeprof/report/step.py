"""What does a step cost, where does its time go, and what could it not be shorter than?"""

from __future__ import annotations

from dataclasses import replace

from decodeprof import units
from decodeprof.model.diagnosis import (
    Diagnosis,
    Distribution,
    Floors,
    Generation,
    Range,
    StepFigures,
    WhatIf,
)
from decodeprof.report.blocks import (
    Bar,
    BarPart,
    Block,
    Column,
    Fact,
    Facts,
    Line,
    Note,
    Paragraph,
    Row,
    Section,
    Span,
    Style,
    Table,
    line,
)
from decodeprof.report.captured import ran_without_gpu

BUSY_KEY = "█"
_BUSY_MEANING = "the device runs kernels, copies or sets"
# Key, cause and what it means; the keys are letters so that the bar reads without colour.
_CAUSES: tuple[tuple[str, Style, str], ...] = (
    ("S", "sync", "the host was inside a blocking call"),
    ("L", "launch", "the host was inside a launch call"),
    ("D", "dispatch", "the host was inside a framework operator"),
    ("P", "python", "the host was in Python, between operators"),
    ("g", "device", "the next activity was queued: the device's own gap"),
    ("w", "dependency", "the next activity was queued and waited for another stream"),
    ("?", "unknown", "the capture does not say"),
)
CAUSE_KEYS: dict[str, str] = {cause: key for key, cause, _ in _CAUSES}
"""The letter of each idle cause."""


def step_section(diagnosis: Diagnosis) -> Section:
    """Times and counts of a decode step."""
    figures = diagnosis.step
    if figures is None:
        return Section("step", "Decode step", (_no_steps(diagnosis),))
    rows = [
        *_time_facts(diagnosis, figures),
        *_generation_facts(diagnosis),
        *_work_facts(diagnosis, figures, per="step"),
    ]
    blocks: list[Block] = [Facts(tuple(rows))]
    if not figures.steady:
        blocks.append(
            Note("caveat", line("no steady-state step was recorded: these figures are not steady"))
        )
    return Section("step", "Decode step", tuple(blocks))


def _no_steps(diagnosis: Diagnosis) -> Note:
    steps = diagnosis.steps
    if steps.period_activities is not None:
        period = units.counted(steps.period_activities, "activity", "activities")
        times = units.count(steps.period_count)
        text = f"a period of {period} × {times}, which is not known to be a step"
    else:
        text = "no decode step was found, so nothing can be said per step"
    return Note("unknown", line(text))


def spread(distribution: Distribution) -> str:
    """p10, p90 and n of a distribution, in words."""
    n = units.count(distribution.n)
    if distribution.p10 is None or distribution.p90 is None:
        return f"median of {n}; p10 and p90 unknown"
    low, high = units.time(distribution.p10), units.time(distribution.p90)
    return f"median of {n}; p10 {low}, p90 {high}"


def _time_facts(diagnosis: Diagnosis, figures: StepFigures) -> list[Fact]:
    if figures.unprofiled_ns is None:
        unprofiled = Fact("unprofiled", _unknown(), line(_why_no_unprofiled(diagnosis)))
    else:
        unprofiled = Fact(
            "unprofiled",
            line(Span(units.time(figures.unprofiled_ns.median), "strong")),
            line(spread(figures.unprofiled_ns)),
        )
    rows = [unprofiled]
    if figures.profiled_ns is not None:
        rows.append(
            Fact(
                "profiled",
                line(units.time(figures.profiled_ns)),
                line(_profiled_detail(figures)),
            )
        )
    return rows


def _why_no_unprofiled(diagnosis: Diagnosis) -> str:
    if diagnosis.source.kind == "recording":
        return "the timing pass gave no step times"
    return "a trace holds no unprofiled run"


def _profiled_detail(figures: StepFigures) -> str:
    parts = [f"the median of {units.count(figures.n)} steps" if figures.n > 1 else "one step"]
    if figures.profiled_p10_ns is not None and figures.profiled_p90_ns is not None:
        low, high = units.time(figures.profiled_p10_ns), units.time(figures.profiled_p90_ns)
        parts.append(f"p10 {low}, p90 {high}")
    if figures.dilation is not None:
        parts.append(f"dilation {units.ratio(figures.dilation)}")
    return "; ".join(parts)


def _generation_facts(diagnosis: Diagnosis) -> list[Fact]:
    generation = diagnosis.generation
    if generation is None:
        return []
    rows = []
    if generation.ttft_ns is not None:
        rows.append(
            Fact(
                "first token",
                line(units.time(generation.ttft_ns.median)),
                line(f"{_ttft_until(generation)}; {spread(generation.ttft_ns)}"),
            )
        )
    if generation.tokens_per_s is not None:
        told = "decode alone"
        if generation.batch is not None:
            told += f", batch {units.count(generation.batch)}"
        if generation.tokens_per_step != 1:
            told += f", {units.counted(generation.tokens_per_step, 'token')} a step on average"
        rows.append(
            Fact("throughput", line(f"{_rate(generation.tokens_per_s)} tokens/s"), line(told))
        )
    return rows


_TTFT_UNTIL = {
    "yield": "TTFT to the first yield, unprofiled",
    "forward": "TTFT to the first forward's end, before sampling; unprofiled",
    "mark": "TTFT to the end of the marked prefill, unprofiled",
}


def _ttft_until(generation: Generation) -> str:
    """What the time to the first token ends with."""
    at_most = "TTFT, at most: until the second step begins; unprofiled"
    return _TTFT_UNTIL.get(generation.ttft_until or "", at_most)


def _rate(per_s: float) -> str:
    return f"{per_s:,.0f}" if per_s >= 100 else f"{per_s:.3g}"


def _work_facts(diagnosis: Diagnosis, figures: StepFigures, *, per: str) -> list[Fact]:
    if ran_without_gpu(diagnosis):
        return []
    if "device" not in diagnosis.source.captured:
        return [Fact("kernels", _unknown(), line("no device activity was captured"))]
    calls = "API calls unknown"
    if "calls" in diagnosis.source.captured:
        calls = (
            f"{units.counted(figures.launches, 'kernel launch', 'kernel launches')}, "
            f"{units.counted(figures.graph_launches, 'graph launch', 'graph launches')}, "
            f"{units.counted(figures.syncs, 'blocking call')}"
        )
    rows = [Fact("kernels", line(units.count(figures.kernels)), line(f"per {per}; {calls}"))]
    if figures.launch_latency_ns is not None:
        rows.append(
            Fact(
                "launch latency",
                line(units.time(figures.launch_latency_ns.median)),
                line(f"launch call to start; {spread(figures.launch_latency_ns)}"),
            )
        )
    if figures.queue_depth_mean is not None:
        rows.append(
            Fact(
                "queue depth",
                line(units.count(figures.queue_depth_mean)),
                line(
                    f"launched, not started; mean; at most {units.count(figures.queue_depth_max)}"
                ),
            )
        )
    return rows


def budget_section(diagnosis: Diagnosis) -> Section | None:
    """Where one step's time goes, or the prefill's without steps: parts that sum to it."""
    figures, what, title = diagnosis.step, "decode step", "Where one step's time goes"
    if figures is None:
        # A prefill alone is all that there is to look into.
        figures, what, title = diagnosis.prefill, "prefill", "Where the prefill's time goes"
    bar = None if figures is None else budget_bar(figures, what=what)
    return None if bar is None else Section("budget", title, (bar,))


def budget_bar(figures: StepFigures, *, what: str) -> Bar | None:
    """Busy and every idle cause of one step; None where the device was not recorded."""
    if figures.busy_ns is None or figures.idle_ns is None or figures.profiled_ns is None:
        return None
    parts = [BarPart(BUSY_KEY, "busy", figures.busy_ns, "busy", _BUSY_MEANING)]
    parts += [
        BarPart(key, cause, getattr(figures.idle_ns, cause), cause, meaning)
        for key, cause, meaning in _CAUSES
    ]
    caption = f"one {what}, {units.time(figures.profiled_ns)} in profiled time"
    return Bar(caption, figures.profiled_ns, tuple(parts))


def floors_section(diagnosis: Diagnosis) -> Section | None:
    """What a step cannot be shorter than."""
    floors = diagnosis.floors
    if floors is None:
        return None
    rows = [fact for fact in _floor_facts(floors, diagnosis.step) if fact is not None]
    return Section(
        "floors", "What a step of these kernels cannot be shorter than", (Facts(tuple(rows)),)
    )


def _floor_facts(floors: Floors, step: StepFigures | None) -> list[Fact | None]:
    gap = units.time(floors.node_gap_ns)
    source = "" if floors.node_gap_source is None else f" ({floors.node_gap_source})"
    device = f"busy + up to {gap} between the activities that there are{source}"
    if step and step.unprofiled_ns and step.unprofiled_ns.median == floors.device_ns:
        device = f"the unprofiled step: as profiled, busy and {gap} between activities are more"
    return [
        _floor("host", floors.host_ns, "work of the launching thread, waits left out"),
        _floor("device busy", floors.busy_ns, "kernels, copies and sets, as recorded"),
        _floor("device floor", floors.device_ns, device),
        _traffic(floors),
        _arithmetic(floors),
        _used("MBU", "bandwidth", floors.mbu_share, floors.mbu_busy_share),
        _used("MFU", "arithmetic rate", floors.mfu_share, floors.mfu_busy_share),
    ]


def _used(label: str, what: str, share: float | None, busy_share: float | None) -> Fact | None:
    if share is None or busy_share is None:
        return None
    detail = f"of the {what} over the step; {units.share(busy_share)} while the device is busy"
    return Fact(label, line(units.share(share)), line(detail))


def _floor(label: str, ns: int | None, detail: str) -> Fact:
    value = _unknown() if ns is None else line(units.time(ns))
    return Fact(label, value, line(detail))


def _traffic(floors: Floors) -> Fact:
    if floors.bytes is None:
        return Fact("bytes", _unknown(), line("what a step must read is not known"))
    bandwidth = units.bandwidth(floors.bandwidth_bytes_per_s)
    source = "" if floors.bandwidth_source is None else f" ({floors.bandwidth_source})"
    return _floor("bytes", floors.bytes_ns, f"{units.bytes_(floors.bytes)} ÷ {bandwidth}{source}")


def _arithmetic(floors: Floors) -> Fact | None:
    if floors.flops is None:
        return None
    source = "" if floors.flops_source is None else f" ({floors.flops_source})"
    work = f"{floors.flops / 1e9:,.3g} GFLOP"
    return _floor(
        "arithmetic", floors.flops_ns, f"{work} ÷ {units.flops(floors.flops_per_s)}{source}"
    )


# In the order of what is cheapest to try.
CHANGES = (
    ("no_syncs", "no blocking calls"),
    ("cuda_graph", "one CUDA graph a step"),
    ("piecewise", "piecewise CUDA graphs"),
    ("fusion", "elementwise kernels fused"),
    ("faster_host", "a host twice as fast"),
    ("no_host", "no host work at all"),
    ("all", "all of these"),
)


def what_if_section(diagnosis: Diagnosis) -> Section | None:
    """What each change would make of a step, from replay."""
    rows = []
    for field, label in CHANGES:
        what_if: WhatIf | None = getattr(diagnosis.what_if, field)
        if what_if is not None:
            rows.append(_what_if_row(diagnosis, what_if, label))
    if not rows:
        return None
    columns = (
        Column("change"),
        Column("step", "right"),
        Column("from – to", "right"),
        Column("saves", "right"),
    )
    blocks: list[Block] = [Table(columns, tuple(rows))]
    error = diagnosis.replay.error_share
    if error is not None:
        text = f"modelled; unchanged, the replay of this step is {units.share(abs(error))} off"
        blocks.append(Note("hint", line(text)))
    return Section("what-if", "What each change would win", tuple(blocks))


def _what_if_row(diagnosis: Diagnosis, what_if: WhatIf, label: str) -> Row:
    step = what_if.step_ns
    time_kind = "in profiled time; " if what_if.in_profiled_time else ""
    basis = "measured:" if what_if.measured else "assumes"
    now = step_now(diagnosis, what_if)
    saved = "–" if now is None else units.time(max(0, now - step.expected))
    return Row(
        (line(label), line(units.time(step.expected)), line(interval(step)), line(saved)),
        below=(line(Span(f"{time_kind}{basis} {what_if.assumes}", "muted")),),
    )


def step_now(diagnosis: Diagnosis, what_if: WhatIf) -> int | None:
    """The step that a prediction is to be held against, in the prediction's own kind of time."""
    figures = diagnosis.step
    if figures is None:
        return None
    if what_if.in_profiled_time:
        # Where a check comes every fourth step, the mean of four: the median step has none.
        return diagnosis.replay.step_ns or figures.profiled_ns
    return None if figures.unprofiled_ns is None else figures.unprofiled_ns.median


def interval(estimate: Range) -> str:
    """The low and high end of an estimate of a time."""
    return f"{units.time(estimate.low)} – {units.time(estimate.high)}"


def prefill_section(diagnosis: Diagnosis) -> Section | None:
    """The prompt pass, in short."""
    figures = diagnosis.prefill
    if figures is None:
        return None
    rows = [*_time_facts(diagnosis, figures), *_work_facts(diagnosis, figures, per="prefill")]
    if figures.unprofiled_ns is not None:
        # Sampling and whatever else the loop does before its second forward belong to a step.
        until = "until the second step begins" if diagnosis.steps.decode else "to its end"
        told = f"from the call {until}; {spread(figures.unprofiled_ns)}"
        rows[0] = replace(rows[0], detail=line(told))
    if figures.unprofiled_ns is None and diagnosis.generation is not None:
        rows = rows[1:]  # the time to the first token, above, is its unprofiled time
    if figures.busy_ns is not None and figures.profiled_ns:
        share = units.share(figures.busy_ns / figures.profiled_ns)
        detail = f"{units.time(figures.busy_ns)} of the profiled prefill"
        rows.append(Fact("device busy", line(share), line(detail)))
    judged = diagnosis.prefill_verdict
    verdict = () if judged is None else (Paragraph(line(judged.sentence)),)
    return Section("prefill", "Prefill", (*verdict, Facts(tuple(rows))))


def _unknown() -> Line:
    return line(Span(units.UNKNOWN, "unknown"))
