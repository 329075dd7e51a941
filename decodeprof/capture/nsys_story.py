"""What became of a run under nsys, in words, and which file is left of it?"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from decodeprof import units
from decodeprof.capture.job import Failed
from decodeprof.hardware import nsys
from decodeprof.recording import NSYS_FILE, PassReport

PASS = "nsys"
StoppedBy = Literal["timeout", "interrupt", "never_began", "stuck"]
"""Why nsys was ended: no time left, Ctrl-C, it never started the target, it did not end after it.
"""
_INSTALL = (
    "install Nsight Systems (developer.nvidia.com/nsight-systems), or put the folder of its `nsys` "
    "on the PATH"
)
_UNKNOWN_OPTION = re.compile(
    r"(?:unrecogni[sz]ed|unknown|invalid|illegal)\W+(?:option|argument|flag)\b[^\n]*?(--[\w-]+)",
    re.IGNORECASE,
)
_BAD_VALUE = re.compile(r"illegal\s+(--[\w-]+)\s+argument", re.IGNORECASE)
_NO_PERMISSION = re.compile(
    r"permission denied|insufficient privilege|not permitted|ERR_NVGPUCTRPERM", re.IGNORECASE
)
_DISK_FULL = re.compile(
    r"no space left|disk (?:is )?full|not enough (?:disk )?space", re.IGNORECASE
)
_NO_IMPORTER = re.compile(
    r"importer binary[^\n]*not found|skipping importation|importer version", re.IGNORECASE
)
_IMPORT_FAILED = re.compile(r"import(?:ation)? failed", re.IGNORECASE)
_LITTLE_ROOM_BYTES = 64 * 2**20
"""With less than this left, a report of some hundred megabytes failed for want of room."""
_MOST_LINES = 3
_BAR = re.compile(r"%\s*\]")
_ROOM = "make room, or name another disk with `--out`; nsys collects in TMPDIR first"
_TRY_NSYS = "it ran without nsys: see whether `nsys profile python my_script.py` works at all"
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
    """The end of what nsys printed."""
    started: bool = False
    """The target's process began."""
    finished: bool = False
    """The target ran to its end."""
    failed: Failed | None = None
    """What the target's process said of its failure."""
    crash: str = ""
    """What the interpreter said when it crashed."""
    stopped_by: StoppedBy | None = None
    limit_s: float = 0.0
    free_bytes: int | None = None
    """Room left on the recording's disk."""
    temporary_free_bytes: int | None = None
    """Room left where nsys collects."""
    elsewhere: list[str] = field(default_factory=list)
    """Files that nsys left in the temporary folder."""


def tell(ended: Ended | None, out: Path) -> PassReport:
    """The pass's report: what happened, which file is kept, what to do.

    Args:
        ended: how the run ended; None: there is no nsys.
        out: the recording's directory, in which nsys left what it made.
    """
    if ended is None:
        reason = f"there is no `nsys`, neither on the PATH nor in an installer's folder; {_INSTALL}"
        return PassReport(name=PASS, status="failed", reason=reason)
    export = out / NSYS_FILE
    has_export = export.is_file() and export.stat().st_size > 0
    if ended.finished and has_export and ended.stopped_by is None:
        return PassReport(name=PASS, status="done")
    what, hint = _what(ended, out)
    kept = _kept(out, ended.elsewhere)
    parts = [what, *([f"kept: {kept}"] if kept else []), *([hint] if hint else [])]
    return PassReport(
        name=PASS, status="partial" if has_export else "failed", reason="; ".join(parts)
    )


def _what(ended: Ended, out: Path) -> tuple[str, str]:
    """What happened and what to do; causes that show themselves come before what follows them."""
    if ended.could_not_start:
        return f"`nsys` could not be run: {ended.could_not_start}", _start_hint(ended)
    if ended.stopped_by == "interrupt":
        return "stopped by Ctrl-C", ""
    unknown = None if ended.started else _UNKNOWN_OPTION.search(ended.said)
    unknown = unknown or (None if ended.started else _BAD_VALUE.search(ended.said))
    if unknown is not None:
        return f"`nsys` does not know `{unknown[1]}`", (
            f"it is older than the option: install Nsight Systems {OLDEST} or newer"
        )
    if _is_full(ended) and not (out / NSYS_FILE).is_file():
        return "the disk is full: nsys could not write its report", _ROOM
    # Before the target's own word, which is that it was interrupted.
    if ended.stopped_by == "timeout" and not _collected_all(ended, out):
        # The passes before it took their share.
        left = f"{ended.limit_s:.0f} s, which is what was left of the time limit"
        return f"it did not end within {left}", "give it more time with `--timeout`"
    if ended.failed is not None:
        return f"under nsys, {ended.failed.what}", ended.failed.hint
    if ended.started and not ended.finished:
        how = ended.crash or f"nsys left with code {ended.returncode}"
        return f"the target's process ended under nsys before it was through ({how})", _TRY_NSYS
    if ended.stopped_by == "never_began":
        return "nsys did not start the target and was ended", _TRY_NSYS
    if _NO_PERMISSION.search(ended.said):
        return f"nsys lacks a permission: {_line_with(_NO_PERMISSION, ended.said)}", (
            "in a container, run it with --cap-add=SYS_ADMIN; let the driver admit all users to "
            "the counters, or name a folder that you may write with `--out` or TMPDIR"
        )
    return _without_export(ended, out)


def _collected_all(ended: Ended, out: Path) -> bool:
    """Whether nsys was through, but for the import that it cannot do: more time gives no more.

    A copy of 2025 without importer needs minutes for the 2 GB that it makes of a run of a second;
    asked to end at the time limit, it says that it skips the import, and ends as ever.
    """
    collected = (out / f"{PASS}.qdstrm").is_file()
    return ended.finished and collected and bool(_NO_IMPORTER.search(ended.said))


def _start_hint(ended: Ended) -> str:
    if _DISK_FULL.search(ended.could_not_start):
        return _ROOM
    return "make it executable for you" if "ermission" in ended.could_not_start else _INSTALL


def _is_full(ended: Ended) -> bool:
    rooms = (ended.free_bytes, ended.temporary_free_bytes)
    return bool(_DISK_FULL.search(ended.said)) or any(
        room is not None and room < _LITTLE_ROOM_BYTES for room in rooms
    )


def _without_export(ended: Ended, out: Path) -> tuple[str, str]:
    collected, report = out / f"{PASS}.qdstrm", out / f"{PASS}.nsys-rep"
    if report.is_file():
        return "nsys made a report and did not export it", (
            f"`{nsys.shown(nsys.export_command(nsys.NAME, Path(report.name)))}`, then "
            f"`decodeprof analyze {NSYS_FILE}`, in the recording"
        )
    if collected.is_file():
        failed = _line_with(_IMPORT_FAILED, ended.said)
        if failed and not _NO_IMPORTER.search(ended.said):
            what = f"nsys collected, and its importer failed: {failed}"
        else:
            what = "nsys collected and made no report of it, since its importer is missing"
        return f"{what}; it left with code {ended.returncode}", nsys.import_elsewhere(collected)
    last = " | ".join(_lines(ended.said)[-_MOST_LINES:]) or "none"
    return f"nsys left no report (exit code {ended.returncode})", f"its last words: {last}"


def _lines(said: str) -> list[str]:
    """What was said without the bars that show how far nsys is."""
    lines = (line.strip() for line in said.splitlines())
    return [line for line in lines if line and not _BAR.search(line)]


def _line_with(pattern: re.Pattern[str], said: str) -> str:
    return next((line for line in _lines(said) if pattern.search(line)), "")


def _kept(out: Path, elsewhere: list[str]) -> str:
    """The files that nsys left, with their sizes."""
    files = sorted(path for path in out.glob(f"{PASS}*") if path.is_file())
    names = [f"`{path.name}` ({units.bytes_(path.stat().st_size)})" for path in files]
    return ", ".join([*names, *(f"`{name}` in the folder TMPDIR" for name in elsewhere)])
