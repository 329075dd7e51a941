"""Where does a recording go?"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from decodeprof.errors import InputError, UsageError
from decodeprof.recording import RECORDING_FILE, read_recording

DEFAULT_PARENT = Path("decodeprof-runs")
USEFUL = ("done", "partial")
"""How a pass ended that left something to look at."""


def new_directory(parent: Path, stem: str) -> Path:
    """Name the next unused ``stem-001`` below `parent`; nothing is created.

    Numbers go on after the largest in use, so that they tell the order of runs.
    """
    stem = re.sub(r"[^\w.-]+", "-", stem).strip("-.") or "run"
    pattern = re.compile(re.escape(stem) + r"-(\d+)")
    names = os.listdir(parent) if parent.is_dir() else []
    used = [int(match[1]) for name in names if (match := pattern.fullmatch(name))]
    return parent / f"{stem}-{max(used, default=0) + 1:03d}"


def prepare(out: Path) -> bool:
    """Make the directory of a recording before anything runs; True if it was not there.

    Raises:
        UsageError: it holds something already, is no directory, or cannot be written.
    """
    try:
        if out.is_dir():
            if any(out.iterdir()):
                raise UsageError(
                    f"`{out}` exists and is not empty",
                    why="a recording never overwrites another",
                    hint="name a new directory with `--out`, or leave `--out` out",
                )
            created = False
        else:
            out.mkdir(parents=True)
            created = True
        probe = out / ".probe"
        probe.touch()
        probe.unlink()
    except FileExistsError:
        raise UsageError(
            f"`{out}` exists and is a file", hint="name a new directory with `--out`"
        ) from None
    except OSError as error:
        raise UsageError(
            f"cannot write to `{out}`",
            why=str(error.strerror),
            hint="name another directory with `--out`",
        ) from None
    return created


def discard_if_empty(out: Path, *, created: bool) -> None:
    """Remove a recording in which no pass got anywhere, and the directory if it was made for it."""
    try:
        passes = read_recording(out).passes
    except InputError:
        passes = []
    if any(report.status in USEFUL for report in passes):
        return
    (out / RECORDING_FILE).unlink(missing_ok=True)
    if created:
        shutil.rmtree(out, ignore_errors=True)
