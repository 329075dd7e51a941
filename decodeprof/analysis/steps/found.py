"""What are the steps of a trace? The table that all per-step figures are computed from."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from decodeprof.analysis.grouping import rows_by_value
from decodeprof.analysis.steps.cuts import Method, Period, Phase
from decodeprof.model.trace import I32, I64, Bool


@dataclass(frozen=True)
class Steps:
    """Steps in order of time. Columns of steps are row-aligned; times in ns, -1 for none."""

    method: Method
    text: str
    phases: tuple[Phase, ...]
    query_lengths: tuple[int | None, ...]
    host_start_ns: I64
    host_end_ns: I64
    device_start_ns: I64
    """First activity's start; windows tile the timeline. -1: nothing ran."""
    device_end_ns: I64
    """The next step's first activity's start; for the last step its own last activity's end."""
    steady: Bool
    measured: Bool
    """False: the recording holds only part of it, so its times say nothing."""
    reasons: tuple[str | None, ...]
    """Why a step is not steady."""
    activity_step: I32
    """For each row of `Trace.device` its step; -1: none."""
    call_step: I32
    """For each row of `Trace.calls` its step; -1: none."""
    left_out: tuple[str, ...]
    period: Period | None = None
    single: bool = False

    @property
    def count(self) -> int:
        """Number of steps."""
        return len(self.phases)

    def rows(self, phase: Phase) -> I64:
        """Indices of the steps of one phase."""
        return np.array([i for i, p in enumerate(self.phases) if p == phase], np.int64)

    @cached_property
    def window_ns(self) -> I64:
        """Length of each step's device window; -1 where nothing ran."""
        known = self.device_start_ns >= 0
        return np.where(known, self.device_end_ns - self.device_start_ns, -1)

    def activities(self, step: int) -> I64:
        """Rows of `Trace.device` that belong to a step, ascending."""
        return self._activities.get(step, np.empty(0, np.int64))

    @cached_property
    def _activities(self) -> dict[int, I64]:
        return rows_by_value(self.activity_step)

    def decode(self) -> I64:
        """The decode steps to take figures from: steady ones, else whatever was measured."""
        rows = self.rows("decode")
        steady = rows[self.steady[rows]]
        return steady if len(steady) else rows[self.measured[rows]]
