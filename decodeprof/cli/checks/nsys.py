"""Is there an nsys that can also read what it records? Some copies collect and cannot import."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from decodeprof.cli.checks.check import Check

TIMEOUT_S = 30.0
"""nsys answers within seconds; a copy on a dead network drive never does."""
_NAME = "nsys"
_PLACES = (
    "/opt/nvidia/nsight-systems*/**/target-linux-*/nsys",
    "/usr/local/cuda*/nsight-systems*/target-linux-*/nsys",
    "/opt/nvidia/nsight-compute/*/host/target-linux-*/nsys",
    "/usr/local/cuda*/nsight-compute*/host/target-linux-*/nsys",
)
"""Where NVIDIA's installers put it, and the copy that comes with Nsight Compute."""
_IMPORTER = "QdstrmImporter"


@dataclass(frozen=True)
class Installed:
    """One nsys on this machine."""

    path: Path
    on_path: bool


def installed(
    places: Sequence[str] = _PLACES, *, search_path: str | None = None
) -> list[Installed]:
    """Every nsys: the one on the PATH first, then those in the installers' folders."""
    on_path = shutil.which(_NAME, path=search_path)
    found = [] if on_path is None else [Installed(Path(on_path), on_path=True)]
    known = {path.path.resolve() for path in found}
    for pattern in places:
        anchor = Path(pattern).anchor or "."
        for path in sorted(Path(anchor).glob(str(Path(pattern).relative_to(anchor)))):
            if os.access(path, os.X_OK) and path.resolve() not in known:
                known.add(path.resolve())
                found.append(Installed(path, on_path=False))
    return found


def check_nsys(copies: Sequence[Installed]) -> list[Check]:
    """What each nsys can do, or that there is none."""
    if not copies:
        return [
            Check(
                name=_NAME,
                answer="does not",
                detail="not on the PATH and not in an NVIDIA folder; only an nsys recording "
                "needs it",
                hint="install Nsight Systems",
            )
        ]
    return [_check_copy(copy) for copy in copies]


def _check_copy(copy: Installed) -> Check:
    where = "on the PATH" if copy.on_path else f"not on the PATH: `{copy.path}`"
    version, error = _run(copy.path, "--version")
    if error:
        return Check(name=_NAME, answer="does not", detail=f"{where}; {error}")
    said = f"{_version(version)}, {where}"
    importer = _importer(copy.path)
    _, export_error = _run(copy.path, "export", "--help")
    if importer is not None and not export_error:
        return Check(name=_NAME, answer="works", detail=f"{said}; its importer is there")
    if importer is None and export_error:
        return Check(
            name=_NAME,
            answer="does not",
            detail=f"{said}; it collects, and its importer is missing: no report comes out",
            hint="install Nsight Systems itself, or import the .qdstrm on another machine",
        )
    reason = export_error or f"no {_IMPORTER} lies near it, though it knows `export`"
    return Check(name=_NAME, answer="cannot tell", detail=f"{said}; importer: {reason}")


def _version(text: str) -> str:
    """``2025.5.1`` from the sentence in which nsys says its version."""
    words = text.split()
    return next((word for word in words if word[:1].isdigit()), "version unknown")


def _importer(nsys: Path) -> Path | None:
    """The program that turns what was collected into a report, near the real binary."""
    folder = nsys.resolve().parent
    near = [folder / _IMPORTER, *sorted(folder.parent.glob(f"host-linux-*/{_IMPORTER}"))]
    return next((path for path in near if path.exists()), None)


def _run(program: Path, *arguments: str) -> tuple[str, str]:
    """What a program says, and why it failed; one of the two is empty."""
    try:
        done = subprocess.run(
            (str(program), *arguments),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    except OSError as error:
        return "", f"it cannot be run: {error.strerror}"
    except subprocess.TimeoutExpired:
        return "", f"it said nothing for {TIMEOUT_S:g} s"
    if done.returncode:
        last = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        return "", f"`nsys {' '.join(arguments)}` left with code {done.returncode} {last}".rstrip()
    return done.stdout.decode(errors="replace").strip(), ""
