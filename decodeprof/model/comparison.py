"""What changed between two diagnoses, per step; and did the first one's prediction come true?"""

from __future__ import annotations

from typing import Literal

import msgspec

from decodeprof.model.diagnosis import Range

Unit = Literal["ns", "count", "per_s"]

# Two runs of one program differ by this much anyway: host times repeat to a few percent at best,
# and a run as a whole may be slow in a way that its own samples, one after another, do not show.
REPEAT_SHARE = 0.05
# Medians further apart than this many standard errors of their difference differ by more than
# the chance of one pair in twenty.
STANDARD_ERRORS = 2.0


class Measure(msgspec.Struct, frozen=True, kw_only=True):
    """One figure of a step, before and after; null: not known on that side."""

    name: str
    unit: Unit
    before: float | None
    after: float | None
    spread_before: tuple[float, float] | None = None
    """p10 and p90, where single steps were timed."""
    spread_after: tuple[float, float] | None = None
    told_apart_ns: float | None = None
    """Two medians that are no further apart than this may differ by chance; null: not a median of
    samples, or how far its samples vary is not known."""
    alike: bool | None = None
    """The difference may be chance. Null: cannot be told, as how far single steps vary is not
    known, or not judged."""


class Prediction(msgspec.Struct, frozen=True, kw_only=True):
    """A change that the first diagnosis predicted and the second one measured."""

    change: str
    """cuda_graph | no_syncs | fusion | all: by name in `what_if`."""
    predicted_ns: Range
    measured_ns: int
    error_share: float
    """(predicted - measured) / measured."""
    in_profiled_time: bool
    """Both times are of profiled steps, which take longer than unprofiled ones."""
    in_range: bool
    by_chance: bool
    """Outside the range, and by no more than two medians may differ by chance."""


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """Two diagnoses, paired."""

    before: str
    after: str
    bound_before: str
    bound_after: str
    measures: list[Measure]
    gone: list[str]
    """Codes of findings that only the first one has."""
    came: list[str]
    stayed: list[str]
    untold: list[str] = []
    """Codes of findings of one, of which the other's recording could not tell."""
    prediction: Prediction | None
    why_no_prediction: str | None
    caveats: list[str]
    other_work: str | None = None
    """model | batch | device: what is known to differ, so that the times are of other work."""
    same_recording: bool = False
    """Both sides are of one recording, so that there is nothing to compare."""
