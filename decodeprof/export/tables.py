"""What was found, as tidy tables for pandas and whatever reads what pandas writes.

One row is one thing, one column one quantity, with its unit in its name. Times are integer ns.
What is unknown is missing (`pandas.NA`), never 0. pandas is imported when a table is made.
"""

from __future__ import annotations

import typing
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields

import numpy as np

from decodeprof.analysis.gaps import Gaps
from decodeprof.analysis.steps.found import Steps
from decodeprof.diagnosis.evidence import Evidence
from decodeprof.errors import DecodeprofError
from decodeprof.model.diagnosis import IDLE_CAUSES, Diagnosis, Range
from decodeprof.model.trace import I64, NONE, Trace

if typing.TYPE_CHECKING:
    import pandas as pd

_INTEGER, _REAL, _TEXT, _TRUTH = "Int64", "Float64", "string", "boolean"


@dataclass(frozen=True)
class Tables:
    """The tables of one diagnosis.

    `gaps` is None where it is not known when a device was idle: a diagnosis that was read from
    JSON has no trace, and a CPU run no device.
    """

    steps: pd.DataFrame
    """One row a step, with its counts, and its idle time by cause where gaps are known."""
    gaps: pd.DataFrame | None
    """One row a stretch in which the device ran nothing; its causes sum to its length."""
    syncs: pd.DataFrame
    """One row a place that blocks the host; figures per step of its phase."""
    kernels: pd.DataFrame
    """One row a kernel name in the decode steps, the most time first; at most 400 names."""
    what_ifs: pd.DataFrame
    """One row a change that was replayed, with the step that it would give."""
    findings: pd.DataFrame
    """One row a finding, the largest saving first, with its first source line."""

    def named(self) -> Iterator[tuple[str, pd.DataFrame]]:
        """Name and table of each that is known."""
        for field in fields(self):
            frame = getattr(self, field.name)
            if frame is not None:
                yield field.name, frame


TABLE_NAMES = tuple(field.name for field in fields(Tables))


@dataclass(frozen=True)
class Idle:
    """When a device was idle, for the table of gaps."""

    trace: Trace
    steps: Steps
    gaps: Gaps
    device: int


def idle_of(evidence: Evidence) -> Idle | None:
    """When the device of the figures was idle; None: nothing ran on any."""
    if evidence.gaps is None or evidence.device is None:
        return None
    return Idle(
        trace=evidence.trace, steps=evidence.steps, gaps=evidence.gaps, device=evidence.device
    )


def check_pandas() -> None:
    """Raise the error that says what is missing, before anything is computed.

    Raises:
        DecodeprofError: pandas is not installed.
    """
    try:
        import pandas as pd
    except ModuleNotFoundError as error:
        raise DecodeprofError(
            "tables need pandas",
            why=f"`{error.name}` is not installed",
            hint="pip install 'decodeprof[pandas]'",
        ) from None
    del pd


def tables_of(diagnosis: Diagnosis, idle: Idle | None = None) -> Tables:
    """Make the tables of a diagnosis.

    Args:
        diagnosis: the diagnosis.
        idle: when the device was idle, where a trace is at hand.

    Raises:
        DecodeprofError: pandas is not installed.
    """
    check_pandas()
    return Tables(
        steps=_steps(diagnosis, idle),
        gaps=_gaps(idle) if idle is not None else None,
        syncs=_syncs(diagnosis),
        kernels=_kernels(diagnosis),
        what_ifs=_what_ifs(diagnosis),
        findings=_findings(diagnosis),
    )


Columns = Sequence[tuple[str, str, Sequence[object] | I64]]


def _frame(columns: Columns) -> pd.DataFrame:
    """A table of (name, dtype, values) columns."""
    import pandas as pd

    data = {}
    for name, dtype, values in columns:
        listed = [_writable(value) for value in values] if dtype == _TEXT else values
        data[name] = pd.array(listed, dtype=dtype)  # type: ignore[call-overload]
    return pd.DataFrame(data)


def _writable(text: object) -> object:
    """Text without halves of characters, which no file can hold."""
    return text.encode("utf-8", "replace").decode() if isinstance(text, str) else text


def _steps(diagnosis: Diagnosis, idle: Idle | None) -> pd.DataFrame:
    rows = diagnosis.steps.rows
    columns: list[tuple[str, str, Sequence[object] | I64]] = [
        ("step", _INTEGER, [row.index for row in rows]),
        ("phase", _TEXT, [row.phase for row in rows]),
        ("steady", _TRUTH, [row.steady for row in rows]),
        ("measured", _TRUTH, [row.measured for row in rows]),
        ("step_ns", _INTEGER, [row.step_ns for row in rows]),
        ("busy_ns", _INTEGER, [row.busy_ns for row in rows]),
    ]
    if idle is not None:
        causes = [
            idle.gaps.causes_within(row.device_start_ns, row.device_end_ns)
            if row.device_start_ns is not None and row.device_end_ns is not None
            else {}
            for row in rows
        ]
        columns += [
            (f"idle_{cause}_ns", _INTEGER, [each.get(cause) for each in causes])
            for cause in IDLE_CAUSES
        ]
    columns += [
        (name, _INTEGER, [getattr(row, name) for row in rows])
        for name in (
            "kernels",
            "activities",
            "launches",
            "graph_launches",
            "syncs",
            "query_length",
            "host_start_ns",
            "host_end_ns",
            "device_start_ns",
            "device_end_ns",
        )
    ]
    columns.append(("why_left_out", _TEXT, [row.why_left_out for row in rows]))
    return _frame(columns)


def _gaps(idle: Idle) -> pd.DataFrame:
    gaps, trace, steps = idle.gaps, idle.trace, idle.steps
    names = np.array([_writable(name) for name in (*trace.names, None)], dtype=object)
    opened = gaps.opened_by
    api = np.where(opened != NONE, trace.calls.name[opened], NONE) if len(trace.calls) else opened
    largest = gaps.causes_ns.argmax(axis=1) if len(gaps) else np.empty(0, np.int64)
    step = _step_of(steps, gaps)
    return _frame(
        [
            ("device", _INTEGER, np.full(len(gaps), idle.device, np.int64)),
            ("step", _INTEGER, [each if each != NONE else None for each in step.tolist()]),
            ("start_ns", _INTEGER, gaps.start_ns),
            ("length_ns", _INTEGER, gaps.end_ns - gaps.start_ns),
            ("largest_cause", _TEXT, [IDLE_CAUSES[index] for index in largest.tolist()]),
            *(
                (f"{cause}_ns", _INTEGER, gaps.causes_ns[:, index])
                for index, cause in enumerate(IDLE_CAUSES)
            ),
            ("ended_by", _TEXT, names[trace.device.name[gaps.ended_by]].tolist()),
            ("opened_by", _TEXT, names[api].tolist()),
        ]
    )


def _step_of(steps: Steps, gaps: Gaps) -> I64:
    """The step in whose device window each gap lies; -1: in none."""
    ran = np.flatnonzero(steps.device_start_ns >= 0)
    if not len(ran):
        return np.full(len(gaps), NONE, np.int64)
    at = np.searchsorted(steps.device_start_ns[ran], gaps.start_ns, side="right") - 1
    inside = (at >= 0) & (gaps.end_ns <= steps.device_end_ns[ran[at]])
    return np.where(inside, ran[at], NONE).astype(np.int64)


def _syncs(diagnosis: Diagnosis) -> pd.DataFrame:
    rows = diagnosis.syncs
    return _frame(
        [
            ("phase", _TEXT, [row.phase for row in rows]),
            ("file", _TEXT, [row.file for row in rows]),
            ("line", _INTEGER, [row.line for row in rows]),
            ("function", _TEXT, [row.function for row in rows]),
            ("code", _TEXT, [row.code for row in rows]),
            ("op", _TEXT, [row.op for row in rows]),
            ("api", _TEXT, [row.api for row in rows]),
            ("calls_per_step", _REAL, [row.calls_per_step for row in rows]),
            ("call_ns_per_step", _INTEGER, [row.call_ns for row in rows]),
            ("idle_inside_ns_per_step", _INTEGER, [row.idle_inside_ns for row in rows]),
            ("idle_after_ns_per_step", _INTEGER, [row.idle_after_ns for row in rows]),
            ("exposed_ns_per_step", _INTEGER, [row.exposed_ns for row in rows]),
            ("seen_by", _TEXT, [" ".join(row.seen_by) for row in rows]),
        ]
    )


def _kernels(diagnosis: Diagnosis) -> pd.DataFrame:
    # Rows without a name sum up a family: in a tidy table they would count everything twice.
    rows = [row for row in diagnosis.kernels if row.name is not None]
    return _frame(
        [
            ("family", _TEXT, [row.family for row in rows]),
            ("name", _TEXT, [row.name for row in rows]),
            ("count_per_step", _REAL, [row.count_per_step for row in rows]),
            ("time_ns_per_step", _INTEGER, [row.time_ns_per_step for row in rows]),
            ("bytes_per_step", _INTEGER, [row.bytes for row in rows]),
            ("achieved_bytes_per_s", _REAL, [row.achieved_bytes_per_s for row in rows]),
        ]
    )


def _what_ifs(diagnosis: Diagnosis) -> pd.DataFrame:
    told = diagnosis.what_if
    rows = [
        (name, what_if)
        for name in told.__struct_fields__
        if (what_if := getattr(told, name)) is not None
    ]
    return _frame(
        [
            ("change", _TEXT, [name for name, _ in rows]),
            *_range("step", [what_if.step_ns for _, what_if in rows], unit="ns"),
            ("in_profiled_time", _TRUTH, [what_if.in_profiled_time for _, what_if in rows]),
            ("assumes", _TEXT, [what_if.assumes for _, what_if in rows]),
        ]
    )


def _findings(diagnosis: Diagnosis) -> pd.DataFrame:
    rows = diagnosis.findings
    first = [row.where[0] if row.where else None for row in rows]
    what = [row.recommendations[0].what if row.recommendations else None for row in rows]
    return _frame(
        [
            ("code", _TEXT, [row.code for row in rows]),
            ("severity", _TEXT, [row.severity for row in rows]),
            ("summary", _TEXT, [row.summary for row in rows]),
            *_range("saving", [row.saving_ns_per_step for row in rows], unit="ns_per_step"),
            ("recommendation", _TEXT, what),
            ("file", _TEXT, [place.file if place else None for place in first]),
            ("line", _INTEGER, [place.line if place else None for place in first]),
            ("function", _TEXT, [place.function if place else None for place in first]),
            ("places", _INTEGER, [len(row.where) for row in rows]),
        ]
    )


def _range(
    what: str, ranges: Sequence[Range | None], *, unit: str
) -> list[tuple[str, str, Sequence[object]]]:
    return [
        (
            f"{what}_{end}_{unit}",
            _INTEGER,
            [getattr(each, end) if each is not None else None for each in ranges],
        )
        for end in ("low", "expected", "high")
    ]
