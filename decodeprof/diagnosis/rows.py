"""Analysis results to the rows of the public diagnosis: no judgement, only form."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping

import numpy as np

from decodeprof.analysis.figures import KernelGroup, PhaseFigures, kernel_groups
from decodeprof.analysis.intervals import union
from decodeprof.analysis.sites import BlockingSite
from decodeprof.analysis.traffic.rates import NameRate, name_rates
from decodeprof.diagnosis.evidence import Evidence
from decodeprof.model.calls import LAUNCHING, CallKind
from decodeprof.model.diagnosis import (
    Counts,
    DeviceSummary,
    Distribution,
    Idle,
    KernelRow,
    StepFigures,
    StepRow,
    Steps,
    SyncSite,
)
from decodeprof.model.families import FAMILIES
from decodeprof.model.trace import I64, NONE, ActivityKind, Trace

# Kernel names that get a row of their own in diagnosis.json; families always cover all.
_NS_PER_S = 1_000_000_000
MOST_KERNEL_ROWS = 400


def distribution(values: I64 | list[int]) -> Distribution | None:
    """Lower median, p10 and p90 of samples; None when there are none.

    Each is a sample that occurred. p90 is rounded up to one: of a few samples it is the largest,
    where rounding down would hide the scatter.
    """
    if not len(values):
        return None
    p10, p50 = (int(v) for v in np.percentile(values, (10, 50), method="lower"))
    p90 = int(np.percentile(values, 90, method="higher"))
    return Distribution(median=p50, p10=p10, p90=p90, n=len(values))


def counts_of(trace: Trace) -> Counts:
    """Totals over the whole file."""
    calls = trace.calls
    launching = np.isin(calls.kind, [int(k) for k in LAUNCHING])
    by_name = Counter(trace.names[n] for n in calls.name[launching].tolist())
    syncs = Counter(trace.names[n] for n in calls.name[calls.kind == CallKind.SYNC].tolist())
    return Counts(
        kernels=int((trace.device.kind == ActivityKind.KERNEL).sum()),
        device_activities=len(trace.device),
        launches=int((calls.kind == CallKind.LAUNCH).sum()),
        graph_launches=int((calls.kind == CallKind.GRAPH_LAUNCH).sum()),
        launch_calls=dict(by_name.most_common()),
        sync_calls=dict(syncs.most_common()),
    )


def devices_of(trace: Trace) -> list[DeviceSummary]:
    """Busy time and span of each device."""
    rows = []
    for info in trace.devices:
        mine = trace.device.device == info.index
        starts, ends = trace.device.start_ns[mine], trace.device.end_ns[mine]
        rows.append(
            DeviceSummary(
                index=info.index,
                name=info.name,
                busy_ns=union(starts, ends).total_ns,
                span_ns=int(ends.max() - starts.min()),
            )
        )
    return rows


def steps_of(evidence: Evidence) -> Steps:
    """The steps, as a table and in numbers."""
    steps, trace, counts = evidence.steps, evidence.trace, evidence.counts
    busy = np.zeros(steps.count, np.int64)
    if evidence.gaps is not None:
        known = steps.device_start_ns >= 0
        busy[known] = evidence.gaps.busy.within(
            steps.device_start_ns[known], steps.device_end_ns[known]
        )
    has_device = "device" in trace.captured
    whole = whole_graphs(evidence)
    rows = [
        StepRow(
            index=i,
            phase=steps.phases[i],
            steady=bool(steps.steady[i]),
            measured=bool(steps.measured[i]),
            host_start_ns=int(steps.host_start_ns[i]),
            host_end_ns=int(steps.host_end_ns[i]),
            device_start_ns=_known(steps.device_start_ns[i]),
            device_end_ns=_known(steps.device_end_ns[i]),
            query_length=steps.query_lengths[i],
            kernels=int(counts.kernels[i]) if has_device and not whole[i] else None,
            activities=int(counts.activities[i]) if has_device and not whole[i] else None,
            launches=int(counts.launches[i]) if has_device else None,
            graph_launches=int(counts.graph_launches[i]) if has_device else None,
            syncs=int(counts.syncs[i]) if has_device else None,
            busy_ns=int(busy[i]) if has_device else None,
            step_ns=_known(steps.window_ns[i]),
            why_left_out=steps.reasons[i],
        )
        for i in range(steps.count)
    ]
    decode = evidence.steps.decode()
    lengths = Counter(steps.query_lengths[i] for i in decode.tolist())
    usual = lengths.most_common(1)[0][0] if lengths else None
    return Steps(
        method=steps.method,
        method_text=steps.text,
        prefill=len(steps.rows("prefill")),
        decode=len(steps.rows("decode")),
        steady=int(steps.steady.sum()),
        unmeasured=int((~steps.measured).sum()),
        query_length=usual,
        left_out=list(steps.left_out),
        rows=rows,
        period_activities=steps.period.activities if steps.period else None,
        period_count=steps.period.count if steps.period else None,
        steps_per_period=evidence.decode.period if evidence.decode else None,
        whole_periods=len(evidence.decode.rows) // evidence.decode.period
        if evidence.decode
        else None,
    )


def whole_graphs(evidence: Evidence) -> I64:
    """For each step its graph launches of which only the span is known, not what ran inside."""
    table, steps = evidence.trace.device, evidence.steps
    chosen = (table.kind == ActivityKind.GRAPH) & (steps.activity_step != NONE)
    counts = np.bincount(steps.activity_step[chosen], minlength=steps.count)
    return counts.astype(np.int64)


def _known(value: np.int64) -> int | None:
    return int(value) if value >= 0 else None


def figures_of(
    figures: PhaseFigures | None,
    *,
    evidence: Evidence,
    unprofiled: Distribution | None,
) -> StepFigures | None:
    """Figures of one phase, or of its unprofiled time alone when nothing ran on a device."""
    if figures is None:
        if unprofiled is None:
            return None
        return StepFigures(
            unprofiled_ns=unprofiled,
            profiled_ns=None,
            n=0,
            dilation=None,
            kernels=None,
            launches=None,
            graph_launches=None,
            syncs=None,
            busy_ns=None,
            idle_ns=None,
        )
    spread = distribution(figures.step_ns)
    profiled = int(evidence.steps.window_ns[figures.shown])
    has_calls = "calls" in evidence.trace.captured
    return StepFigures(
        unprofiled_ns=unprofiled,
        profiled_ns=profiled,
        profiled_p10_ns=spread.p10 if spread and len(figures.rows) > 1 else None,
        profiled_p90_ns=spread.p90 if spread and len(figures.rows) > 1 else None,
        n=len(figures.rows),
        dilation=round(profiled / unprofiled.median, 4) if unprofiled else None,
        kernels=None if whole_graphs(evidence)[figures.rows].any() else figures.per_step["kernels"],
        launches=figures.per_step["launches"] if has_calls else None,
        graph_launches=figures.per_step["graph_launches"] if has_calls else None,
        syncs=figures.per_step["syncs"] if has_calls else None,
        busy_ns=figures.busy_ns,
        idle_ns=Idle(**figures.idle_ns),
        launch_latency_ns=distribution(figures.latency_ns),
        queue_depth_mean=round(figures.depth.mean, 3),
        queue_depth_max=figures.depth.max,
        host_work_ns=figures.host_work_ns,
        gaps=figures.gaps,
        steady=bool(evidence.steps.steady[figures.rows].all()),
        row=figures.shown,
    )


def unknown_idle_share(idle_ns: Mapping[str, int]) -> float:
    """Of the device's idle time by cause, the share whose cause is not known; 0 with none."""
    return idle_ns["unknown"] / max(sum(idle_ns.values()), 1)


def sites_of(
    sites: list[BlockingSite],
    *,
    n: int,
    phase: str,
    evidence: Evidence,
    exposed: dict[int, int],
) -> list[SyncSite]:
    """Blocking sites per step.

    Args:
        sites: the sites.
        n: the steps that they were counted over.
        phase: prefill | decode.
        evidence: for the source text of their lines.
        exposed: what removing each saves per step in ns, by index; nothing where not replayed.
    """
    recording = evidence.recording
    sources = recording.sources if recording else {}
    rows = []
    for index, site in enumerate(sites):
        place = site.place
        in_trace = len(site.calls) > 0
        per = n if in_trace else site.detected_steps
        code = place.code if place else None
        if place and not code:
            code = sources.get(place.file, {}).get(place.line)
        rows.append(
            SyncSite(
                file=place.file if place else None,
                line=place.line if place else None,
                function=place.function if place else None,
                code=code.strip() if code else None,
                op=site.op,
                api=site.api or None,
                calls_per_step=(len(site.calls) if in_trace else site.detected) / per,
                call_ns=round(site.call_ns / n) if in_trace else None,
                idle_inside_ns=round(site.idle_inside_ns / n) if in_trace else None,
                idle_after_ns=round(site.idle_after_ns / n) if in_trace else None,
                exposed_ns=exposed.get(index),
                seen_by=list(site.seen_by),
                phase="prefill" if phase == "prefill" else "decode",
                stack=list(place.stack) if place else [],
            )
        )
    return rows


def kernels_of(evidence: Evidence) -> list[KernelRow]:
    """Kernels of the decode steps (of everything where there are none), families first."""
    steps, trace = evidence.steps, evidence.trace
    figures = evidence.decode or evidence.prefill
    # With no steps there is no "per step": the whole window counts as one.
    rows = figures.rows if figures is not None else np.unique(steps.activity_step).astype(np.int64)
    groups, n = kernel_groups(trace, steps, rows), len(rows) if figures is not None else 1
    rates: dict[str, NameRate] = {}
    if evidence.traffic is not None:
        chosen = np.flatnonzero(np.isin(steps.activity_step, rows)).astype(np.int64)
        rates = {r.name: r for r in name_rates(trace, evidence.traffic, chosen)}
    return [
        *_family_rows(groups, n, rates),
        *(
            _row(
                g.family,
                g.name,
                g.count,
                g.time_ns,
                n,
                rates[g.name].bytes if g.name in rates else None,
            )
            for g in groups[:MOST_KERNEL_ROWS]
        ),
    ]


def _family_rows(
    groups: list[KernelGroup], n: int, rates: Mapping[str, NameRate]
) -> list[KernelRow]:
    """One row for each family; its bytes are known where those of each of its kernels are."""
    families: dict[str, list[KernelGroup]] = defaultdict(list)
    time: dict[str, int] = defaultdict(int)
    for group in groups:
        families[group.family].append(group)
        time[group.family] += group.time_ns
    rows = []
    for family in sorted(families, key=lambda f: (-time[f], FAMILIES.index(f))):
        members = families[family]
        sizes = [rates[group.name].bytes if group.name in rates else None for group in members]
        known = [size for size in sizes if size is not None and size >= 0]
        size = sum(known) if len(known) == len(members) else None
        count = sum(group.count for group in members)
        rows.append(_row(family, None, count, time[family], n, size))
    return rows


def _row(
    family: str, name: str | None, count: int, time_ns: int, n: int, size: int | None
) -> KernelRow:
    known = size if size is not None and size >= 0 else None
    return KernelRow(
        family=family,
        name=name,
        count_per_step=count / n,
        time_ns_per_step=round(time_ns / n),
        bytes=round(known / n) if known is not None else None,
        achieved_bytes_per_s=known * _NS_PER_S / time_ns if known is not None and time_ns else None,
    )
