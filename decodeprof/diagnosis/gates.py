"""What keeps a rule from looking? In the same words for every rule: a report says it once."""

from __future__ import annotations

from decodeprof.diagnosis.judging import Case, CouldNotTell

_TABLES = {
    "device": "device activity",
    "calls": "API calls",
    "ops": "framework operators",
    "shapes": "the shapes that operators were called with",
    "frames": "Python frames",
}
RECORD = "record the loop with `decodeprof diagnose` on a machine with a GPU"
PROFILE = (
    "record with `decodeprof diagnose`, or profile with CPU and CUDA activities and "
    "record_shapes=True"
)


def unable(case: Case, *tables: str) -> CouldNotTell | None:
    """Why nothing can be said of the decode steps; None where it can.

    Args:
        case: the case.
        tables: the tables of the trace that the rule reads.
    """
    missing = no_device(case) or not_captured(case, *tables)
    if missing is not None:
        return missing
    if case.evidence.decode is None:
        return CouldNotTell(
            reason="no decode step was found",
            capture="record with `decodeprof diagnose`, or mark the steps with `decodeprof.step()`",
        )
    return None


def no_device(case: Case) -> CouldNotTell | None:
    """Whether nothing ran on a device."""
    recording = case.evidence.recording
    if recording is not None and recording.device is None:
        return CouldNotTell(reason="no GPU was used", capture=RECORD)
    if case.evidence.device is None:
        return CouldNotTell(reason="the trace holds no device activity", capture=RECORD)
    return None


def not_captured(case: Case, *tables: str) -> CouldNotTell | None:
    """Whether one of the tables could not be filled."""
    for table in tables:
        if not case.captured(table):
            return CouldNotTell(
                reason=f"the capture does not hold {_TABLES[table]}", capture=PROFILE
            )
    return None


def withheld(case: Case) -> CouldNotTell | None:
    """Whether replay said nothing; None where it did."""
    if case.predicted.outcomes is not None:
        return None
    return CouldNotTell(
        reason=case.predicted.withheld or "the step was not replayed",
        capture="record again with `decodeprof diagnose`, with more new tokens",
    )
