"""What did the first point of a sweep let one foresee of the others, by replay of its recording?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from decodeprof.analysis.sweeps import growth
from decodeprof.analysis.sweeps.floors import Machine, median
from decodeprof.analysis.sweeps.larger import Larger
from decodeprof.cli.sweep_files import BATCH, Rates, trace_file
from decodeprof.diagnosis.evidence import Evidence, gather
from decodeprof.diagnosis.larger_step import larger
from decodeprof.diagnosis.load import load
from decodeprof.errors import DecodeprofError
from decodeprof.model.sweep import Measured
from decodeprof.recording import RECORDING_FILE, TRACE_FILE, read_recording

Foreseen = tuple[list[Larger], list[str]]
"""The replayed steps, and the caveat that says why there are none."""


def larger_of_reference(
    directory: Path, axis: str, points: Sequence[Measured], rates: Rates
) -> Foreseen:
    """Replay the trace of the first point of the reference, where one was kept."""
    good = [point for point in points if point.failed is None]
    path = trace_file(directory, axis, good[0].value) if good else None
    if axis != BATCH or path is None or not path.is_file():
        return [], []
    return _larger(path, good, machine_of(rates), rates.strided_elements_per_s)


def larger_of_target(
    directory: Path, axis: str, points: Sequence[Measured], machine: Machine
) -> Foreseen:
    """Replay the recording of the first point of a target whose argument is its batch size."""
    good = [point for point in points if point.failed is None]
    recordings = [directory / f"{axis}_{point.value}" for point in good]
    if len(good) < 2 or not all((each / RECORDING_FILE).is_file() for each in recordings):
        return [], []
    batches = [read_recording(each).target.batch for each in recordings]
    if batches != [point.value for point in good] or not (recordings[0] / TRACE_FILE).is_file():
        return [], []
    ceilings = read_recording(recordings[0]).ceilings
    strided = ceilings.strided_elements_per_s if ceilings else None
    return _larger(recordings[0], good, machine, strided)


def machine_of(rates: Rates) -> Machine:
    """What of a device's rates the floors are made of."""
    return Machine(rates.node_gap_ns, rates.read_bytes_per_s, rates.matmul_flops_per_s)


def _larger(
    path: Path, points: Sequence[Measured], machine: Machine, strided_per_s: float | None
) -> Foreseen:
    step_ns = median(points[0].eager_ns)
    bandwidth, flops, gap = (
        machine.bandwidth_bytes_per_s, machine.flops_per_s, machine.node_gap_ns,
    )  # fmt: skip
    if step_ns is None or not bandwidth or not flops or gap is None or len(points) < 2:
        return [], []
    try:
        evidence = gather(load(path))
    except DecodeprofError as error:
        return [], [_withheld(f"its recording: {error.what}")]
    sm_count = _sm_count(evidence)
    if sm_count is None:
        return [], [_withheld("its recording does not say how many SMs the device has")]
    steps, why = larger(
        evidence,
        [point.value for point in points],
        step_ns=step_ns,
        rates=growth.Rates(bandwidth, flops, sm_count, strided_per_s),
        node_gap_ns=gap,
    )
    return steps, [_withheld(why)] if why else []


def _sm_count(evidence: Evidence) -> int | None:
    return next((d.sm_count for d in evidence.trace.devices if d.index == evidence.device), None)


def _withheld(why: str) -> str:
    return f"the first point's step was not replayed with more rows: {why}"
