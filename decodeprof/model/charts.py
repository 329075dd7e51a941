"""What is drawn beyond what diagnosis.json says: a timeline, a roofline, samples, memory.

These are pictures' data, gathered from a trace for renderers that can draw. They hold no verdict:
whatever a reader is told in words stands in the `Diagnosis`. Times are integer nanoseconds; columns
of one table have equal lengths. -1 in a column is "not known".
"""

from __future__ import annotations

from typing import Literal

import msgspec

from decodeprof.model.diagnosis import IDLE_CAUSES

CAUSES = IDLE_CAUSES
"""What `GapTrack.parts` indexes."""

HostKind = Literal["op", "launch", "sync", "api", "range"]


class Named(msgspec.Struct, frozen=True, kw_only=True):
    """A name that occurs in a timeline, and the family of kernels that it belongs to."""

    text: str
    family: str | None = None


class DeviceTrack(msgspec.Struct, frozen=True, kw_only=True):
    """What ran on one stream; overlapping activities are on tracks of their own."""

    device: int
    stream: int
    depth: int
    start_ns: list[int]
    length_ns: list[int]
    name: list[int]
    """Index into `Timeline.names`."""
    latency_ns: list[int]
    """Launch call's start to the activity's start; -1: no launch known."""
    op: list[int]
    """Index into `Timeline.names` of the op that launched it; -1: none known."""


class HostTrack(msgspec.Struct, frozen=True, kw_only=True):
    """What one host thread did, at one level of nesting."""

    thread: str
    kind: HostKind
    depth: int
    start_ns: list[int]
    length_ns: list[int]
    name: list[int]
    call_kind: list[HostKind]
    """For API calls what each is; for other tracks the track's kind, once for each row."""


class GapTrack(msgspec.Struct, frozen=True, kw_only=True):
    """Stretches in which the device ran nothing, with their causes."""

    start_ns: list[int]
    length_ns: list[int]
    parts: list[list[tuple[int, int]]]
    """For each gap (cause, ns) pairs that sum to its length; the cause indexes `CAUSES`."""


class SyncMark(msgspec.Struct, frozen=True, kw_only=True):
    """One blocking call, and which row of `Diagnosis.syncs` it belongs to."""

    start_ns: int
    length_ns: int
    name: int
    site: int | None
    """Index into `Diagnosis.syncs`; None: it belongs to no step that is reported on."""


class StepSpan(msgspec.Struct, frozen=True, kw_only=True):
    """A step's window on the device."""

    index: int
    """Row of `Steps.rows`."""
    phase: str
    steady: bool
    start_ns: int
    end_ns: int


class Timeline(msgspec.Struct, frozen=True, kw_only=True):
    """One stretch of a trace, all times from its start."""

    length_ns: int
    caption: str
    """Which stretch it is, as a sentence."""
    names: list[Named]
    steps: list[StepSpan]
    device: list[DeviceTrack]
    host: list[HostTrack]
    gaps: GapTrack
    syncs: list[SyncMark]
    idle_known: bool
    """False: the causes of gaps are not known, since no API call was captured."""


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where on the timeline a finding can be seen."""

    start_ns: int
    end_ns: int
    label: str


class RoofPoint(msgspec.Struct, frozen=True, kw_only=True):
    """Kernels of one name against the roof; figures per step."""

    family: str
    name: str
    count: float
    time_ns: int
    bytes: int
    flops: int


class Roofline(msgspec.Struct, frozen=True, kw_only=True):
    """Kernels whose bytes and operations are known, and what the device can do."""

    points: list[RoofPoint]
    bandwidth_bytes_per_s: float
    flops_per_s: float | None
    known_time_share: float
    """Share of the step's kernel time in kernels that are drawn."""


class CallSite(msgspec.Struct, frozen=True, kw_only=True):
    """Where kernels of a step are launched from; figures per step."""

    where: str
    """``file:line function`` where frames were recorded, else the op."""
    shapes: str
    """Input shapes of the op, where recorded and the same each time; empty otherwise."""
    count: float
    time_ns: int
    bytes: int | None
    achieved_bytes_per_s: float | None


class Memory(msgspec.Struct, frozen=True, kw_only=True):
    """Device memory in bytes; None: not measured."""

    device_bytes: int | None
    reserved_bytes: int | None
    allocated_bytes: int | None
    parameter_bytes: int | None
    buffer_bytes: int | None


class RulePage(msgspec.Struct, frozen=True, kw_only=True):
    """What a rule's manual page says, for readers of its finding."""

    why: str
    """Why it costs time."""
    ignore: str
    """When to ignore it."""


class Charts(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is drawn; None or empty where it could not be known."""

    timeline: Timeline | None = None
    places: dict[str, Place] = {}
    """By the finding's code."""
    pages: dict[str, RulePage] = {}
    """By the finding's code."""
    roofline: Roofline | None = None
    call_sites: list[CallSite] = []
    runs_step_ns: list[list[int]] = []
    """Unprofiled step times, call by call, in order."""
    memory: Memory | None = None
