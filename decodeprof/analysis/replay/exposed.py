"""What does each sync site really cost: what would removing it save?"""

from __future__ import annotations

import numpy as np

from decodeprof.analysis.replay.changes import without_waits
from decodeprof.analysis.replay.program import Program
from decodeprof.analysis.replay.run import replay
from decodeprof.analysis.replay.waits import WAIT
from decodeprof.model.trace import I64, NONE


def exposed_costs(program: Program, site_of_call: I64) -> dict[int, int]:
    """The saving per step, in ns, of removing each site's waits and nothing else.

    A wait whose time only moves to the next wait, or to the device, saves nothing: the figures do
    not add up, and the call's own duration says little.

    Args:
        program: the program, in the time that is wanted (`changes.scaled`).
        site_of_call: for each row of `Trace.calls` the number of its site; -1: none.
    """
    events = program.events
    site = np.where(events.call == NONE, NONE, site_of_call[events.call])
    waiting = site[(events.op == WAIT) & (site != NONE)]
    before = replay(program).period_ns
    costs: dict[int, int] = {}
    for number in np.unique(waiting).tolist():
        after = replay(without_waits(program, site == number)).period_ns
        costs[number] = max(round((before - after) / max(program.steps, 1)), 0)
    return costs
