"""What filled the device's memory at its fullest?"""

from __future__ import annotations

from dataclasses import dataclass

from decodeprof import units
from decodeprof.model.charts import Charts
from decodeprof.report.html.scale import percent


@dataclass(frozen=True)
class MemoryPart:
    """A stretch of the bar; percentages."""

    kind: str
    label: str
    meaning: str
    size: str
    share: str
    x: str
    width: str


@dataclass(frozen=True)
class MemoryPicture:
    """Parts of what the allocator had reserved, and that against the device."""

    parts: tuple[MemoryPart, ...]
    caption: str


def memory(charts: Charts) -> MemoryPicture | None:
    """The picture; None where the allocator was not asked."""
    found = charts.memory
    if found is None or not found.reserved_bytes or found.allocated_bytes is None:
        return None
    parameters = min(found.parameter_bytes or 0, found.allocated_bytes)
    buffers = min(found.buffer_bytes or 0, found.allocated_bytes - parameters)
    rest = found.allocated_bytes - parameters - buffers
    what_else = "cache, activations, graphs' pools" if parameters else "everything allocated"
    sizes = (
        ("parameters", "parameters", "weights of the modules that were called", parameters),
        ("buffers", "buffers", "of the same modules", buffers),
        ("other", "other" if parameters else "allocated", what_else, rest),
        (
            "reserved",
            "reserved",
            "held by the allocator, not in use",
            max(0, found.reserved_bytes - found.allocated_bytes),
        ),
    )
    total = max(found.reserved_bytes, found.allocated_bytes)
    parts, at = [], 0
    for kind, label, meaning, size in sizes:
        if size:
            parts.append(
                MemoryPart(
                    kind=kind,
                    label=label,
                    meaning=meaning,
                    size=units.bytes_(size),
                    share=units.share(size / total),
                    x=percent(at / total),
                    width=percent(size / total),
                )
            )
        at += size
    caption = f"{units.bytes_(total)} reserved at the peak of one unprofiled call"
    if found.device_bytes:
        share = units.share(total / found.device_bytes)
        caption += f", {share} of the device's {units.bytes_(found.device_bytes)}"
    return MemoryPicture(tuple(parts), caption)
