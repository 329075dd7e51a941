"""How many bytes does each kernel move, how many FLOPs does it do, and what must a step move?

Counted from the shapes of the ops that launched the kernels, never from durations. What cannot be
counted is -1 or None: a guess would pass for a measurement.
"""

from decodeprof.analysis.traffic.columns import KernelTraffic, OpUse, Source
from decodeprof.analysis.traffic.floor import StepFloor, step_floor
from decodeprof.analysis.traffic.kernels import kernel_traffic
from decodeprof.analysis.traffic.rates import (
    NameRate,
    StepRates,
    name_rates,
    peak_share,
    step_rates,
)

__all__ = [
    "KernelTraffic",
    "NameRate",
    "OpUse",
    "Source",
    "StepFloor",
    "StepRates",
    "kernel_traffic",
    "name_rates",
    "peak_share",
    "step_floor",
    "step_rates",
]
