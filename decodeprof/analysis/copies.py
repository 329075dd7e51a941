"""Which copies cross between host and device in a step, from which memory, and did they wait?"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from decodeprof.analysis.nesting import Nesting
from decodeprof.analysis.sites import BlockingSite
from decodeprof.analysis.steps.found import Steps
from decodeprof.model.trace import I64, NONE, ActivityKind, Trace

TO_DEVICE, TO_HOST = "to device", "to host"
_TO_DEVICE = re.compile(r"\(\s*(?P<memory>pageable|pinned|host)\s*->\s*device", re.IGNORECASE)
_TO_HOST = re.compile(r"device\s*->\s*(?P<memory>pageable|pinned|host)\s*\)", re.IGNORECASE)


@dataclass(frozen=True)
class HostCopies:
    """Copies of one direction and kind of memory from one place; totals over the steps asked for.

    A copy belongs to a blocking site where the op that made it blocked there.
    """

    direction: str
    """TO_DEVICE or TO_HOST."""
    pageable: bool
    op: str | None
    site: int | None
    """Index of the blocking site; None: the host did not wait for it."""
    count: int
    bytes: int


def host_copies(
    trace: Trace, steps: Steps, *, rows: I64, nesting: Nesting, sites: list[BlockingSite]
) -> list[HostCopies]:
    """Copies between host and device in the given steps, the most frequent first.

    Args:
        trace: the trace.
        steps: its steps.
        rows: indices of the steps to cover.
        nesting: the trace's nesting.
        sites: the blocking sites of the same steps.
    """
    site_of_call = {row: at for at, site in enumerate(sites) for row in site.calls.tolist()}
    site_of_op = {
        int(nesting.innermost_op[row]): at
        for row, at in site_of_call.items()
        if nesting.innermost_op[row] != NONE
    }
    device = trace.device
    chosen = np.flatnonzero(
        (device.kind == ActivityKind.COPY)
        & np.isin(steps.activity_step, rows)
        & (device.call != NONE)
    )
    groups: dict[tuple[str, bool, str | None, int | None], list[int]] = defaultdict(list)
    for row in chosen.tolist():
        said = _said(trace.names[device.name[row]])
        if said is None:
            continue
        call = int(device.call[row])
        site = site_of_call.get(call, site_of_op.get(int(nesting.innermost_op[call])))
        groups[(*said, nesting.op_name(trace, call), site)].append(row)
    found = [
        HostCopies(
            direction=direction,
            pageable=pageable,
            op=op,
            site=site,
            count=len(members),
            bytes=int(np.maximum(device.bytes[members], 0).sum()),
        )
        for (direction, pageable, op, site), members in groups.items()
    ]
    return sorted(found, key=lambda c: (-c.count, c.direction, c.op or ""))


def _said(name: str) -> tuple[str, bool] | None:
    """Direction, and whether the host's memory is pageable; None: no host memory takes part."""
    for direction, pattern in ((TO_DEVICE, _TO_DEVICE), (TO_HOST, _TO_HOST)):
        found = pattern.search(name)
        if found:
            return direction, found["memory"].lower() == "pageable"
    return None
