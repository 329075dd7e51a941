"""What can a step not be shorter than: its host, its device, its bytes, its operations?"""

from __future__ import annotations

from dataclasses import dataclass

from decodeprof import hardware
from decodeprof.analysis.figures import PhaseFigures
from decodeprof.analysis.traffic.floor import StepFloor, step_floor
from decodeprof.diagnosis import context
from decodeprof.diagnosis.evidence import Evidence
from decodeprof.diagnosis.predictions import Predictions
from decodeprof.model.diagnosis import Floors


@dataclass(frozen=True)
class _Rate:
    """A rate in units a second, and how it is known; None: not known."""

    per_s: float | None
    source: str | None


def floors_of(
    evidence: Evidence, predicted: Predictions, figures: PhaseFigures | None
) -> Floors | None:
    """The floors of the step of a phase whose times are shown; None: there is none.

    Args:
        evidence: the analysis.
        predicted: what replay says of the decode step.
        figures: of the decode steps, or of the prefill.
    """
    if figures is None or evidence.traffic is None:
        return None
    decodes = figures is evidence.decode
    name = next((d.name for d in evidence.trace.devices if d.index == evidence.device), None)
    gap, source = predicted.node_gap_ns, predicted.node_gap_source
    if gap is None:
        gap, source = hardware.typical_node_gap(name)
    recording = evidence.recording
    floor = step_floor(
        evidence.trace,
        evidence.steps,
        evidence.traffic,
        step=figures.shown,
        model=recording.model if recording else None,
    )
    bandwidth = _bandwidth(evidence, name)
    flops = _flops_rate(evidence, name, floor)
    timed = context.unprofiled_step if decodes else context.unprofiled_prefill
    unprofiled = timed(recording)
    step_ns = unprofiled.median if unprofiled else int(evidence.steps.window_ns[figures.shown])
    bytes_ns, flops_ns = _ns(floor.bytes, bandwidth.per_s), _ns(floor.flops, flops.per_s)
    return Floors(
        host_ns=predicted.host_ns if decodes else None,
        busy_ns=figures.busy_ns,
        node_gap_ns=gap,
        device_ns=_device_ns(
            figures.busy_ns,
            gaps=min(int(evidence.counts.activities[figures.shown]), figures.gaps),
            gap_ns=gap,
            unprofiled_ns=unprofiled.median if unprofiled and decodes else None,
            replayed_ns=predicted.outcomes.floor_ns if predicted.outcomes and decodes else None,
        ),
        bytes_ns=bytes_ns,
        bytes=floor.bytes,
        flops_ns=flops_ns,
        flops=floor.flops,
        bandwidth_bytes_per_s=bandwidth.per_s,
        node_gap_source=source,
        bandwidth_source=bandwidth.source,
        flops_per_s=flops.per_s,
        flops_source=flops.source,
        mbu_share=_share(bytes_ns, step_ns),
        mfu_share=_share(flops_ns, step_ns),
        mbu_busy_share=_share(bytes_ns, figures.busy_ns),
        mfu_busy_share=_share(flops_ns, figures.busy_ns),
    )


def _share(least_ns: int | None, taken_ns: int) -> float | None:
    return None if least_ns is None or taken_ns <= 0 else least_ns / taken_ns


def _device_ns(
    busy_ns: int, *, gaps: int, gap_ns: int, unprofiled_ns: int | None, replayed_ns: int | None
) -> int:
    """Busy time and one node gap for each time that the device paused; overlap leaves none.

    Replay, where there is one, knows which gaps are shorter than that. A profiler makes a
    graph's nodes last longer (by up to a fifth on an H200): what the step took without it is
    then the better floor.
    """
    floor = busy_ns + gaps * gap_ns if replayed_ns is None else replayed_ns
    return floor if unprofiled_ns is None else min(floor, unprofiled_ns)


def _ns(amount: int | None, per_s: float | None) -> int | None:
    return round(amount * 1e9 / per_s) if amount is not None and per_s else None


def _bandwidth(evidence: Evidence, name: str | None) -> _Rate:
    """The bandwidth that this device reached when it was measured, else its datasheet's."""
    ceilings = evidence.recording.ceilings if evidence.recording else None
    measured = [
        rate
        for rate in ((ceilings.copy_bytes_per_s, ceilings.read_bytes_per_s) if ceilings else ())
        if rate
    ]
    if measured:
        # Decode reads far more than it writes: the better of the two is the roof.
        return _Rate(max(measured), "measured on this device while recording")
    spec = hardware.lookup(name)
    if spec is None:
        return _Rate(None, None)
    return _Rate(spec.bandwidth_bytes_per_s, f"datasheet of {spec.name}")


def _flops_rate(evidence: Evidence, name: str | None, floor: StepFloor) -> _Rate:
    ceilings = evidence.recording.ceilings if evidence.recording else None
    if ceilings and ceilings.matmul_flops_per_s and floor.dtype in _HALF:
        return _Rate(ceilings.matmul_flops_per_s, "measured on this device while recording")
    spec = hardware.lookup(name)
    rate = spec.peak_flops(floor.dtype) if spec and floor.dtype else None
    return _Rate(rate, f"datasheet of {spec.name}" if spec and rate else None)


_HALF = ("c10::BFloat16", "c10::Half")
"""The element types that the measured matrix product speaks for: both halves run at one rate."""
