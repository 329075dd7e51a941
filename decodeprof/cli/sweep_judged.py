"""How does a sweep's directory become a judged sweep?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from msgspec import structs

from decodeprof import units
from decodeprof.analysis.sweeps.floors import eager_range_ns, median, range_ns
from decodeprof.analysis.sweeps.judge import Swept, judge
from decodeprof.analysis.sweeps.padding import plans as weighed_plans
from decodeprof.cli.sweep_files import (
    POINTS_FILE,
    About,
    again_ns,
    measured_points,
    read,
    read_rates,
)
from decodeprof.cli.sweep_foreseen import larger_of_reference, larger_of_target, machine_of
from decodeprof.cli.sweep_target import recorded
from decodeprof.errors import InputError, UsageError
from decodeprof.model.sweep import Measured, Sweep

_UNSETTLED = (
    "an eager step's profile held other numbers of activities in some steps: counts are means"
)

_NOT_FUSED = (
    "`--fused` asks for Triton kernels, and none can run on a CPU: of it the projections that are "
    "joined are left, and the rest runs as without it"
)

_TOY = {"batch": 1, "layers": 32, "width": 1024}
"""The toy's settings where none were given."""

_SPREAD_SHARE = 0.2
"""Of a point's median: samples that lie further apart leave it to chance."""


def judged(
    directory: Path,
    *,
    today: int | None = None,
    live: Mapping[int, int] | None = None,
    plans: Sequence[Sequence[int]] = (),
) -> Sweep:
    """Read a sweep and judge it.

    Args:
        directory: holds it.
        today: the value at which the reader's workload stands; none: the first.
        live: how often each batch size is live.
        plans: captured batch sizes to weigh beside the usual ones.

    Raises:
        InputError: there is no sweep, or it is damaged or empty.
        UsageError: `today` is no point, or plans of buckets make no sense here.
    """
    swept = _of_target(directory) if read(directory).about.target else _of_reference(directory)
    if today is not None:
        values = [point.value for point in swept.points]
        if today not in values:
            raise UsageError(
                f"`--today {today}` is no point of the sweep",
                why=f"its points are {', '.join(map(str, values))}",
            )
        swept = replace(swept, today=today)
    sweep = judge(swept)
    if not live:
        return sweep
    if swept.axis != "batch":
        raise UsageError("`--live` is for a sweep over batch", why=f"this one is over {swept.axis}")
    times = {
        point.value: time
        for point in sweep.points
        if (time := point.graph_ns or point.eager_ns) is not None
    }
    return judge(replace(swept, plans=weighed_plans(live, times, plans)))


def _of_reference(directory: Path) -> Swept:
    stored = read(directory)
    rates, problems = read_rates(directory)
    points = measured_points(stored)
    if not points:
        raise InputError(
            f"`{directory}` holds no point yet", hint="run the sweep again: it goes on"
        )
    unsettled = any(
        not message["eager"].get("settled", True)
        for message in stored.messages
        if message["kind"] == "counted"
    )
    spec = stored.about.spec
    if spec.get("phase") == "toy":
        points = [_of_toy(point, spec) for point in points]
    larger, withheld = larger_of_reference(directory, str(spec.get("axis", "")), points, rates)
    return Swept(
        subject=_subject(spec, stored.about),
        axis=str(spec.get("axis", "")),
        device=stored.about.device,
        torch=stored.about.torch,
        points=points,
        machine=machine_of(rates),
        today=points[0].value,
        again_ns=again_ns(stored, points[0].value),
        caveats=[
            *problems,
            *([_UNSETTLED] if unsettled else []),
            *([_NOT_FUSED] if spec.get("fused") and stored.about.device is None else []),
            *_left(stored.about, points),
            *_spread(str(spec.get("axis", "")), points),
            *withheld,
        ],
        larger=larger,
    )


def _of_toy(point: Measured, spec: Mapping[str, Any]) -> Measured:
    """A point of the toy: its rows are no tokens, and are read beside its weights.

    Raises:
        InputError: the first line of the sweep is damaged.
    """
    given = {name: value for name, value in spec.items() if value is not None}
    settings = {**_TOY, **given, str(spec.get("axis")): point.value}
    sizes = [settings[name] for name in _TOY]
    if not all(isinstance(size, int) and size > 0 for size in sizes):
        raise InputError(f"`{POINTS_FILE}` is damaged", why=f"no toy is of the size {sizes}")
    batch, layers, width = sizes
    read_bytes = point.bytes
    if read_bytes is not None:
        # Weights are `layers` × width²; what goes in is batch × width, of the same dtype.
        read_bytes += read_bytes * batch // (layers * width)
    return structs.replace(point, tokens=None, bytes=read_bytes)


def _of_target(directory: Path) -> Swept:
    about = read(directory).about
    found = recorded(directory)
    points = sorted(found.points, key=lambda point: point.value)
    larger, withheld = larger_of_target(directory, about.axis, points, found.machine)
    return Swept(
        subject=about.target,
        axis=about.axis,
        device=found.device,
        torch=found.torch,
        points=points,
        machine=found.machine,
        today=points[0].value,
        caveats=[
            *_left(about, points),
            *found.untimed,
            *_spread(about.axis, points),
            *withheld,
        ],
        larger=larger,
    )


def _left(about: About, points: Sequence[Measured]) -> list[str]:
    """A caveat that names the points which were asked for and have not been measured."""
    known = {point.value for point in points}
    left = [value for value in about.asked() if value not in known]
    if not left:
        return []
    axis = about.axis or str(about.spec.get("axis", ""))
    named = ", ".join(f"{value:,}" for value in left)
    return [
        f"not measured yet: {axis} {named}; the same sweep with `--out` naming its directory "
        "goes on"
    ]


def _spread(axis: str, points: Sequence[Measured]) -> list[str]:
    """A caveat for each kind of step whose samples lie far apart at some points."""
    kinds: tuple[tuple[str, Callable[[Measured], tuple[int, int] | None], str], ...] = (
        ("an eager step", eager_range_ns, "eager_ns"),
        ("a graph's step", lambda point: range_ns(point.graph_ns), "graph_ns"),
    )
    found = []
    for name, range_of, field in kinds:
        told = []
        for point in points:
            limits, middle = range_of(point), median(getattr(point, field))
            if limits and middle and limits[1] - limits[0] > _SPREAD_SHARE * middle:
                low, high = (units.time(limit) for limit in limits)
                told.append(f"{point.value:,} ({low} to {high})")
        if told:
            found.append(
                f"the times of {name} spread by more than {units.share(_SPREAD_SHARE)} of their "
                f"median, from p10 to p90, at {axis} {', '.join(told)}"
            )
    return found


def _subject(spec: Mapping[str, Any], about: About) -> str:
    """What was swept, in words."""
    axis, dtype = spec.get("axis"), about.dtype
    if spec.get("phase") == "toy":
        fixed = {
            "layers": f"{spec.get('layers') or _TOY['layers']} × (matmul, SiLU, add)",
            "width": f"of {spec.get('width') or _TOY['width']}²",
            "batch": f"batch {spec.get('batch', _TOY['batch'])}",
        }
        return f"the toy: {_joined(fixed, axis)}, {dtype}"
    what = "a prompt pass" if spec.get("phase") == "prefill" else "a decode step"
    fixed = {
        "batch": f"batch {spec.get('batch', 1)}",
        "context": f"context {spec.get('context', 128)}",
    }
    if spec.get("phase") == "prefill":
        fixed = {}
    for name in ("layers", "width"):
        if spec.get(name):
            fixed[name] = f"{name} {spec[name]}"
    on_device = about.device is not None
    fused = " with fused kernels" if on_device else " with joined projections"
    kernels = fused if spec.get("fused") else ""
    rest = _joined(fixed, axis)
    return f"{what} of the {spec.get('shape')} shape{kernels}{', ' if rest else ''}{rest}, {dtype}"


def _joined(fixed: Mapping[str, str], axis: object) -> str:
    return ", ".join(text for name, text in fixed.items() if name != axis)
