"""A sweep along one axis, as measured and as judged: what its JSON holds.

Times are integer nanoseconds; what is unknown is null, never 0.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from decodeprof.model.diagnosis import Range


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """One point as measured, nothing derived."""

    value: int
    """Where it stands on the axis."""
    eager_ns: list[int] = []
    """Step times without a profiler, launched kernel by kernel; each a mean over several steps."""
    graph_ns: list[int] = []
    """The same as one graph launch a step."""
    eager_range_ns: tuple[int, int] | None = None
    """p10 and p90 of single eager steps, where `eager_ns` holds their median alone."""
    tokens: float | None = None
    """Real tokens of a step, padding is none: that a prompt pass takes in, that a decode step
    makes; of a target that makes several a step, their mean."""
    bytes: int | None = None
    """What a step must read at least: weights once, and the valid keys and values, or the rows
    that go into the toy."""
    flops: int | None = None
    """Multiply-adds counted as two."""
    activities: float | None = None
    """Kernels, copies and sets of an eager step."""
    kernels: float | None = None
    busy_ns: int | None = None
    """Device busy in an eager step, from a profile."""
    graph_busy_ns: int | None = None
    """Device busy in a graph's step, from a profile."""
    graph_activities: float | None = None
    tklqt_ns: int | None = None
    """Kernel start − start of its launch call, summed over an eager step's kernels."""
    launch_ns: int | None = None
    """Host time of one tiny launch beside this point: tells the host's drift."""
    node_ns: int | None = None
    """Time of a node of always the same graph beside this point: tells the device's clocks."""
    host_ns: int | None = None
    """Host work of a step, where it was measured by itself."""
    device_ns: int | None = None
    """What stands in for the device floor where no profile counted the point."""
    predicted_graph_ns: int | None = None
    """What replay says a graph would take, where none was run."""
    failed: str | None = None
    """Why there is no point here."""


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """One point, judged."""

    value: int
    eager_ns: int | None
    """Median of the samples; of p10 and p90 each is a sample, of at most ten the lowest and the
    highest. A sample is a mean over several steps, of a user's target a single step."""
    eager_p10_ns: int | None = None
    eager_p90_ns: int | None = None
    graph_ns: int | None
    graph_p10_ns: int | None = None
    graph_p90_ns: int | None = None
    predicted_graph_ns: int | None
    kernels: float | None
    busy_ns: int | None
    graph_busy_ns: int | None
    tklqt_ns: int | None
    host_ns: int | None
    """The host floor: what launching the step takes on this host."""
    device_ns: int | None
    """The device floor: busy + node gaps; the graph's step where no profile counted the point."""
    bytes_ns: int | None
    """Bytes ÷ the bandwidth measured."""
    flops_ns: int | None
    """FLOPs ÷ the arithmetic rate measured."""
    exposed_launch_share: float | None
    """Of the eager step: what is left when the device floor is taken away."""
    mbu_share: float | None
    """Bytes ÷ the faster of the two step times ÷ the bandwidth measured."""
    mfu_share: float | None
    """FLOPs ÷ the faster of the two step times ÷ the arithmetic rate measured."""
    graph_gain: float | None
    """Eager step ÷ graph step."""
    tokens_per_s: float | None
    """Of the faster of the two."""
    failed: str | None


Answer = Literal["at", "none", "before", "unknown"]


class Crossing(msgspec.Struct, frozen=True, kw_only=True):
    """Where one curve meets another; "none" up to the last point is an answer, too."""

    kind: Literal["floors", "plateau", "roof", "graph_gain"]
    answer: Answer
    """at: within the sweep; none: not up to the last point; before: passed at the first point."""
    at: float | None = None
    low: float | None = None
    high: float | None = None
    """Its interval: the host's own spread, and the points that enclose it where that is less."""
    between: tuple[int, int] | None = None
    """The points on either side of it; for "none" and "before" the last or first one twice."""
    stand_in_ns: int | None = None
    """Of the plateau: what stands in for the eager step at the point before, where the measured one
    does not lie on a straight line to the point after. Null: the measured step was taken."""
    reason: str = ""
    """Why it is unknown."""


class Prediction(msgspec.Struct, frozen=True, kw_only=True):
    """The crossing of the floors as foreseen from the first point alone."""

    method: Literal["replay", "floors"] = "floors"
    """replay: its recorded step, replayed with kernels that grow; floors: its device floor, and
    what the others must read and compute beyond it."""
    at: float | None
    """Null: it cannot be foreseen, or lies beyond the last point; `reason` tells which."""
    error_share: float | None
    """(foreseen − measured) ÷ measured; null where one of them is unknown."""
    steady_at: float | None = None
    """The same with the host's time that all launch-bound points show, in place of the first
    point's own: how far the device alone was foreseen. Null as for `at`."""
    steady_error_share: float | None = None
    first_host_share: float | None = None
    """By how much the first point's host took longer than that, − 1."""
    plateau_at: float | None = None
    """By replay: where the eager step leaves its plateau; null as for `at`."""
    plateau_error_share: float | None = None
    device_ns: list[int] = []
    """The device floor foreseen at each point that did not fail."""
    eager_ns: list[int] = []
    """By replay: the eager step foreseen at each of them."""
    reason: str = ""


class BucketPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What padding a live batch up to the next bucket costs."""

    name: str
    buckets: list[int]
    time_share: float | None
    """Device time spent beyond that of the live sizes themselves, over all of it."""
    rows_share: float
    """Padded rows ÷ all rows that run."""
    step_ns: int | None
    """Mean step over the histogram."""


class Sweep(msgspec.Struct, frozen=True, kw_only=True):
    """A whole sweep."""

    subject: str
    """What was swept, in words: "a decode step of the 0.6b shape"."""
    axis: str
    device: str | None
    """Null: a CPU."""
    torch: str
    node_gap_ns: int | None
    bandwidth_bytes_per_s: float | None
    flops_per_s: float | None
    launch_cost_ns: Range | None
    """Host time of a step for each of its activities, over the points that are launch-bound."""
    drift_share: float | None
    """First point again at the end ÷ at the begin, − 1: how far the host's speed moved."""
    today: int
    """The value at which the reader's workload stands."""
    points: list[Point]
    crossings: list[Crossing]
    sentence: str
    """Which side today is on, and where the crossing lies."""
    prediction: Prediction | None = None
    plans: list[BucketPlan] = []
    caveats: list[str] = []
