"""Which blocks, in which order, tell a person what a diagnosis says?"""

from __future__ import annotations

from decodeprof.model.diagnosis import Diagnosis
from decodeprof.report.agreement import agreement_section
from decodeprof.report.blocks import Headline, Section, Span, View, line
from decodeprof.report.captured import ran_without_gpu
from decodeprof.report.context import (
    caveats_section,
    cpu_section,
    measured_section,
    next_section,
    steps_section,
)
from decodeprof.report.findings import could_not_tell_section, findings_section
from decodeprof.report.graph_check import graph_check_section
from decodeprof.report.sites import kernels_section, prefill_syncs, syncs_section
from decodeprof.report.step import (
    budget_section,
    floors_section,
    prefill_section,
    step_section,
    what_if_section,
)


def view(diagnosis: Diagnosis) -> View:
    """Lay a diagnosis out for reading: the verdict first, the small print last."""
    sections = (
        _verdict_section(diagnosis),
        cpu_section(diagnosis),
        step_section(diagnosis),
        budget_section(diagnosis),
        floors_section(diagnosis),
        what_if_section(diagnosis),
        None if diagnosis.graph_check is None else graph_check_section(diagnosis.graph_check),
        findings_section(diagnosis),
        *_device_sections(diagnosis),
        _prefill(diagnosis),
        steps_section(diagnosis),
        measured_section(diagnosis),
        agreement_section(diagnosis),
        could_not_tell_section(diagnosis),
        caveats_section(diagnosis),
        next_section(diagnosis),
    )
    device = diagnosis.about.device or next(
        (device.name for device in diagnosis.devices if device.name), None
    )
    title = [Span("decodeprof  ", "muted"), Span(diagnosis.about.target or diagnosis.source.name)]
    if device:
        title.append(Span(f"  on {device}", "muted"))
    return View(tuple(title), tuple(section for section in sections if section is not None))


def _verdict_section(diagnosis: Diagnosis) -> Section:
    return Section("verdict", "", (Headline(line(diagnosis.verdict.sentence)),))


def _device_sections(diagnosis: Diagnosis) -> tuple[Section, ...]:
    """What ran on a GPU and what waited for it; for a CPU run one section says it is unknown."""
    if ran_without_gpu(diagnosis):
        return ()
    return (syncs_section(diagnosis), kernels_section(diagnosis))


def _prefill(diagnosis: Diagnosis) -> Section | None:
    section = prefill_section(diagnosis)
    if section is None or ran_without_gpu(diagnosis):
        return section
    return Section(section.key, section.title, (*section.blocks, *prefill_syncs(diagnosis)))
