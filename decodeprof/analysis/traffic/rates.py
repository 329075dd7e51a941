"""How fast did bytes move: per kernel name, per step, and against a peak?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from decodeprof.analysis.grouping import rows_by_value
from decodeprof.analysis.intervals import union
from decodeprof.analysis.steps.found import Steps
from decodeprof.analysis.traffic.columns import KernelTraffic
from decodeprof.model.trace import I64, NONE, Trace

_NS_PER_S = 1e9


@dataclass(frozen=True)
class NameRate:
    """Traffic of all activities of one name."""

    name: str
    count: int
    time_ns: int
    bytes: int | None
    """Of all of them; None: of some it is not known, or it stands at the main kernel of the op."""
    achieved_bytes_per_s: float | None
    """bytes ÷ time."""
    flops: int | None
    achieved_flops_per_s: float | None


@dataclass(frozen=True)
class StepRates:
    """Traffic of one step."""

    bytes: int
    """Bytes of the kernels that are known: what kernels move, not what they would have to."""
    known_time_share: float
    """Share of the step's kernel time spent in kernels whose bytes are known."""
    busy_ns: int
    wall_ns: int | None
    """The device window; None: not measured."""
    bytes_per_s_busy: float | None
    bytes_per_s_wall: float | None


def name_rates(trace: Trace, traffic: KernelTraffic, rows: I64) -> list[NameRate]:
    """Sum up rows of `Trace.device` by name, longest total time first."""
    lengths = trace.device.end_ns - trace.device.start_ns
    found = []
    for name, places in rows_by_value(trace.device.name[rows]).items():
        mine = rows[places]
        own = (traffic.counted_at[mine] == mine).all()
        time = int(lengths[mine].sum())
        size = int(traffic.bytes[mine].sum()) if own else None
        flops = int(traffic.flops[mine].sum()) if own else None
        found.append(
            NameRate(
                name=trace.names[name],
                count=len(mine),
                time_ns=time,
                bytes=size,
                achieved_bytes_per_s=_per_second(size, time),
                flops=flops,
                achieved_flops_per_s=_per_second(flops, time),
            )
        )
    return sorted(found, key=lambda rate: (-rate.time_ns, rate.name))


def rows_of_steps(steps: Steps, wanted: I64) -> I64:
    """Rows of `Trace.device` that belong to the given steps."""
    return np.flatnonzero(np.isin(steps.activity_step, wanted)).astype(np.int64)


def step_rates(trace: Trace, steps: Steps, traffic: KernelTraffic, *, step: int) -> StepRates:
    """Sum up one step.

    Args:
        trace: the trace.
        steps: its steps.
        traffic: what its kernels moved.
        step: index of the step.
    """
    rows = steps.activities(step)
    starts, ends = trace.device.start_ns[rows], trace.device.end_ns[rows]
    known = traffic.known[rows]
    size = int(traffic.bytes[rows[known]].sum())
    total = int((ends - starts).sum())
    busy = union(starts, ends).total_ns
    wall = int(steps.window_ns[step])
    return StepRates(
        bytes=size,
        known_time_share=int((ends - starts)[known].sum()) / total if total else 0.0,
        busy_ns=busy,
        wall_ns=wall if wall != NONE else None,
        bytes_per_s_busy=_per_second(size, busy),
        bytes_per_s_wall=_per_second(size, wall if wall != NONE else None),
    )


def peak_share(
    amount: int | None, *, time_ns: int | None, peak_per_s: float | None
) -> float | None:
    """Achieved ÷ peak: MBU for bytes, MFU for FLOPs. Say which bytes were counted.

    Args:
        amount: bytes or FLOPs.
        time_ns: the time they took.
        peak_per_s: the peak in bytes or FLOPs a second, a datasheet's or a measured one.

    Returns:
        The share, 0 to 1; None where any of the three is unknown.
    """
    rate = _per_second(amount, time_ns)
    return rate / peak_per_s if rate is not None and peak_per_s else None


def _per_second(amount: int | None, time_ns: int | None) -> float | None:
    if amount is None or not time_ns:
        return None
    return amount * _NS_PER_S / time_ns
