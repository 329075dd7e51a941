"""A timeline as a file, whole or not at all."""

from __future__ import annotations

from pathlib import Path

from decodeprof.diagnosis.evidence import Evidence
from decodeprof.export.files import ANOTHER_OUT, check_new
from decodeprof.export.perfetto.timeline import write_timeline
from decodeprof.export.perfetto.writer import check_available
from decodeprof.recording import whole_file


def check_timeline(path: Path, *, force: bool, another: str = ANOTHER_OUT) -> None:
    """Raise what `write_timeline_file` would, as far as it can be known before the analysis.

    Args:
        path: the file.
        force: replace a file that exists.
        another: how to choose another place, as a hint.

    Raises:
        UsageError: the file exists, and may not be replaced.
        InputError: it cannot be written there.
        DecodeprofError: the package that writes timelines is not installed.
    """
    check_available()
    check_new([path], force=force, another=another)


def write_timeline_file(
    evidence: Evidence,
    path: Path,
    *,
    force: bool = False,
    steps: tuple[int | None, int | None] | None = None,
) -> None:
    """Write a timeline for ui.perfetto.dev into a file.

    Args:
        evidence: the trace, with what was found in it.
        path: the file.
        force: replace a file that exists.
        steps: first step and the one after the last; None: the whole trace.

    Raises:
        UsageError: the file exists, and may not be replaced.
        InputError: it cannot be written.
        DecodeprofError: the trace has no such steps, or the package `perfetto` is missing.
    """
    check_timeline(path, force=force)
    with whole_file(path) as file:
        write_timeline(evidence, file, steps=steps)
