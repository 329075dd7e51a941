"""Where do exports go, and may they?"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from decodeprof.errors import InputError, UsageError
from decodeprof.recording import (
    DIAGNOSIS_FILE,
    FIRST_CALL_TRACE_FILE,
    NSYS_FILE,
    OPS_FILE,
    RECORDING_FILE,
    TRACE_FILE,
)

TIMELINE_FILE = "timeline.pftrace"
TABLES_FOLDER = "tables"
_ENDINGS = (".json.gz", ".json", ".sqlite", ".nsys-rep")


def timeline_path(source: Path) -> Path:
    """Where the timeline of a recording or a trace goes: into the recording, or the current folder.

    A trace may lie where nothing can be written, or where nothing should be.
    """
    recording = recording_folder(source)
    return recording / TIMELINE_FILE if recording else Path(f"{_stem(source)}.pftrace")


def tables_path(source: Path) -> Path:
    """The folder into which the tables of a recording or a trace go."""
    recording = recording_folder(source)
    return recording / TABLES_FOLDER if recording else Path(f"{_stem(source)}-{TABLES_FOLDER}")


def recording_folder(source: Path) -> Path | None:
    """The recording's directory, by its own name or its recording.json's; None for a trace."""
    if source.name == RECORDING_FILE and source.is_file():
        return source.parent
    return source if source.is_dir() else None


def _stem(source: Path) -> str:
    for ending in _ENDINGS:
        if source.name.endswith(ending) and source.name != ending:
            return source.name.removesuffix(ending)
    return source.name


_RECORDED = (
    RECORDING_FILE,
    TRACE_FILE,
    FIRST_CALL_TRACE_FILE,
    OPS_FILE,
    NSYS_FILE,
    DIAGNOSIS_FILE,
)
"""What a recording consists of, apart from what can be made from it again."""


def check_source_kept(path: Path, source: Path) -> None:
    """Refuse to write over what is read, whatever may be replaced: it cannot be made again.

    Args:
        path: the file that is to be written.
        source: the recording or the trace that it is made from.

    Raises:
        UsageError: it is the source, or a part of it.
    """
    recording = recording_folder(source)
    parts = [source] if recording is None else [recording / name for name in _RECORDED]
    if any(part.exists() and path.exists() and path.samefile(part) for part in parts):
        raise UsageError(
            f"`{path}` is what is read",
            why="`--force` does not replace it",
            hint="name another place",
        )


ANOTHER_OUT = "name another place with `--out`"


def check_new(paths: Iterable[Path], *, force: bool, another: str = ANOTHER_OUT) -> None:
    """Refuse to write where something is, or where nothing can be, before any work is done.

    Args:
        paths: the files that are to be written.
        force: files that exist may be replaced.
        another: how to choose another place, as a hint.

    Raises:
        UsageError: a file exists, and may not be replaced.
        InputError: there is no such folder, or a folder bears the file's name.
    """
    for path in paths:
        if path.is_dir():
            raise InputError(f"cannot write `{path}`", why="it is a folder", hint=another)
        if path.exists() and not force:
            raise UsageError(f"`{path}` exists", hint=f"`--force` replaces it; or {another}")
        if not path.parent.is_dir():
            raise InputError(
                f"cannot write `{path}`",
                why=f"there is no folder `{path.parent}`",
                hint=f"make it, or {another}",
            )
