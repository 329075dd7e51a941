"""Do the sources that saw the same run agree, and where they do not, is the cause known?

Each detector sees less than all: sync-debug what torch's own operators wait for, gpu_trace what
torch waits for, torch.profiler the CUDA runtime and little of the driver, nsys both, and graphs
perhaps only as a whole. A difference has a cause here only where a count proves it; else it is
shown as unexplained.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from decodeprof import units

UNPROFILED, SYNC_DEBUG, GPU_TRACE = "unprofiled", "sync_debug", "gpu_trace"
TORCH, NSYS = "torch", "nsys"
SOURCES = (UNPROFILED, SYNC_DEBUG, GPU_TRACE, TORCH, NSYS)
"""In the order in which a table shows them: from what disturbs the run least."""
QUANTITIES = ("kernels", "launches", "graph_launches", "syncs", "busy_ns", "step_ns")

# Counts are exact, but passes of different lengths may hold one stop check more.
COUNT_SHARE = 0.01
# Kernel times of one program differ by a few percent from run to run: clocks, neighbours.
BUSY_SHARE = 0.05
# Host times repeat to a tenth.
STEP_SHARE = 0.10
_TOLERANCE = dict.fromkeys(QUANTITIES, COUNT_SHARE) | {"busy_ns": BUSY_SHARE, "step_ns": STEP_SHARE}


@dataclass(frozen=True)
class Witness:
    """What one source says of a steady decode step; None: it cannot see that."""

    source: str
    values: Mapping[str, float | None]
    """By quantity."""
    sync_calls: Mapping[str, float] = field(default_factory=dict)
    """Blocking API calls per step by name."""
    sync_places: Mapping[str, float] = field(default_factory=dict)
    """Waits per step by ``file:line``."""
    unlinked: int = 0
    """Device activities whose launch was not recorded, in the whole trace."""
    steps: int = 0
    """Steps that the values are means over."""
    whole_graphs: bool = False
    """Graph launches were recorded as a whole."""


@dataclass(frozen=True)
class Comparison:
    """One quantity, side by side."""

    quantity: str
    values: dict[str, float | None]
    agrees: bool | None
    """None: fewer than two sources can see it."""
    explanation: str | None
    """Why they differ, or why one is silent; None: they agree, or it is not known."""


def compare(witnesses: Sequence[Witness]) -> list[Comparison]:
    """Set the sources side by side, quantity by quantity; empty where fewer than two exist."""
    by_source = {each.source: each for each in witnesses}
    if len(by_source.keys() - {UNPROFILED}) < 2:
        return []
    rows = [_row(quantity, by_source) for quantity in QUANTITIES]
    return [row for row in rows if any(value is not None for value in row.values.values())]


def _row(quantity: str, by_source: Mapping[str, Witness]) -> Comparison:
    values = {
        source: by_source[source].values.get(quantity) for source in SOURCES if source in by_source
    }
    told = [value for value in values.values() if value is not None]
    agrees = None if len(told) < 2 else close(min(told), max(told), _TOLERANCE[quantity])
    silent = _silent(quantity, by_source)
    explanation = silent if agrees is not False else _explained(quantity, by_source) or silent
    return Comparison(quantity, values, agrees, explanation)


def close(a: float, b: float, share: float) -> bool:
    """Whether two figures differ by no more than a share of the larger."""
    return abs(a - b) <= share * max(abs(a), abs(b))


def _silent(quantity: str, by_source: Mapping[str, Witness]) -> str | None:
    nsys = by_source.get(NSYS)
    if quantity == "kernels" and nsys is not None and nsys.whole_graphs:
        return "nsys recorded graphs as a whole: how many kernels ran inside is not known to it"
    return None


def _explained(quantity: str, by_source: Mapping[str, Witness]) -> str | None:
    if quantity == "syncs":
        return _explained_syncs(by_source)
    torch, nsys = by_source.get(TORCH), by_source.get(NSYS)
    if quantity == "step_ns":
        return _explained_step(by_source)
    if torch is None or nsys is None:
        return None
    if quantity == "busy_ns" and nsys.whole_graphs:
        return "nsys counts a graph as busy from its first node to its last, gaps included"
    if quantity in ("kernels", "launches"):
        return _explained_by_start(quantity, torch, nsys)
    return None


def _explained_step(by_source: Mapping[str, Witness]) -> str | None:
    steps = {source: each.values.get("step_ns") for source, each in by_source.items()}
    unprofiled = steps.pop(UNPROFILED, None)
    if unprofiled is None:
        return _same_work(by_source.get(TORCH), by_source.get(NSYS))
    profiled = [step for step in steps.values() if step is not None]
    # A profiler makes nothing faster: then something else changed between the runs.
    if min(profiled, default=0) < (1 - STEP_SHARE) * unprofiled:
        return None
    return "profilers slow the host, each by its own amount: the unprofiled time is the true one"


def _same_work(torch: Witness | None, nsys: Witness | None) -> str | None:
    """Two profiled steps of different length with the same busy time differ by the host alone."""
    if torch is None or nsys is None:
        return None
    a, b = torch.values.get("busy_ns"), nsys.values.get("busy_ns")
    if a is None or b is None or not close(a, b, BUSY_SHARE):
        return None
    return "the device is busy as long in both: they slow the host by different amounts"


def _explained_by_start(quantity: str, torch: Witness, nsys: Witness) -> str | None:
    a, b = torch.values.get(quantity), nsys.values.get(quantity)
    if a is None or b is None:
        return None
    fewer = torch if a < b else nsys
    if 0 < abs(a - b) * max(fewer.steps, 1) <= fewer.unlinked:
        inside = f"in the {_NAMES[fewer.source]} trace"
        found = units.counted(
            fewer.unlinked, f"device activity {inside} has", f"device activities {inside} have"
        )
        belong = "it belongs" if fewer.unlinked == 1 else "they belong"
        return f"{found} no launch (made before it started), so {belong} to no step"
    return None


def _explained_syncs(by_source: Mapping[str, Witness]) -> str | None:
    """Every difference must have its cause; one that has none leaves the row unexplained."""
    causes = []
    for fewer, more, cause in (
        (SYNC_DEBUG, GPU_TRACE, _explicit_syncs),
        (GPU_TRACE, TORCH, _without_hook),
        (TORCH, NSYS, _driver_calls),
    ):
        low, high = by_source.get(fewer), by_source.get(more)
        if low is None or high is None:
            continue
        a, b = low.values.get("syncs"), high.values.get("syncs")
        if a is None or b is None or close(a, b, COUNT_SHARE):
            continue
        found = cause(low, high, b - a)
        if found is None:
            return None
        causes.append(found)
    return "; ".join(causes) or None


def _explicit_syncs(low: Witness, high: Witness, more: float) -> str | None:
    places = {place: n for place, n in high.sync_places.items() if not low.sync_places.get(place)}
    if not places or not close(sum(places.values()), more, COUNT_SHARE):
        return None
    return (
        "sync-debug warns of waits inside torch's operators alone, not of those that are asked "
        f"for: {', '.join(sorted(places))}"
    )


def _without_hook(low: Witness, high: Witness, more: float) -> str | None:
    del low
    copies = {n: c for n, c in high.sync_calls.items() if "Memcpy" in n}
    if not copies or not close(sum(copies.values()), more, COUNT_SHARE):
        return None
    return f"{', '.join(sorted(copies))} blocks without asking torch, so gpu_trace hears nothing"


def _driver_calls(low: Witness, high: Witness, more: float) -> str | None:
    calls = {
        name: count - low.sync_calls.get(name, 0)
        for name, count in high.sync_calls.items()
        if name.startswith("cu") and not name.startswith("cuda")
    }
    calls = {name: count for name, count in calls.items() if count > 0}
    if not calls or not close(sum(calls.values()), more, COUNT_SHARE):
        return None
    return f"torch.profiler does not record calls of the driver: {', '.join(sorted(calls))}"


_NAMES = {TORCH: "torch.profiler", NSYS: "nsys"}
