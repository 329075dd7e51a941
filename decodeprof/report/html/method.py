"""How was what the page says found out? The rules behind its figures, as far as it has them."""

from __future__ import annotations

from decodeprof.model.diagnosis import Diagnosis
from decodeprof.report.blocks import Fact, Facts, Section, line
from decodeprof.report.captured import ran_without_gpu

_UNPROFILED = (
    "the median of steps that ran with no profiler attached; the profiled step, which is longer, "
    "serves for structure only"
)
_PROFILED = (
    "as the profiler saw it, which is longer than it takes without one; a trace holds no other time"
)
_BUDGET = (
    "busy is when anything runs on the device, overlaps counted once. Every gap between is split "
    "by what the launching thread did as long before as a launch needs to arrive. The parts sum to "
    "the step, to the nanosecond"
)
_EXPOSED = (
    "what a step would be shorter by without the call, from replay; how long the call lasts says "
    "little, since the host may have had nothing else to do"
)
_CHANGES = (
    "replay works out when everything starts from durations, order, launches and latencies alone, "
    "changes one thing, and goes on until steps no longer change. Savings are not added up: all "
    "of these together is a replay of its own"
)
_FLOORS = (
    "host: the launching thread's work without its waits; device: its kernels back to back; "
    "bandwidth: what a step must read at least, at the rate that the device copies or reads"
)
_EVIDENCE = (
    "MEASURED: read off events; DERIVED: computed from them; MODELLED: rests on an assumption, "
    "which is stated"
)
_ANSWERS = (
    "a finding is there, or it is clear, or it could not be told, with what to capture; what was "
    "not captured is unknown and never none"
)


def method_section(diagnosis: Diagnosis) -> Section | None:
    """The rules behind the figures of this page; None where no GPU ran, and so none applies."""
    if ran_without_gpu(diagnosis):
        return None
    step = diagnosis.step
    rows = []
    if step is not None:
        rows.append(("step time", _UNPROFILED if step.unprofiled_ns is not None else _PROFILED))
    if any(known.idle_ns is not None for known in (step, diagnosis.prefill) if known is not None):
        rows.append(("step budget", _BUDGET))
    if diagnosis.floors is not None:
        rows.append(("floors", _FLOORS))
    what_if = diagnosis.what_if
    if any(getattr(what_if, field) is not None for field in what_if.__struct_fields__):
        rows.append(("predictions", _CHANGES))
    if any(site.exposed_ns is not None for site in diagnosis.syncs):
        rows.append(("exposed cost", _EXPOSED))
    if diagnosis.findings:
        rows.append(("evidence", _EVIDENCE))
    rows.append(("answers", _ANSWERS))
    return Section("method", "Method", (Facts(tuple(Fact(a, line(b)) for a, b in rows)),))
