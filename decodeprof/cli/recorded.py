"""What happens between a job and its diagnosis? Recording, analysis, and diagnosis.json."""

from __future__ import annotations

import typing
from pathlib import Path

from decodeprof.cli.progress import shown_progress
from decodeprof.errors import DecodeprofError

if typing.TYPE_CHECKING:
    from decodeprof.capture import Job
    from decodeprof.diagnosis.pipeline import Analyzed

RUNS = Path("decodeprof-runs")
"""Recordings of which the user did not say where they go."""


def record_and_diagnose(job: Job, *, out: Path | None) -> tuple[Path, Analyzed]:
    """Record a job, write diagnosis.json into the recording, and give what was analysed.

    Raises:
        DecodeprofError: the target or the analysis failed; what had been recorded is kept, and
            the error names it.
    """
    from decodeprof.capture import new_directory, record
    from decodeprof.cli.graph_checked import check_recorded
    from decodeprof.diagnosis.pipeline import analyze_path
    from decodeprof.recording import DIAGNOSIS_FILE, write_whole
    from decodeprof.report.as_json import diagnosis_json

    directory = out if out is not None else new_directory(RUNS, _stem(job.target))
    with shown_progress() as show:
        record(job, out=directory, progress=show)
        if job.graph_check:
            check_recorded(job, directory, show)
    try:
        analyzed = analyze_path(directory)
    except DecodeprofError as error:
        kept = f"the recording is kept in `{directory}`"
        error.hint = f"{error.hint}\n{kept}" if error.hint else kept
        raise
    write_whole(directory / DIAGNOSIS_FILE, diagnosis_json(analyzed.diagnosis))
    return directory, analyzed


def _stem(target: str) -> str:
    """A name for the target's recordings: ``my_script.py:generate`` gives my_script-generate."""
    where, _, name = target.rpartition(":")
    return f"{where.rpartition('/')[2].removesuffix('.py')}-{name}"
