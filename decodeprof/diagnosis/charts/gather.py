"""Which pictures can be drawn of what was analysed?"""

from __future__ import annotations

from decodeprof.diagnosis.charts.call_sites import call_sites
from decodeprof.diagnosis.charts.pages import rule_pages
from decodeprof.diagnosis.charts.places import places
from decodeprof.diagnosis.charts.roofline import roofline
from decodeprof.diagnosis.charts.timeline import timeline
from decodeprof.diagnosis.charts.window import window_of
from decodeprof.diagnosis.evidence import Evidence
from decodeprof.model.charts import Charts, Memory
from decodeprof.model.diagnosis import Diagnosis
from decodeprof.recording import Recording


def charts_of(evidence: Evidence, diagnosis: Diagnosis) -> Charts:
    """Gather everything that a page draws beside the diagnosis' own figures."""
    window = window_of(evidence)
    return Charts(
        timeline=timeline(evidence, window) if window else None,
        places=places(evidence, diagnosis, window) if window else {},
        pages=rule_pages({finding.code for finding in diagnosis.findings}),
        roofline=roofline(evidence, diagnosis.floors),
        call_sites=call_sites(evidence),
        runs_step_ns=_runs(evidence.recording),
        memory=_memory(evidence.recording),
    )


def _runs(recording: Recording | None) -> list[list[int]]:
    timing = recording.timing if recording else None
    return [list(run.step_ns) for run in timing.runs if run.step_ns] if timing else []


def _memory(recording: Recording | None) -> Memory | None:
    if recording is None or recording.allocator is None:
        return None
    allocator, model, device = recording.allocator, recording.model, recording.device
    return Memory(
        device_bytes=device.memory_bytes if device else None,
        reserved_bytes=allocator.peak_reserved_bytes,
        allocated_bytes=allocator.peak_allocated_bytes,
        parameter_bytes=model.parameter_bytes if model else None,
        buffer_bytes=model.buffer_bytes if model else None,
    )
