"""Path to `Diagnosis`: load, analyse, judge; the one way in for the command line and for Python."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec

from decodeprof import units
from decodeprof.analysis.collectives import collectives_alone, rank_activity
from decodeprof.analysis.figures import PhaseFigures
from decodeprof.diagnosis import context, rows
from decodeprof.diagnosis.agreement import agreement_of
from decodeprof.diagnosis.evidence import Evidence, gather
from decodeprof.diagnosis.floors import floors_of
from decodeprof.diagnosis.graph_measured import with_measured
from decodeprof.diagnosis.judging import Case, judge_all
from decodeprof.diagnosis.load import load
from decodeprof.diagnosis.predictions import Predictions, predict
from decodeprof.diagnosis.verdict import Bound, judge, sentence_of, without_steps
from decodeprof.model.diagnosis import (
    Diagnosis,
    Distribution,
    Floors,
    Source,
    SyncSite,
    Verdict,
)


@dataclass(frozen=True)
class Analyzed:
    """A diagnosis, with what it was made from for those who draw timelines."""

    diagnosis: Diagnosis
    evidence: Evidence


def analyze_path(path: Path, *, process: int | None = None) -> Analyzed:
    """Diagnose a recording directory or a trace file.

    Args:
        path: the directory or the file.
        process: of a file that holds several processes, the one whose steps are wanted.

    Raises:
        InputError: there is nothing at the path that can be analysed.
    """
    evidence = gather(load(path, process=process))
    return Analyzed(diagnosis=diagnose(evidence), evidence=evidence)


def diagnose(evidence: Evidence) -> Diagnosis:
    """Judge what the analysis found: the figures and the verdict first, then every rule on them."""
    case = case_of(evidence)
    judged = judge_all(case)
    return msgspec.structs.replace(
        case.diagnosis, findings=judged.findings, cleared=judged.cleared, skipped=judged.skipped
    )


def case_of(evidence: Evidence) -> Case:
    """What the rules judge: the figures, the verdict and the predictions."""
    predicted = predict(evidence, context.unprofiled_step(evidence.recording))
    return Case(diagnosis=_figures(evidence, predicted), evidence=evidence, predicted=predicted)


def _figures(evidence: Evidence, predicted: Predictions) -> Diagnosis:
    """The diagnosis with nothing in its lists of findings."""
    recording = evidence.recording
    unprofiled = context.unprofiled_step(recording)
    step = rows.figures_of(evidence.decode, evidence=evidence, unprofiled=unprofiled)
    prefill = rows.figures_of(
        evidence.prefill, evidence=evidence, unprofiled=context.unprofiled_prefill(recording)
    )
    syncs = [
        *_sites(evidence, evidence.decode, "decode", exposed=predicted.exposed_ns),
        *_sites(evidence, evidence.prefill, "prefill", exposed={}),
    ]
    floors = floors_of(evidence, predicted, evidence.decode or evidence.prefill)
    return Diagnosis(
        source=Source(
            kind="recording" if recording else evidence.trace.kind,
            name=evidence.loaded.name,
            captured=sorted(evidence.trace.captured),
        ),
        counts=rows.counts_of(evidence.loaded.whole_file),
        devices=rows.devices_of(evidence.loaded.whole_file),
        steps=rows.steps_of(evidence),
        step=step,
        prefill=prefill,
        generation=context.generation_of(recording),
        floors=floors,
        verdict=_verdict(evidence, unprofiled=unprofiled, floors=floors, predicted=predicted),
        prefill_verdict=_prefill_verdict(evidence, predicted),
        replay=predicted.replay,
        what_if=with_measured(predicted.what_if, recording),
        syncs=syncs,
        kernels=rows.kernels_of(evidence),
        findings=[],
        cleared=[],
        skipped=[],
        caveats=context.caveats_of(evidence, dilation=step.dilation if step else None),
        about=context.about_of(evidence),
        sources=recording.sources if recording else {},
        agreement=agreement_of(evidence),
        graph_check=recording.graph_check if recording else None,
    )


def _sites(
    evidence: Evidence, figures: PhaseFigures | None, phase: str, *, exposed: dict[int, int]
) -> list[SyncSite]:
    sites = evidence.decode_sites if phase == "decode" else evidence.prefill_sites
    n = len(figures.rows) if figures is not None else 1
    return rows.sites_of(sites, n=n, phase=phase, evidence=evidence, exposed=exposed)


def _verdict(
    evidence: Evidence,
    *,
    unprofiled: Distribution | None,
    floors: Floors | None,
    predicted: Predictions,
) -> Verdict:
    figures, what = evidence.decode, "each decode step"
    if figures is None and evidence.prefill is not None:
        figures, what, unprofiled = evidence.prefill, "the prefill", None
    if figures is None or floors is None or floors.device_ns is None:
        return without_steps(evidence)
    return _verdict_on(
        figures, evidence, unprofiled=unprofiled, floors=floors, predicted=predicted, what=what
    )


def _prefill_verdict(evidence: Evidence, predicted: Predictions) -> Verdict | None:
    """The verdict on a prompt pass beside that on the steps; None: there are not both."""
    floors = floors_of(evidence, predicted, evidence.prefill)
    if evidence.decode is None or evidence.prefill is None or floors is None:
        return None
    return _verdict_on(
        evidence.prefill,
        evidence,
        unprofiled=context.unprofiled_prefill(evidence.recording),
        floors=floors,
        predicted=predicted,
        what="the prefill",
    )


def _verdict_on(
    figures: PhaseFigures,
    evidence: Evidence,
    *,
    unprofiled: Distribution | None,
    floors: Floors,
    predicted: Predictions,
    what: str,
) -> Verdict:
    assert floors.device_ns is not None
    outcomes = predicted.outcomes if figures is evidence.decode else None
    profiled = int(evidence.steps.window_ns[figures.shown])
    if unprofiled is None and outcomes is not None and figures.period > 1:
        # The step that is shown lacks what comes in every fourth one, say.
        profiled, what = outcomes.step_ns, f"{what}, in the mean of {figures.period},"
    bound = Bound(
        step_ns=unprofiled.median if unprofiled else profiled,
        device_floor_ns=floors.device_ns,
        busy_ns=figures.busy_ns,
        sync_saving_ns=outcomes.no_syncs.saving_ns.expected
        if outcomes and outcomes.no_syncs
        else None,
        host_saving_ns=outcomes.no_host.saving_ns.expected if outcomes else None,
        bytes_ns=floors.bytes_ns,
        flops_ns=floors.flops_ns,
        unknown_idle_share=rows.unknown_idle_share(figures.idle_ns),
        collective_ns=_in_collectives(evidence, figures),
    )
    bound_by = judge(bound)
    return Verdict(
        bound_by=bound_by,
        sentence=sentence_of(
            bound_by,
            bound,
            launching=_launching(figures),
            what=what if not evidence.steps.single else f"the one {_PHASES[what]} here",
            timed="" if unprofiled else " in profiled time",
        ),
    )


def _in_collectives(evidence: Evidence, figures: PhaseFigures) -> int:
    """Of the shown step's busy time, that in which only collectives ran."""
    assert evidence.device is not None
    start = int(evidence.steps.device_start_ns[figures.shown])
    end = int(evidence.steps.device_end_ns[figures.shown])
    return collectives_alone(rank_activity(evidence.trace, evidence.device), start, end)


_PHASES = {"each decode step": "decode step", "the prefill": "prefill"}


def _launching(figures: PhaseFigures) -> str:
    """What the host does for a step; a graph's kernels are launched by the graph."""
    graphs = figures.per_step["graph_launches"]
    if graphs:
        launches = figures.per_step["launches"] + graphs
        return f"make {units.counted(launches, 'launch', 'launches')}"
    return f"launch {units.counted(figures.per_step['kernels'], 'kernel')}"
