"""A trace's rows in the table: one for itself, and one for each of its steps."""

from __future__ import annotations

from typing import Any

from decodeprof.diagnosis.evidence import Evidence
from decodeprof.diagnosis.pipeline import Analyzed
from decodeprof.model.diagnosis import IDLE_CAUSES, Diagnosis, Idle, StepRow

Row = dict[str, Any]

# Times before 2015 are no dates: before that nothing wrote traces, and a clock that starts at 0
# would put a trace into 1970.
_EARLIEST_NS = 1_420_070_400_000_000_000


def rows_of(analyzed: Analyzed) -> list[Row]:
    """The rows of one trace, without what is known of its file."""
    diagnosis, evidence = analyzed.diagnosis, analyzed.evidence
    named = {"started_at": _started_at(evidence), **_about(diagnosis, evidence)}
    trace = {"level": "trace", **named, **_concluded(diagnosis), **_figures(diagnosis)}
    steps = [
        {
            "level": "step",
            **named,
            "bound_by": diagnosis.verdict.bound_by,
            **_step(row, evidence),
        }
        for row in diagnosis.steps.rows
    ]
    return [trace, *steps]


def _started_at(evidence: Evidence) -> int | None:
    start = evidence.trace.origin_ns
    return start if start >= _EARLIEST_NS else None


def _about(diagnosis: Diagnosis, evidence: Evidence) -> Row:
    about, member = diagnosis.about, evidence.trace.member
    model = about.model.get("name")
    return {
        "kind": diagnosis.source.kind,
        "target": about.target,
        "model": str(model) if model is not None else None,
        "device": about.device or next((d.name for d in diagnosis.devices if d.name), None),
        "devices": len(diagnosis.devices),
        "rank": member.rank if member else None,
        "world_size": member.world_size if member else None,
        "versions": sorted(about.environment.items()),
    }


def _concluded(diagnosis: Diagnosis) -> Row:
    counts, steps, floors = diagnosis.counts, diagnosis.steps, diagnosis.floors
    calls_known = "calls" in diagnosis.source.captured
    return {
        "bound_by": diagnosis.verdict.bound_by,
        "verdict": diagnosis.verdict.sentence,
        "findings": [finding.code for finding in diagnosis.findings],
        "caveats": list(diagnosis.caveats),
        "steps_by": steps.method,
        "prefill_steps": steps.prefill,
        "decode_steps": steps.decode,
        "steady_steps": steps.steady,
        "floor_host_ns": floors.host_ns if floors else None,
        "floor_device_ns": floors.device_ns if floors else None,
        "floor_bytes_ns": floors.bytes_ns if floors else None,
        "floor_flops_ns": floors.flops_ns if floors else None,
        "total_kernels": counts.kernels,
        "total_launches": counts.launches if calls_known else None,
        "total_graph_launches": counts.graph_launches if calls_known else None,
        "total_syncs": sum(counts.sync_calls.values()) if calls_known else None,
        "total_busy_ns": sum(device.busy_ns for device in diagnosis.devices),
        "total_span_ns": max((device.span_ns for device in diagnosis.devices), default=None),
    }


def _figures(diagnosis: Diagnosis) -> Row:
    step = diagnosis.step
    if step is None:
        return {}
    return {
        "unprofiled_ns": step.unprofiled_ns.median if step.unprofiled_ns else None,
        "step_ns": step.profiled_ns,
        "busy_ns": step.busy_ns,
        **(_idle(step.idle_ns) if step.idle_ns else {}),
        "kernels": step.kernels,
        "launches": step.launches,
        "graph_launches": step.graph_launches,
        "syncs": step.syncs,
    }


def _idle(idle: Idle) -> Row:
    return {f"idle_{cause}_ns": getattr(idle, cause) for cause in IDLE_CAUSES}


def _step(row: StepRow, evidence: Evidence) -> Row:
    causes: Row = {}
    if evidence.gaps is not None and row.device_start_ns is not None:
        assert row.device_end_ns is not None
        idle = evidence.gaps.causes_within(row.device_start_ns, row.device_end_ns)
        causes = {f"idle_{cause}_ns": ns for cause, ns in idle.items()}
    return {
        "step": row.index,
        "phase": row.phase,
        "steady": row.steady,
        "measured": row.measured,
        "query_length": row.query_length,
        "left_out": row.why_left_out,
        "step_ns": row.step_ns,
        "busy_ns": row.busy_ns if row.step_ns is not None else None,
        **causes,
        "kernels": row.kernels,
        "launches": row.launches,
        "graph_launches": row.graph_launches,
        "syncs": row.syncs,
    }
