"""What became of a run under nsys, in words, and which file is left of it?"""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass
from pathlib import Path

from decodeprof import units
from decodeprof.capture.job import Failed
from decodeprof.hardware import nsys
from decodeprof.recording import NSYS_FILE, PassReport

_STEM = "nsys"
_INSTALL = (
    "install Nsight Systems (developer.nvidia.com/nsight-systems), or put the folder of its `nsys` "
    "on the PATH"
)
_UNKNOWN_OPTION = re.compile(
    r"(?:unrecogni[sz]ed|unknown|invalid|illegal)\W+(?:option|argument|flag)\b[^\n]*?(--[\w-]+)",
    re.IGNORECASE,
)
_BAD_VALUE = re.compile(
    r"(?:illegal|invalid|unknown)[^\n]*?(?:value|argument)[^\n]*?(--[\w-]+)", re.IGNORECASE
)
_NO_PERMISSION = re.compile(
    r"permission denied|insufficient privilege|not permitted|ERR_NVGPUCTRPERM", re.IGNORECASE
)
_DISK_FULL = re.compile(
    r"no space left|disk (?:is )?full|not enough (?:disk )?space", re.IGNORECASE
)
_LITTLE_ROOM_BYTES = 64 * 2**20
"""With less than this left, a report of some hundred megabytes failed for want of room."""
_MOST_LINES = 3
OLDEST = "2022.1"
"""Of this version on nsys knows every option that is used."""


@dataclass(frozen=True)
class Ended:
    """How a run under nsys ended."""

    nsys: Path
    could_not_start: str = ""
    """The system's words, where the program could not be run at all."""
    returncode: int = 0
    said: str = ""
    """The end of what nsys and the target printed."""
    started: bool = False
    """The target's process began."""
    finished: bool = False
    """The target ran to its end."""
    failed: Failed | None = None
    """What the target's process said of its failure."""
    stopped_by: str | None = None
    """timeout | interrupt: why it was ended."""
    limit_s: float = 0.0
    free_bytes: int | None = None
    """Room left on the recording's disk."""


def tell(ended: Ended | None, out: Path) -> PassReport:
    """The pass's report: what happened, which file is kept, what to do.

    Args:
        ended: how the run ended; None: there is no nsys.
        out: the recording's directory, in which nsys left what it made.
    """
    if ended is None:
        reason = f"there is no `nsys`, neither on the PATH nor in an installer's folder; {_INSTALL}"
        return PassReport(name=_STEM, status="failed", reason=reason)
    export = out / NSYS_FILE
    has_export = export.is_file() and export.stat().st_size > 0
    if ended.finished and has_export and ended.stopped_by is None:
        return PassReport(name=_STEM, status="done")
    what, hint = _what(ended, out)
    kept = _kept(out)
    parts = [what, *([f"kept: {kept}"] if kept else []), *([hint] if hint else [])]
    return PassReport(
        name=_STEM, status="partial" if has_export else "failed", reason="; ".join(parts)
    )


def _what(ended: Ended, out: Path) -> tuple[str, str]:
    """What happened and what to do; causes that show themselves come before what follows them."""
    if ended.could_not_start:
        return f"`nsys` could not be run: {ended.could_not_start}", (
            "make it executable for you" if "ermission" in ended.could_not_start else _INSTALL
        )
    if ended.stopped_by == "interrupt":
        return "stopped by Ctrl-C", ""
    unknown = None if ended.started else _UNKNOWN_OPTION.search(ended.said)
    unknown = unknown or (None if ended.started else _BAD_VALUE.search(ended.said))
    if unknown is not None:
        return f"`nsys` does not know `{unknown[1]}`", (
            f"it is older than the option: install Nsight Systems {OLDEST} or newer"
        )
    full = ended.free_bytes is not None and ended.free_bytes < _LITTLE_ROOM_BYTES
    if (_DISK_FULL.search(ended.said) or full) and not (out / NSYS_FILE).is_file():
        return "the disk is full: nsys could not write its report", (
            "make room, or name another disk with `--out`; nsys collects in TMPDIR first"
        )
    if ended.failed is not None:
        return f"under nsys, {ended.failed.what}", ended.failed.hint
    if ended.stopped_by == "timeout":
        return f"it did not end within {ended.limit_s:g} s", "give it more time with `--timeout`"
    if _NO_PERMISSION.search(ended.said) and not ended.finished:
        return f"nsys lacks a permission: {_last_lines(_NO_PERMISSION, ended.said)}", (
            "in a container, run it with --cap-add=SYS_ADMIN; let the driver admit all users to "
            "the counters, or name a folder that you may write with `--out`"
        )
    return _without_export(ended, out)


def _without_export(ended: Ended, out: Path) -> tuple[str, str]:
    collected, report = out / f"{_STEM}.qdstrm", out / f"{_STEM}.nsys-rep"
    if report.is_file():
        return "nsys made a report and did not export it", (
            f"`{nsys.shown(nsys.export_command(nsys.NAME, Path(report.name)))}`, then "
            f"`decodeprof analyze {NSYS_FILE}`, in the recording"
        )
    if collected.is_file():
        return (
            "nsys collected and made no report of it, since its importer is missing; it left with "
            f"code {ended.returncode} all the same",
            nsys.import_elsewhere(collected),
        )
    if not ended.finished and ended.started:
        how = f"exit code {ended.returncode}"
        if ended.returncode < 0:
            how = signal.Signals(-ended.returncode).name
        return f"the target's process ended under nsys before it was through ({how})", (
            "it ran without nsys: see whether `nsys profile python my_script.py` works at all"
        )
    last = " | ".join(ended.said.strip().splitlines()[-_MOST_LINES:])
    return f"nsys left no report (exit code {ended.returncode})", f"its last words: {last}"


def _last_lines(pattern: re.Pattern[str], said: str) -> str:
    return next((line.strip() for line in said.splitlines() if pattern.search(line)), "")


def _kept(out: Path) -> str:
    """The files that nsys left, with their sizes."""
    files = sorted(path for path in out.glob(f"{_STEM}*") if path.is_file())
    return ", ".join(f"`{path.name}` ({units.bytes_(path.stat().st_size)})" for path in files)
