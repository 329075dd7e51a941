"""Where are a step's kernels launched from: which source line where frames were recorded, or op?"""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from decodeprof.analysis.traffic.columns import KernelTraffic
from decodeprof.analysis.traffic.rates import rows_of_steps
from decodeprof.diagnosis.evidence import Evidence
from decodeprof.model.charts import CallSite
from decodeprof.model.trace import I32, I64, NONE, Trace

MOST_SITES = 40
"""Sites that are kept, by time: what is below takes a per mille of a step each."""
_DIFFERENT = "shapes differ between steps"
NS_PER_S = 1_000_000_000


def call_sites(evidence: Evidence) -> list[CallSite]:
    """Device activities of a step grouped by what launched them, the most time first.

    Empty where no launch is known. What a graph launched is one site: its nodes have no call of
    their own.
    """
    figures = evidence.decode or evidence.prefill
    if figures is None or evidence.traffic is None or "calls" not in evidence.trace.captured:
        return []
    rows = rows_of_steps(evidence.steps, figures.rows)
    n = len(figures.rows)
    groups: dict[tuple[str, str], list[int]] = defaultdict(list)
    known: dict[int, tuple[str, str]] = {}
    for row in rows.tolist():
        call = int(evidence.trace.device.call[row])
        if call not in known:
            known[call] = _site(evidence, call)
        groups[known[call]].append(row)
    groups = _of_every_step(groups, steps=evidence.steps.activity_step, n=n)
    sites = [
        _summed(evidence.trace, evidence.traffic, key, np.array(members, np.int64), n)
        for key, members in groups.items()
    ]
    return sorted(sites, key=lambda s: (-s.time_ns, s.where, s.shapes))[:MOST_SITES]


def _of_every_step(
    groups: dict[tuple[str, str], list[int]], *, steps: I32, n: int
) -> dict[tuple[str, str], list[int]]:
    """Groups that some step has no member of as one: their shapes grow from step to step."""
    found: dict[tuple[str, str], list[int]] = defaultdict(list)
    for (where, shapes), members in groups.items():
        everywhere = len(set(steps[members].tolist())) == n
        found[where, shapes if everywhere or not shapes else _DIFFERENT].extend(members)
    return found


def _site(evidence: Evidence, call: int) -> tuple[str, str]:
    trace = evidence.trace
    if call == NONE:
        return "no launch recorded", ""
    frame = next(
        (name for name in evidence.nesting.frames(trace, call) if _is_users(name)),
        None,
    )
    op = int(evidence.nesting.outermost_op[call])
    named = trace.names[trace.ops.name[op]] if op != NONE else trace.names[trace.calls.name[call]]
    where = f"{named}, {frame}" if frame else named
    detail = int(trace.ops.detail[op]) if op != NONE else NONE
    if detail == NONE:
        return where, ""
    shapes = [list(shape) for shape in trace.op_details[detail].shapes if shape]
    return where, " × ".join(map(str, shapes))


def _is_users(frame: str) -> bool:
    """Whether a frame is a Python file's and not torch's own."""
    slashed = frame.replace("\\", "/")
    return ".py(" in slashed and "torch/" not in slashed and not slashed.startswith("<")


def _summed(
    trace: Trace, traffic: KernelTraffic, key: tuple[str, str], rows: I64, n: int
) -> CallSite:
    time = int((trace.device.end_ns[rows] - trace.device.start_ns[rows]).sum())
    size = int(traffic.bytes[rows].sum()) if bool(traffic.known[rows].all()) else None
    return CallSite(
        where=key[0],
        shapes=key[1],
        count=len(rows) / n,
        time_ns=round(time / n),
        bytes=None if size is None else round(size / n),
        achieved_bytes_per_s=size * NS_PER_S / time if size and time else None,
    )
