"""What can this device do at most? Datasheet peaks by device name, each with its source.

A name that is not known gives None: a wrong roof is worse than none. What was measured beside the
peaks says on which device; it never passes for another device's own.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import resources
from types import MappingProxyType
from typing import Any

_GIGA = 1e9
_TERA = 1e12
# The element types of traces, by the key of their FLOP rate. A product of float operands runs on
# the vector units unless the program allowed TF32, which no trace tells.
_RATE_OF_DTYPE = {
    "c10::BFloat16": "bf16",
    "c10::Half": "fp16",
    "float": "fp32",
    "c10::Float8_e4m3fn": "fp8",
    "c10::Float8_e4m3fnuz": "fp8",
    "c10::Float8_e5m2": "fp8",
    "c10::Float8_e5m2fnuz": "fp8",
}


@dataclass(frozen=True)
class Measured:
    """What was measured on a device of this kind, in bytes a second and ns."""

    copy_bytes_per_s: float
    """Device-to-device copy, bytes read plus bytes written."""
    read_bytes_per_s: float
    node_gap_ns: int
    source: str


@dataclass(frozen=True)
class Spec:
    """A device's peaks as its maker states them."""

    name: str
    memory_bytes: float
    bandwidth_bytes_per_s: float
    flops_per_s: Mapping[str, float]
    """Dense peak by bf16, fp16, fp8, tf32 and fp32; a type that the device lacks is not in it."""
    source: str
    other_sources: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Sources of single numbers, by `flops_per_s` key, that `source` does not cover."""
    measured: Measured | None = None

    def peak_flops(self, dtype: str) -> float | None:
        """Dense FLOP rate for an element type, as traces name it or by its key.

        Args:
            dtype: ``c10::BFloat16``, ``c10::Half``, ``float``, …, or ``bf16``, ``fp16``, …

        Returns:
            FLOP/s; None where the device or this table has no rate for it.
        """
        return self.flops_per_s.get(_RATE_OF_DTYPE.get(dtype, dtype))

    def source_of(self, key: str) -> str:
        """The source of one number: a `flops_per_s` key, ``memory`` or ``bandwidth``."""
        return self.other_sources.get(key, self.source)


@dataclass(frozen=True)
class _Table:
    """specs.toml, decoded."""

    specs: tuple[tuple[re.Pattern[str], Spec], ...]
    typical: Mapping[str, Any]
    sources: Mapping[str, str]


@lru_cache(maxsize=1)
def _table() -> _Table:
    text = resources.files(__package__).joinpath("specs.toml").read_text(encoding="utf-8")
    raw = tomllib.loads(text)
    sources = raw["sources"]
    specs = tuple(
        (re.compile(entry["name_pattern"], re.IGNORECASE), _spec(entry, sources))
        for entry in raw["device"]
    )
    return _Table(specs=specs, typical=raw["typical"], sources=sources)


def _spec(entry: dict[str, Any], sources: Mapping[str, str]) -> Spec:
    found = entry.get("measured")
    measured = None
    if found is not None:
        measured = Measured(
            copy_bytes_per_s=found["copy_gb_per_s"] * _GIGA,
            read_bytes_per_s=found["read_gb_per_s"] * _GIGA,
            node_gap_ns=found["node_gap_ns"],
            source=sources[found["source"]],
        )
    others = {key: sources[name] for key, name in entry.get("other_sources", {}).items()}
    return Spec(
        name=entry["name"],
        memory_bytes=entry["memory_gb"] * _GIGA,
        bandwidth_bytes_per_s=entry["bandwidth_gb_per_s"] * _GIGA,
        flops_per_s=MappingProxyType({k: v * _TERA for k, v in entry["tflops"].items()}),
        source=sources[entry["source"]],
        other_sources=MappingProxyType(others),
        measured=measured,
    )


def all_specs() -> tuple[Spec, ...]:
    """Every device that is known, in the order of the file."""
    return tuple(spec for _, spec in _table().specs)


def lookup(name: str | None) -> Spec | None:
    """Find a device's peaks by the name that a trace or a driver gives.

    Args:
        name: such as ``NVIDIA H200`` or ``Tesla V100-SXM2-32GB``.

    Returns:
        Its peaks; None when the name is empty, not known, or that of a slice of a device (MIG).
    """
    wanted = " ".join((name or "").split())
    for pattern, spec in _table().specs:
        if pattern.fullmatch(wanted):
            return spec
    return None


def typical_latency_ns() -> dict[str, int]:
    """For each launch kind (kernel, copy, set, graph) a typical latency floor in ns.

    Measured on H200 hosts; hosts differ by a factor of two, so that what it enters is MODELLED.
    """
    return {kind: entry["ns"] for kind, entry in _table().typical["latency"].items()}


def typical_node_gap(name: str | None) -> tuple[int, str]:
    """The idle time between two nodes of a graph, and where the number comes from.

    Args:
        name: the device's name. Where nothing was measured on its kind, another device's value
            is given, and the source says so.

    Returns:
        The gap in ns, and its source as a phrase.
    """
    spec = lookup(name)
    if spec is not None and spec.measured is not None:
        return spec.measured.node_gap_ns, spec.measured.source
    entry = _table().typical["node_gap"]
    source = f"{_table().sources[entry['source']]}, not on {name or 'this device'}"
    return int(entry["ns"]), source
