"""The timeline, twice: as a picture that needs no script, and as data that a script zooms into.

The picture cuts the stretch into columns and stacks what each column holds, so that a thousand
kernels of a microsecond show as the share of time that they take, however narrow the page is.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

import msgspec

from decodeprof import units
from decodeprof.model.charts import CAUSES, Charts, GapTrack, HostTrack, Timeline
from decodeprof.report.html.scale import Tick, percent, round_values
from decodeprof.report.names import cleaned, fitted, short_kernel_name
from decodeprof.report.step import BUSY_KEY, CAUSE_KEYS

COLUMNS = 480
HEIGHT = 100
"""Height of a lane in the picture's own units; the page stretches it."""
TICKS = 6
HOST_PARTS = ("sync", "launch", "api", "op")
COLOURED_BY_NAME = ("other", "fused by a compiler")
"""Families whose kernels have little in common but that they have no better family."""
LONGEST_NAME = 120
"""Characters of a kernel's full name that the page's data holds: it is shown beside the pointer,
and hundreds of names of template arguments would fill the page."""


@dataclass(frozen=True)
class Area:
    """The columns of one kind in a lane, as an SVG path in COLUMNS × HEIGHT units."""

    kind: str
    path: str


@dataclass(frozen=True)
class PictureLane:
    """A lane of the picture."""

    label: str
    areas: tuple[Area, ...]


@dataclass(frozen=True)
class PictureStep:
    """A step's stretch; percentages."""

    x: str
    width: str
    label: str


@dataclass(frozen=True)
class PictureSync:
    """A blocking call: where it is, and its site's row in the report; None: it has none."""

    x: str
    number: int | None
    title: str


@dataclass(frozen=True)
class Legend:
    """What a colour and a key stand for."""

    style: str
    """The class that has the colour."""
    key: str
    label: str


@dataclass(frozen=True)
class TimelinePicture:
    """Everything that the page needs to show a timeline."""

    caption: str
    lanes: tuple[PictureLane, ...]
    steps: tuple[PictureStep, ...]
    syncs: tuple[PictureSync, ...]
    ticks: tuple[Tick, ...]
    legend: tuple[Legend, ...]
    families: tuple[Legend, ...]
    data: bytes
    """The script's data, as JSON."""
    idle_known: bool


def timeline(charts: Charts, *, decode_sites: int) -> TimelinePicture | None:
    """The picture and the data; None where nothing ran on a device.

    Args:
        charts: what was gathered.
        decode_sites: how many of `Diagnosis.syncs` have a row among the decode step's.
    """
    found = charts.timeline
    if found is None or found.length_ns <= 0:
        return None
    return TimelinePicture(
        caption=found.caption,
        lanes=_lanes(found),
        steps=_steps(found),
        syncs=_syncs(found, decode_sites),
        ticks=tuple(
            Tick(percent(v / found.length_ns), units.time(v))
            for v in round_values(found.length_ns, TICKS)
        ),
        legend=_legend(found),
        families=_families(found),
        data=msgspec.json.encode(_data(found, charts, decode_sites)),
        idle_known=found.idle_known,
    )


def _steps(found: Timeline) -> tuple[PictureStep, ...]:
    """Each step's stretch, or one for all where no step is known."""
    if not found.steps:
        return (PictureStep("0%", "100%", f"no steps: {units.time(found.length_ns)}"),)
    return tuple(
        PictureStep(
            percent(step.start_ns / found.length_ns),
            percent((step.end_ns - step.start_ns) / found.length_ns),
            f"{step.phase} {step.index}: {units.time(step.end_ns - step.start_ns)}",
        )
        for step in found.steps
    )


def _lanes(found: Timeline) -> tuple[PictureLane, ...]:
    lanes = [PictureLane("device: busy, and idle by cause", _stacked(_device_parts(found), found))]
    api = next((track for track in found.host if track.kind == "api"), None)
    ops = next((track for track in found.host if track.kind == "op" and track.depth == 0), None)
    if api is not None or ops is not None:
        lanes.append(
            PictureLane("host thread that launches", _stacked(_host_parts(ops, api), found))
        )
    return tuple(lanes)


Parts = dict[str, Iterable[tuple[int, int]]]
"""For each kind its (start, length) intervals."""


def _device_parts(found: Timeline) -> Parts:
    parts: Parts = {"busy": _merged(found)}
    for cause in CAUSES:
        parts[cause] = list(_of_cause(found.gaps, CAUSES.index(cause)))
    return parts


def _merged(found: Timeline) -> list[tuple[int, int]]:
    """Busy time as disjoint intervals: what is left between the gaps."""
    merged, at = [], 0
    for start, length in zip(found.gaps.start_ns, found.gaps.length_ns, strict=True):
        merged.append((at, start - at))
        at = start + length
    merged.append((at, found.length_ns - at))
    return merged


def _of_cause(gaps: GapTrack, cause: int) -> Iterable[tuple[int, int]]:
    """A gap's parts, laid behind each other in the causes' order: only their lengths are known."""
    for start, parts in zip(gaps.start_ns, gaps.parts, strict=True):
        at = start
        for index, length in parts:
            if index == cause:
                yield at, length
            at += length


def _host_parts(ops: HostTrack | None, api: HostTrack | None) -> Parts:
    parts: dict[str, list[tuple[int, int]]] = {kind: [] for kind in HOST_PARTS}
    inside: list[tuple[int, int]] = []
    if api is not None:
        for start, length, kind in zip(api.start_ns, api.length_ns, api.call_kind, strict=True):
            parts[kind].append((start, length))
            inside.append((start, start + length))
    if ops is not None:
        spans = [(s, s + n) for s, n in zip(ops.start_ns, ops.length_ns, strict=True)]
        parts["op"] = _without(spans, inside)
    return {kind: found for kind, found in parts.items() if found}


def _without(spans: list[tuple[int, int]], holes: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """What of some spans no hole covers, as (start, length); both are sorted by start."""
    left, first = [], 0
    for start, end in spans:
        at = start
        while first < len(holes) and holes[first][1] <= start:
            first += 1
        for begin, until in holes[first:]:
            if begin >= end:
                break
            if begin > at:
                left.append((at, begin - at))
            at = max(at, until)
        if end > at:
            left.append((at, end - at))
    return left


def _stacked(parts: Parts, found: Timeline) -> tuple[Area, ...]:
    """Each kind's columns on top of those before it."""
    base = [0.0] * COLUMNS
    areas = []
    for kind, intervals in parts.items():
        held = _columns(intervals, found.length_ns)
        path = []
        for column, share in enumerate(held):
            height = min(share, 1.0 - base[column]) * HEIGHT
            if height >= 0.05:
                top = HEIGHT - base[column] * HEIGHT - height
                path.append(f"M{column} {top:.4g}h1v{height:.3g}h-1z")
            base[column] = min(1.0, base[column] + share)
        if path:
            areas.append(Area(kind, "".join(path)))
    return tuple(areas)


def _columns(intervals: Iterable[tuple[int, int]], length_ns: int) -> list[float]:
    """The share of each column that the intervals cover."""
    width = length_ns / COLUMNS
    held = [0.0] * COLUMNS
    for start, length in intervals:
        at, end = start / width, (start + length) / width
        column = int(at)
        while column < end and column < COLUMNS:
            held[column] += min(end, column + 1) - max(at, column)
            column += 1
    return held


def _site(index: int | None, decode_sites: int) -> int | None:
    """A site's number in the table of a decode step; None: it stands in no such row."""
    return index + 1 if index is not None and index < decode_sites else None


def _syncs(found: Timeline, decode_sites: int) -> tuple[PictureSync, ...]:
    return tuple(
        PictureSync(
            x=percent(mark.start_ns / found.length_ns),
            number=_site(mark.site, decode_sites),
            title=f"{cleaned(found.names[mark.name].text)}, {units.time(mark.length_ns)}",
        )
        for mark in found.syncs
    )


def _legend(found: Timeline) -> tuple[Legend, ...]:
    present = {index for parts in found.gaps.parts for index, _ in parts}
    rows = [Legend("c-busy", BUSY_KEY, "device busy")]
    rows += [
        Legend(f"c-{cause}", CAUSE_KEYS[cause], f"idle: {cause}")
        for index, cause in enumerate(CAUSES)
        if index in present
    ]
    kinds = {kind for track in found.host for kind in track.call_kind}
    if "op" in kinds:
        rows.append(Legend("c-op", "o", "host: framework op"))
    if "api" in kinds:
        rows.append(Legend("c-api", "a", "host: other API call"))
    return tuple(rows)


def _families(found: Timeline) -> tuple[Legend, ...]:
    """The colours of the device's lanes; kernels of an unknown family have one each, by name."""
    used = {name for track in found.device for name in track.name}
    families = {found.names[name].family for name in used} - {None, *COLOURED_BY_NAME}
    return tuple(
        Legend(f"f-{family.replace(' ', '-')}", family[0], family)
        for family in sorted(filter(None, families))
    )


def _data(found: Timeline, charts: Charts, decode_sites: int) -> dict[str, object]:
    """What the script draws; starts are differences, which are short to write."""
    families = sorted({name.family for name in found.names if name.family is not None})
    return {
        "length": found.length_ns,
        "causes": [[cause, CAUSE_KEYS[cause]] for cause in CAUSES],
        "families": families,
        "by_name": [families.index(f) for f in COLOURED_BY_NAME if f in families],
        "names": [
            [
                short_kernel_name(cleaned(name.text)) if name.family else cleaned(name.text),
                fitted(cleaned(name.text), LONGEST_NAME),
                -1 if name.family is None else families.index(name.family),
            ]
            for name in found.names
        ],
        "steps": [
            [step.phase, step.index, step.start_ns, step.end_ns, step.steady]
            for step in found.steps
        ],
        "device": [
            {
                "device": track.device,
                "stream": track.stream,
                "depth": track.depth,
                "start": _differences(track.start_ns),
                "length": track.length_ns,
                "name": track.name,
                "latency": track.latency_ns,
                "op": track.op,
            }
            for track in found.device
        ],
        "host": [
            {
                "thread": cleaned(track.thread),
                "kind": track.kind,
                "depth": track.depth,
                "start": _differences(track.start_ns),
                "length": track.length_ns,
                "name": track.name,
                "sort": "" if track.kind == "op" else "".join(kind[0] for kind in track.call_kind),
            }
            for track in found.host
        ],
        "gaps": {
            "start": _differences(found.gaps.start_ns),
            "parts": [[value for part in parts for value in part] for parts in found.gaps.parts],
        },
        "syncs": [
            [mark.start_ns, mark.length_ns, mark.name, _site(mark.site, decode_sites) or 0]
            for mark in found.syncs
        ],
        "places": {
            code: [place.start_ns, place.end_ns, cleaned(place.label)]
            for code, place in charts.places.items()
        },
    }


def _differences(values: list[int]) -> list[int]:
    return [value - before for before, value in pairwise([0, *values])]
