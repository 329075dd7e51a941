"""Is there an nsys that can also read what it records? Some copies collect and cannot import."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from decodeprof.cli.checks.check import Check
from decodeprof.hardware.nsys import IMPORTER, NAME, Installed, importer_of, installed

__all__ = ["Installed", "check_nsys", "installed"]

TIMEOUT_S = 30.0
"""nsys answers within seconds; a copy on a dead network drive never does."""


def check_nsys(copies: Sequence[Installed]) -> list[Check]:
    """What each nsys can do, or that there is none."""
    if not copies:
        return [
            Check(
                name=NAME,
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
        return Check(name=NAME, answer="does not", detail=f"{where}; {error}")
    said = f"{_version(version)}, {where}"
    importer = importer_of(copy.path)
    _, export_error = _run(copy.path, "export", "--help")
    if importer is not None and not export_error:
        return Check(name=NAME, answer="works", detail=f"{said}; its importer is there")
    if importer is None and export_error:
        return Check(
            name=NAME,
            answer="does not",
            detail=f"{said}; it collects, and its importer is missing: no report comes out",
            hint="install Nsight Systems itself, or import the .qdstrm on another machine",
        )
    reason = export_error or f"no {IMPORTER} lies near it, though it knows `export`"
    return Check(name=NAME, answer="cannot tell", detail=f"{said}; importer: {reason}")


def _version(text: str) -> str:
    """``2025.5.1`` from the sentence in which nsys says its version."""
    words = text.split()
    return next((word for word in words if word[:1].isdigit()), "version unknown")


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
