"""Which rows of a trace belong to the steps that were asked for?"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from decodeprof import units
from decodeprof.analysis.steps.found import Steps
from decodeprof.diagnosis.evidence import Evidence
from decodeprof.errors import DecodeprofError, UsageError
from decodeprof.model.trace import I32, I64

_STEPS = re.compile(r"(\d*):(\d*)")


@dataclass(frozen=True)
class Window:
    """Rows of a trace's tables, in their order, and the steps that they are of."""

    steps: range
    device: I64
    calls: I64
    ops: I64
    annotations: I64
    frames: I64
    gaps: I64
    """Rows of `Gaps`."""


def parse_steps(text: str) -> tuple[int | None, int | None]:
    """Read ``a:b`` as Python reads a slice: from step a up to, and without, step b.

    Raises:
        UsageError: it is not of that form, or names no step.
    """
    found = _STEPS.fullmatch(text)
    first, last = (int(part) if part else None for part in (found.groups() if found else ("", "")))
    if found is None or (last is not None and last <= (first or 0)):
        raise UsageError(
            f"`{text}` names no steps",
            why="" if found is None else "the second number is not larger than the first",
            hint="write `--steps 3:6` for the steps 3, 4 and 5; the first step is 0",
        )
    return first, last


def window_of(evidence: Evidence, asked: tuple[int | None, int | None] | None = None) -> Window:
    """The rows of the given steps, or of the whole trace.

    A device activity belongs to the step in which it was launched, a call to that in which it was
    made; what else a host thread did is taken where it began within the steps.

    Args:
        evidence: the trace, with its steps.
        asked: first step and the one after the last; None: from the first, up to the last.

    Raises:
        DecodeprofError: the trace has no such steps.
    """
    trace, steps = evidence.trace, evidence.steps
    gaps = len(evidence.gaps) if evidence.gaps is not None else 0
    if asked is None:
        return Window(
            steps=range(steps.count),
            device=_all(len(trace.device)),
            calls=_all(len(trace.calls)),
            ops=_all(len(trace.ops)),
            annotations=_all(len(trace.annotations)),
            frames=_all(len(trace.frames)),
            gaps=_all(gaps),
        )
    chosen = _chosen(steps, asked, name=trace.name)
    start_ns = int(steps.host_start_ns[chosen[0]])
    end_ns = int(steps.host_end_ns[chosen[-1]])
    return Window(
        steps=chosen,
        device=_of_steps(steps.activity_step, chosen),
        calls=_of_steps(steps.call_step, chosen),
        ops=_begun(trace.ops.start_ns, start_ns, end_ns),
        annotations=_begun(trace.annotations.start_ns, start_ns, end_ns),
        frames=_begun(trace.frames.start_ns, start_ns, end_ns),
        gaps=_gaps_of(evidence, chosen),
    )


def _chosen(steps: Steps, asked: tuple[int | None, int | None], *, name: str) -> range:
    chosen = range(steps.count)[slice(*asked)]
    if not len(chosen):
        have = (
            f"it has {units.counted(steps.count, 'step')}: 0 to {steps.count - 1}"
            if steps.count
            else "no steps were found in it"
        )
        raise DecodeprofError(
            f"`{name}` has no such steps",
            why=have,
            hint="leave `--steps` away for all of it",
        )
    return chosen


def _gaps_of(evidence: Evidence, chosen: range) -> I64:
    gaps, steps = evidence.gaps, evidence.steps
    ran = [i for i in chosen if steps.device_start_ns[i] >= 0]
    if gaps is None or not ran:
        return _all(0)
    after = gaps.start_ns >= steps.device_start_ns[ran[0]]
    return np.flatnonzero(after & (gaps.end_ns <= steps.device_end_ns[ran[-1]])).astype(np.int64)


def _of_steps(step: I32, chosen: range) -> I64:
    return np.flatnonzero((step >= chosen[0]) & (step <= chosen[-1])).astype(np.int64)


def _begun(start_ns: I64, first_ns: int, end_ns: int) -> I64:
    return np.flatnonzero((start_ns >= first_ns) & (start_ns < end_ns)).astype(np.int64)


def _all(rows: int) -> I64:
    return np.arange(rows, dtype=np.int64)
