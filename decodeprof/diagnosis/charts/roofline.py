"""How near to the roof is each kind of kernel? Bytes, operations and time by name."""

from __future__ import annotations

import numpy as np

from decodeprof.analysis.traffic.rates import name_rates, rows_of_steps
from decodeprof.diagnosis.evidence import Evidence
from decodeprof.model.charts import Roofline, RoofPoint
from decodeprof.model.diagnosis import Floors
from decodeprof.model.families import family
from decodeprof.model.trace import I64

NS_PER_S = 1_000_000_000


def roofline(evidence: Evidence, floors: Floors | None) -> Roofline | None:
    """Kernels of a step whose bytes are known; None where none is, or no bandwidth."""
    figures, traffic = evidence.decode or evidence.prefill, evidence.traffic
    if figures is None or traffic is None or floors is None or not floors.bandwidth_bytes_per_s:
        return None
    rows = rows_of_steps(evidence.steps, figures.rows)
    n = len(figures.rows)
    points = [
        RoofPoint(
            family=family(rate.name),
            name=rate.name,
            count=rate.count / n,
            time_ns=round(rate.time_ns / n),
            bytes=round(rate.bytes / n),
            flops=round((rate.flops or 0) / n),
        )
        for rate in name_rates(evidence.trace, traffic, rows)
        if rate.bytes is not None and rate.bytes > 0 and rate.time_ns >= n
    ]
    total = _time(evidence, rows)
    if not points or not total:
        return None
    peak = floors.flops * NS_PER_S / floors.flops_ns if floors.flops and floors.flops_ns else None
    return Roofline(
        points=points,
        bandwidth_bytes_per_s=floors.bandwidth_bytes_per_s,
        flops_per_s=peak,
        known_time_share=round(min(1.0, sum(p.time_ns for p in points) * n / total), 6),
    )


def _time(evidence: Evidence, rows: I64) -> int:
    table = evidence.trace.device
    return int(np.sum(table.end_ns[rows] - table.start_ns[rows]))
