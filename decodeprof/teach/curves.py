"""Which measurements stand beside the page's model?"""

from __future__ import annotations

import msgspec

from decodeprof.teach.templates import read

CURVES_FILE = "curves.json"
"""Made from the recordings in `fixtures/` by ``tests/teach/make_curves.py``."""


class MeasuredPoint(msgspec.Struct, frozen=True, kw_only=True):
    """Step times at one batch size, without a profiler; null: not measured."""

    batch: int
    eager_ns: int | None = None
    graph_ns: int | None = None
    slow_host: bool = False
    """The eager step waited for a host that was slower than at most other points."""


class MeasuredCurve(msgspec.Struct, frozen=True, kw_only=True):
    """Steps of one model over batch sizes, and the settings of the page's model that are its."""

    name: str
    source: str
    """What was measured, and on what."""
    settings: dict[str, int | bool | str]
    """Every one that `Settings` has; batch: of the first point."""
    points: list[MeasuredPoint]


def packaged_curves() -> list[MeasuredCurve]:
    """The measurements that ship with the page."""
    return msgspec.json.decode(read(CURVES_FILE), type=list[MeasuredCurve])
