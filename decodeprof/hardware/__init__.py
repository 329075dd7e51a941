"""What devices can do: datasheet peaks and measured typical values, each with its source."""

from decodeprof.hardware.specs import (
    Measured,
    Spec,
    all_specs,
    lookup,
    typical_latency_ns,
    typical_node_gap,
)

TYPICAL_LATENCY_NS = typical_latency_ns()
"""Typical latency floor in ns by launch kind: kernel, copy, set, graph."""

__all__ = [
    "TYPICAL_LATENCY_NS",
    "Measured",
    "Spec",
    "all_specs",
    "lookup",
    "typical_latency_ns",
    "typical_node_gap",
]
