"""Which `nsys` is on this machine, and can it turn what it collects into a report?"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

NAME = "nsys"
IMPORTER = "QdstrmImporter"
PLACES = (
    "/opt/nvidia/nsight-systems*/**/target-linux-*/nsys",
    "/usr/local/cuda*/nsight-systems*/target-linux-*/nsys",
    "/usr/lib/*/nsight-systems/nsys",
    "/opt/nvidia/nsight-compute/*/host/target-linux-*/nsys",
    "/usr/local/cuda*/nsight-compute*/host/target-linux-*/nsys",
)
"""Where NVIDIA's installers and Debian put it, and the copy that comes with Nsight Compute."""
_IMPORTER_PLACES = (f"/usr/lib/nsight-systems/host-linux-*/{IMPORTER}",)
"""Debian keeps it apart from nsys, which then does not find it by itself."""

_STREAM = re.compile(rb"Nsight Systems Stream (\d+(?:\.\d+)+)")
_STREAM_BYTES = 256


@dataclass(frozen=True)
class Installed:
    """One nsys on this machine."""

    path: Path
    on_path: bool


def installed(places: Sequence[str] = PLACES, *, search_path: str | None = None) -> list[Installed]:
    """Every nsys: the one on the PATH first, then those in the installers' folders.

    Args:
        places: patterns of absolute paths.
        search_path: what to take for the PATH; None: the environment's.
    """
    on_path = shutil.which(NAME, path=search_path)
    found = [] if on_path is None else [Installed(Path(on_path), on_path=True)]
    known = {each.path.resolve() for each in found}
    for pattern in places:
        for path in _matching(pattern):
            if os.access(path, os.X_OK) and path.resolve() not in known:
                known.add(path.resolve())
                found.append(Installed(path, on_path=False))
    return found


def importer_of(nsys: Path, *, places: Sequence[str] = ()) -> Path | None:
    """The program that turns what this nsys collected into a report, near its real binary.

    Args:
        nsys: the nsys, or a link to it.
        places: patterns of absolute paths to look in after that.
    """
    folder = nsys.resolve().parent
    near = [folder / IMPORTER, *sorted(folder.parent.glob(f"host-linux-*/{IMPORTER}"))]
    near += [path for pattern in places for path in _matching(pattern)]
    return next((path for path in near if path.exists()), None)


def any_importer(copies: Sequence[Installed]) -> Path | None:
    """An importer on the PATH, near any nsys, or where Debian puts it; None: there is none."""
    on_path = shutil.which(IMPORTER)
    if on_path is not None:
        return Path(on_path)
    near = (importer_of(copy.path) for copy in copies)
    elsewhere = (path for pattern in _IMPORTER_PLACES for path in _matching(pattern))
    return next((path for path in (*near, *elsewhere) if path is not None), None)


def export_command(program: str, report: Path, *, output: Path | None = None) -> list[str]:
    """The arguments that export a report to SQLite."""
    to = output if output is not None else report.with_suffix(".sqlite")
    return [program, "export", "--type", "sqlite", "--output", str(to), str(report)]


def import_command(program: str, collected: Path, *, output: Path | None = None) -> list[str]:
    """The arguments that turn a collected file into a report."""
    to = output if output is not None else collected.with_suffix(".nsys-rep")
    return [program, "-i", str(collected), "-o", str(to)]


def import_elsewhere(collected: Path) -> str:
    """What to do with a collected file on a machine that has an importer, as text."""
    report = Path(collected.name).with_suffix(".nsys-rep")
    steps = (import_command(IMPORTER, Path(collected.name)), export_command(NAME, report))
    version = stream_version(collected)
    # Reports may be older than the nsys that exports them; the importer reads its own alone.
    which = f"of version {version} and no other" if version else "of the same version exactly"
    return (
        f"copy it to a machine with all of Nsight Systems, {which}, and there: "
        f"`{shown(steps[0])}` (in the host-linux-x64 folder of Nsight Systems), then "
        f"`{shown(steps[1])}`\nthen: `decodeprof analyze {shlex.quote(report.stem + '.sqlite')}`"
    )


def stream_version(collected: Path) -> str | None:
    """The version that wrote a collected file, which its first line says; None: it does not."""
    try:
        with collected.open("rb") as file:
            found = _STREAM.search(file.read(_STREAM_BYTES))
    except OSError:
        return None
    return found[1].decode() if found else None


def shown(command: Sequence[str]) -> str:
    """A command for a person to type: the program by its name, arguments quoted for a shell."""
    return shlex.join([Path(command[0]).name, *command[1:]])


def _matching(pattern: str) -> list[Path]:
    anchor = Path(pattern).anchor or "."
    return sorted(Path(anchor).glob(str(Path(pattern).relative_to(anchor))))
