"""What does a capture that was tried say of the changes that replay predicts?"""

from __future__ import annotations

import msgspec
import numpy as np

from decodeprof import units
from decodeprof.analysis.replay.program import Program
from decodeprof.analysis.replay.what_if import events_of_sites
from decodeprof.diagnosis.evidence import Evidence
from decodeprof.model.diagnosis import Range, WhatIf, WhatIfs
from decodeprof.model.graph_check import GraphCheck
from decodeprof.model.trace import I64, Bool
from decodeprof.recording import Recording


def with_measured(told: WhatIfs, recording: Recording | None) -> WhatIfs:
    """The what-ifs, the graph's as it was measured where the step was captured and timed."""
    check = recording.graph_check if recording is not None else None
    measured = None if check is None else _measured(check)
    return told if measured is None else msgspec.structs.replace(told, cuda_graph=measured)


def _measured(check: GraphCheck) -> WhatIf | None:
    # Buckets are other shapes than the one that was recorded.
    given = next((each for each in check.attempts if not each.bucket), None)
    if given is None or not given.matches or given.after is None:
        return None
    after = given.after
    return WhatIf(
        step_ns=Range(low=after.p10_ns, expected=after.median_ns, high=after.p90_ns),
        in_profiled_time=False,
        assumes=(
            f"`{check.step}` was captured and replayed in the loop, "
            f"{units.counted(after.n, 'step')}; the loop's other code is as it was."
        ),
        measured=True,
    )


def cannot_capture(evidence: Evidence, program: Program, site_of_call: I64) -> Bool | None:
    """For each event whether it is a wait at a line that no graph can hold; None: none is known.

    Args:
        evidence: the analysis, its recording perhaps with a capture that was tried.
        program: the step.
        site_of_call: for each runtime call, its index into the evidence's decode sites.
    """
    check = evidence.recording.graph_check if evidence.recording is not None else None
    if check is None:
        return None
    refusals = (check.refusal, check.whole_step_refusal)
    places = [
        *(each.stopped_at for each in check.segments),
        *(each.error.place for each in refusals if each is not None),
    ]
    lines = {(place.file, place.line) for place in places if place is not None}
    wanted = {
        index
        for index, site in enumerate(evidence.decode_sites)
        if site.place is not None and (site.place.file, site.place.line) in lines
    }
    if not wanted:
        return None
    found = events_of_sites(program, site_of_call, wanted)
    return np.asarray(found) if found.any() else None
