"""How well does replay reproduce the recording it was built from?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from decodeprof.analysis.replay.build import Source, build_program
from decodeprof.analysis.replay.run import NEVER_NS, play_once, step_starts
from decodeprof.model.trace import I64, NONE

# Above this the model does not describe the recording, and predictions made with it are withheld.
WITHHOLD_ABOVE_SHARE = 0.05


@dataclass(frozen=True)
class Reproduction:
    """Unscaled replay of a whole recording, with modelled latencies, against its device times."""

    error_share: float
    """The larger of the whole span's error and the steps' mean error; what a report states."""
    span_share: float
    """(replayed - recorded) / recorded device span."""
    steps: I64
    """Indices of the steps compared."""
    step_shares: np.ndarray[tuple[int], np.dtype[np.float64]]
    """(replayed - recorded) / recorded, for each of those steps' device windows."""


def reproduce(source: Source) -> Reproduction | None:
    """Replay a whole recording once and compare; None where nothing was launched.

    The steps compared are the decode steps that were measured, steady or not: no modelled number
    enters a comparison twice, and a step with one-off work must come out right as well.
    """
    program = build_program(source)
    if not program.activities:
        return None
    run = play_once(program)
    launched = program.events.is_launch & (program.events.count > 0)
    replayed = int(run.end_ns[launched].max() - run.start_ns[launched].min())
    table = source.trace.device
    mine = (table.device == source.device) & (table.call != NONE)
    recorded = int(table.end_ns[mine].max() - table.start_ns[mine].min())
    span = (replayed - recorded) / max(recorded, 1)
    steps = source.steps
    rows = steps.rows("decode")
    rows = rows[steps.measured[rows]]
    shares = np.empty(0)
    if len(rows):
        begins = step_starts(program, run)
        known = np.flatnonzero(begins != NEVER_NS)
        ends = np.full(len(begins), NEVER_NS)
        last = int(run.end_ns[launched & (program.events.step == known[-1])].max())
        ends[known] = np.r_[begins[known][1:], last]
        window = steps.window_ns[rows]
        shares = ((ends - begins)[rows] - window) / np.maximum(window, 1)
    error = max(abs(span), float(np.abs(shares).mean()) if len(shares) else 0.0)
    return Reproduction(error_share=error, span_share=span, steps=rows, step_shares=shares)
