"""Where on the timeline can a finding be seen? At a call, a kernel or a chain that it speaks of."""

from __future__ import annotations

import re

import numpy as np

from decodeprof import units
from decodeprof.diagnosis.charts.window import Window
from decodeprof.diagnosis.evidence import Evidence
from decodeprof.model.charts import Place
from decodeprof.model.diagnosis import Diagnosis, Finding
from decodeprof.model.families import family
from decodeprof.model.trace import I64, NONE

_LITERAL = re.compile(r"`([^`]+)`")
_SMALL = frozenset({"elementwise", "reduction", "norm", "softmax", "concatenate", "copy"})
_LAUNCH_CODES = frozenset({"graph-missing"})
LAUNCHES_SHOWN = 12
_SMALL_CODES = frozenset({"small-kernels"})


def places(evidence: Evidence, diagnosis: Diagnosis, window: Window) -> dict[str, Place]:
    """A place for each finding that speaks of something in the window."""
    found: dict[str, Place] = {}
    for finding in diagnosis.findings:
        place = (
            _of_launches(evidence, finding, window)
            or _of_site(evidence, finding, window)
            or _of_chain(evidence, finding, window)
            or _of_name(evidence, finding, window)
        )
        if place is not None:
            found[finding.code] = place
    return found


def _of_launches(evidence: Evidence, finding: Finding, window: Window) -> Place | None:
    """A few launches in a row, for what is about launching."""
    if finding.code not in _LAUNCH_CODES:
        return None
    rows = _activities(evidence, window)[:LAUNCHES_SHOWN]
    if len(rows) < 2:
        return None
    table = evidence.trace.device
    label = units.counted(len(rows), "activity", "activities") + ", each launched by itself"
    return _place(window, int(table.start_ns[rows[0]]), int(table.end_ns[rows[-1]]), label)


def _of_site(evidence: Evidence, finding: Finding, window: Window) -> Place | None:
    """The first call in the window that was made on one of the finding's lines."""
    calls = evidence.trace.calls
    for where in finding.where:
        for site in (*evidence.decode_sites, *evidence.prefill_sites):
            if site.place is None or (site.place.file, site.place.line) != (where.file, where.line):
                continue
            rows = site.calls
            inside = rows[
                (calls.start_ns[rows] >= window.start_ns) & (calls.end_ns[rows] <= window.end_ns)
            ]
            if len(inside):
                row = int(inside[0])
                return _place(
                    window,
                    int(calls.start_ns[row]),
                    int(calls.end_ns[row]),
                    f"{evidence.trace.names[calls.name[row]]} at {where.file}:{where.line}",
                )
    return None


def _of_chain(evidence: Evidence, finding: Finding, window: Window) -> Place | None:
    """The longest run of small kernels between larger ones."""
    if finding.code not in _SMALL_CODES:
        return None
    rows = _activities(evidence, window)
    table, names = evidence.trace.device, evidence.trace.names
    best, begin = (0, 0), None
    for at, row in enumerate([*rows.tolist(), NONE]):
        small = row != NONE and family(names[table.name[row]]) in _SMALL
        if small and begin is None:
            begin = at
        elif not small and begin is not None:
            best = max(best, (begin, at), key=lambda run: run[1] - run[0])
            begin = None
    first, last = best
    if last - first < 2:
        return None
    return _place(
        window,
        int(table.start_ns[rows[first]]),
        int(table.end_ns[rows[last - 1]]),
        units.counted(last - first, "small kernel") + " in a row",
    )


def _of_name(evidence: Evidence, finding: Finding, window: Window) -> Place | None:
    """The first activity, or op, that the finding names in backticks."""
    literals = [name for fact in finding.evidence for name in _LITERAL.findall(fact.text)]
    if not literals:
        return None
    trace = evidence.trace
    rows = _activities(evidence, window)
    for literal in literals:
        wanted = [i for i, name in enumerate(trace.names) if literal in name]
        mine = rows[np.isin(trace.device.name[rows], wanted)]
        if len(mine):
            row = int(mine[0])
            start, end = int(trace.device.start_ns[row]), int(trace.device.end_ns[row])
            return _place(window, start, end, literal)
        ops = np.flatnonzero(
            np.isin(trace.ops.name, wanted)
            & (trace.ops.start_ns >= window.start_ns)
            & (trace.ops.end_ns <= window.end_ns)
        )
        if len(ops):
            op = int(ops[0])
            start, end = int(trace.ops.start_ns[op]), int(trace.ops.end_ns[op])
            return _place(window, start, end, literal)
    return None


def _activities(evidence: Evidence, window: Window) -> I64:
    table = evidence.trace.device
    inside = (
        (table.device == window.device)
        & (table.start_ns >= window.start_ns)
        & (table.end_ns <= window.end_ns)
    )
    return np.flatnonzero(inside).astype(np.int64)


def _place(window: Window, start: int, end: int, label: str) -> Place:
    return Place(start_ns=start - window.start_ns, end_ns=end - window.start_ns, label=label)
