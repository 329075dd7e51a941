"""How far does each change bring a step, and what can it not go below? One bar a row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from decodeprof import units
from decodeprof.model.diagnosis import Diagnosis, WhatIf
from decodeprof.report.html.scale import Tick, percent, round_values
from decodeprof.report.step import CHANGES, step_now

TICKS = 5
_FLOORS = (
    ("host_ns", "host floor", "host"),
    ("device_ns", "device floor", "device"),
    ("bytes_ns", "bandwidth floor", "bytes"),
)


@dataclass(frozen=True)
class FallRow:
    """One bar: from 0 to `end`, what is saved up to today's step, and a range; all percentages."""

    label: str
    kind: Literal["now", "change", "together", "host", "device", "bytes"]
    value: str
    note: str
    end: str
    saved: str
    """Width of what is saved; 0% where nothing is."""
    low: str
    high: str
    """Equal to `low` where there is no range."""


@dataclass(frozen=True)
class Fall:
    """Rows on one scale."""

    rows: tuple[FallRow, ...]
    ticks: tuple[Tick, ...]
    caption: str


def floors_fall(diagnosis: Diagnosis) -> Fall | None:
    """Today's step above the three floors; None where no step or no floor is known."""
    now = _now(diagnosis)
    if now is None or diagnosis.floors is None:
        return None
    values = [(key, label, kind) for key, label, kind in _FLOORS]
    known = [getattr(diagnosis.floors, key) or 0 for key, _, _ in values]
    if not any(known):
        return None
    scale = _Scale(max(now, *known), now)
    rows = [scale.row("step now", "now", now, note=_time_kind(diagnosis))]
    for (_, label, kind), value in zip(values, known, strict=True):
        if value:
            rows.append(scale.row(label, _kind(kind), value, note=f"{units.share(value / now)}"))
    return Fall(tuple(rows), scale.ticks(), "")


def gains_fall(diagnosis: Diagnosis) -> Fall | None:
    """From today's step through each change to the floors; None where nothing was predicted."""
    changes = [
        (field, label, what_if)
        for field, label in CHANGES
        if (what_if := getattr(diagnosis.what_if, field)) is not None
    ]
    now = step_now(diagnosis, changes[0][2]) if changes else None
    if now is None:
        return None
    scale = _Scale(max(now, *(w.step_ns.expected for _, _, w in changes)), now)
    kind_of_time = "profiled" if changes[0][2].in_profiled_time else "unprofiled"
    rows = [scale.row("today", "now", now, note=kind_of_time)]
    rows += [scale.change(field, label, what_if) for field, label, what_if in changes]
    floors = diagnosis.floors
    for key, label, kind in _FLOORS[1:]:
        value = getattr(floors, key) if floors is not None else None
        if value:
            # Fused kernels go below the floor of today's, which must not look like a mistake.
            told = f"{label}, same kernels" if kind == "device" else label
            rows.append(scale.row(told, _kind(kind), value, note=f"{units.share(value / now)}"))
    return Fall(tuple(rows), scale.ticks(), "A step after each change, alone and together")


def _kind(name: str) -> Literal["host", "device", "bytes"]:
    return "host" if name == "host" else "device" if name == "device" else "bytes"


def _now(diagnosis: Diagnosis) -> int | None:
    step = diagnosis.step
    if step is None:
        return None
    return step.unprofiled_ns.median if step.unprofiled_ns else step.profiled_ns


def _time_kind(diagnosis: Diagnosis) -> str:
    step = diagnosis.step
    return "unprofiled" if step is not None and step.unprofiled_ns else "profiled"


@dataclass(frozen=True)
class _Scale:
    """Times on a common axis from 0."""

    largest_ns: int
    now_ns: int

    def at(self, ns: float) -> str:
        return percent(min(1.0, max(0.0, ns / self.largest_ns)))

    def ticks(self) -> tuple[Tick, ...]:
        values = round_values(self.largest_ns, TICKS)
        return tuple(Tick(self.at(v), units.time(v)) for v in values)

    def row(
        self,
        label: str,
        kind: Literal["now", "host", "device", "bytes"],
        ns: int,
        *,
        note: str,
    ) -> FallRow:
        return FallRow(
            label=label,
            kind=kind,
            value=units.time(ns),
            note=note,
            end=self.at(ns),
            saved="0%",
            low="0%",
            high="0%",
        )

    def change(self, field: str, label: str, what_if: WhatIf) -> FallRow:
        step = what_if.step_ns
        saved = max(0, self.now_ns - step.expected)
        share = f"saves {units.share(saved / self.now_ns)}" if saved else "saves nothing"
        return FallRow(
            label=label,
            kind="together" if field == "all" else "change",
            value=units.time(step.expected),
            note=share,
            end=self.at(step.expected),
            saved=percent(saved / self.largest_ns),
            low=self.at(step.low),
            high=self.at(step.high),
        )
