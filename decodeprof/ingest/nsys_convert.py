"""How does a report of Nsight Systems become the SQLite export that can be read?

By the `nsys export` of this machine; a file that was collected and never imported (.qdstrm) goes
through NVIDIA's importer first. Both write into a temporary folder: nothing beside the report is
touched. Where the programs are missing, the error gives the commands for another machine.
"""

from __future__ import annotations

import contextlib
import shlex
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from decodeprof.errors import InputError
from decodeprof.hardware import nsys

COLLECTED = ".qdstrm"
"""What nsys collected, before its importer ran."""
REPORTS = (".nsys-rep", ".qdrep", COLLECTED)
"""By name: a report's content begins differently in every version."""
TIMEOUT_S = 1800.0
"""A report of several gigabytes takes minutes; a program on a dead drive never ends."""
_MOST_LINES = 4
"""Of what a failed program said: the last lines name the cause."""


@contextlib.contextmanager
def exported(report: Path) -> Iterator[Path]:
    """The SQLite export of a report, for as long as the block lasts.

    Raises:
        InputError: the report is missing, or cannot be exported on this machine.
    """
    if not report.is_file():
        raise InputError(f"there is no file `{report}`")
    if not report.stat().st_size:
        raise InputError(
            f"`{report.name}` is empty",
            why="nsys had not written its report, or no room to write it",
            hint="record again, and let nsys end by itself",
        )
    copies = nsys.installed()
    with tempfile.TemporaryDirectory(prefix="decodeprof-nsys-") as folder:
        source = report
        if report.suffix == COLLECTED:
            source = Path(folder) / f"{report.stem}.nsys-rep"
            _import(report, source, copies)
        if not copies:
            command = nsys.export_command(nsys.NAME, report)
            raise InputError(
                f"`{report.name}` must be exported first, and there is no `nsys` here",
                why="a report of Nsight Systems is read through its SQLite export",
                hint=f"on a machine with Nsight Systems: `{nsys.shown(command)}`"
                f"\nthen: `decodeprof analyze {shlex.quote(report.stem + '.sqlite')}`",
            )
        database = Path(folder) / f"{report.stem}.sqlite"
        command = nsys.export_command(str(copies[0].path), source, output=database)
        _run(command, report, made=database)
        yield database


def _import(collected: Path, report: Path, copies: list[nsys.Installed]) -> None:
    importer = nsys.any_importer(copies)
    if importer is None:
        raise InputError(
            f"`{collected.name}` was collected but never imported, and no importer is here",
            why=f"{nsys.IMPORTER}, which makes a report of it, is neither on the PATH nor near an "
            "nsys",
            hint=nsys.import_elsewhere(collected),
        )
    _run(
        nsys.import_command(str(importer), collected, output=report),
        collected,
        made=report,
        hint=nsys.import_elsewhere(collected),
    )


_OF_ANOTHER_VERSION = (
    "a report can be read by an nsys of the version that recorded it, or a later one"
)


_FULL = "no space left"
_NO_ROOM = "the export is written below TMPDIR, and may be as large as the report: make room there"


def _run(command: list[str], report: Path, *, made: Path, hint: str = _OF_ANOTHER_VERSION) -> None:
    """Run one of NVIDIA's programs; its exit code alone proves nothing, the file does."""
    program = Path(command[0]).name
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=TIMEOUT_S,
            check=False,
        )
    except OSError as error:
        why = f"`{program}` cannot be run: {error.strerror}"
    except subprocess.TimeoutExpired:
        why = f"`{program}` did not end within {TIMEOUT_S:g} s"
    else:
        if done.returncode == 0 and made.is_file() and made.stat().st_size:
            return
        said = done.stdout.decode(errors="replace").strip().splitlines()[-_MOST_LINES:]
        if _FULL in " ".join(said).lower():
            hint = _NO_ROOM
        ended = f"left with code {done.returncode}" + ("" if done.returncode else ", wrote nothing")
        why = "\n".join([f"`{nsys.shown(command)}` {ended}", *said])
    raise InputError(
        f"`{report.name}` could not be exported",
        why=why,
        hint=hint,
    )
