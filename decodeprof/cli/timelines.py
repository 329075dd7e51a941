"""`--perfetto` of the commands that report: the timeline beside the report."""

from __future__ import annotations

import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from decodeprof.cli.options import say

if typing.TYPE_CHECKING:
    from decodeprof.diagnosis.pipeline import Analyzed

F = TypeVar("F", bound=Callable[..., Any])

_ANOTHER = "`decodeprof export --perfetto --out FILE` writes it elsewhere"


def perfetto_option(function: F) -> F:
    """Add `--perfetto`."""
    return click.option(
        "--perfetto",
        is_flag=True,
        help="Also write a timeline for ui.perfetto.dev: into the recording, or for a trace into "
        "the current folder.",
    )(function)


def write_timeline_of(analyzed: Analyzed, source: Path, *, force: bool = False) -> None:
    """Write the timeline of what was analysed to its usual place, and say where it is.

    Raises:
        DecodeprofError: it cannot be written, or exists and may not be replaced.
    """
    from decodeprof.export.files import timeline_path
    from decodeprof.export.perfetto.file import write_timeline_file

    file = timeline_path(source)
    write_timeline_file(analyzed.evidence, file, force=force)
    say(f"timeline: {file}")


def check_timeline_of(source: Path, *, force: bool) -> None:
    """Raise before the analysis what would keep its timeline from being written."""
    from decodeprof.export.files import check_source_kept, timeline_path
    from decodeprof.export.perfetto.file import check_timeline

    check_source_kept(timeline_path(source), source)
    check_timeline(timeline_path(source), force=force, another=_ANOTHER)


def check_perfetto() -> None:
    """Raise before a target runs what would keep its timeline from being written."""
    from decodeprof.export.perfetto.writer import check_available

    check_available()
