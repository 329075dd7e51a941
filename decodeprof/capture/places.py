"""How is a place in source code named, and what does its line say?

File names in a recording are relative: to the script's folder, to the folder that packages are
installed in, or to Python's own library. An absolute path tells who recorded it and where.
"""

from __future__ import annotations

import linecache
import os
import site
import sys
import sysconfig
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from decodeprof.recording import Site

MAX_FRAMES = 40
_LINES_AROUND = 2
_OWN_PACKAGE = str(Path(__file__).resolve().parent)
_CALLER_FILE = str(Path(__file__).resolve().with_name("invoke.py"))
PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"


@dataclass(frozen=True)
class Frame:
    """One level of a Python stack."""

    file: str
    """As Python names it: absolute."""
    line: int
    function: str


def stack_from(frame: FrameType | None) -> tuple[Frame, ...]:
    """The target's frames from `frame` outwards, innermost first, at most `MAX_FRAMES`.

    Frames of decodeprof below the innermost are skipped, and the walk ends where decodeprof
    called the target.
    """
    frames: list[Frame] = []
    while frame is not None and len(frames) < MAX_FRAMES:
        code = frame.f_code
        if code.co_filename == _CALLER_FILE:
            break
        if not code.co_filename.startswith(_OWN_PACKAGE) and not (
            not frames and code.co_filename.endswith(f"{os.sep}warnings.py")
        ):
            frames.append(Frame(code.co_filename, frame.f_lineno, code.co_qualname))
        frame = frame.f_back
    return tuple(frames)


def _package_folders() -> list[str]:
    paths = sysconfig.get_paths()
    folders = {paths["purelib"], paths["platlib"], site.getusersitepackages()}
    folders |= set(site.getsitepackages())
    # A package may be found elsewhere, e.g. by PYTHONPATH.
    folders |= {path for path in sys.path if path.endswith(("site-packages", "dist-packages"))}
    return [folder for folder in folders if folder]


@dataclass
class Places:
    """Shortens file names, and gathers the source text of the lines that were named."""

    script_folder: str
    sources: dict[str, dict[int, str]] = field(default_factory=dict)
    _prefixes: list[tuple[str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        named = [(folder, "") for folder in _package_folders()]
        named += [(sysconfig.get_paths()["stdlib"], PYTHON)]
        named += [(sysconfig.get_paths()["platstdlib"], PYTHON)]
        named += [(self.script_folder, "")]
        named += [(path, "") for path in sys.path if path and os.path.isdir(path)]
        named += [(tempfile.gettempdir(), "tmp"), (os.path.expanduser("~"), "~")]
        seen: dict[str, str] = {}
        for folder, short in named:
            for spelling in (folder, os.path.realpath(folder)):
                if spelling.strip("/"):
                    seen.setdefault(spelling.rstrip("/") + "/", f"{short}/" if short else "")
        # The longest first: packages may be installed below the script's own folder.
        self._prefixes = sorted(seen.items(), key=lambda each: -len(each[0]))

    @property
    def prefixes(self) -> list[tuple[str, str]]:
        """What path prefixes become, longest first."""
        return list(self._prefixes)

    def shorten(self, file: str) -> str:
        """A file's name as it stands in a recording; never absolute."""
        if file.startswith("<"):
            return file
        for prefix, short in self._prefixes:
            if file.startswith(prefix):
                return short + file[len(prefix) :]
        return "/".join(file.strip("/").split("/")[-2:])

    def is_package(self, file: str) -> bool:
        """Whether a file belongs to an installed package or to Python itself."""
        if file.startswith("<frozen"):
            return True
        roots = [*_package_folders(), sysconfig.get_paths()["stdlib"]]
        return any(file.startswith((root + "/", os.path.realpath(root) + "/")) for root in roots)

    def is_torch(self, file: str) -> bool:
        """Whether a file is torch's own, so that a place in it says nothing to a user."""
        return self.shorten(file).startswith("torch/") and self.is_package(file)

    def site(self, stack: Iterable[Frame]) -> Site:
        """The place that a stack (innermost first) stands for: its innermost frame outside torch.

        The text of its lines, and of those of every frame, is put into `sources`.
        """
        frames = list(stack)
        if not frames:
            return Site(file="?", line=0, function="?")
        innermost = next((frame for frame in frames if not self.is_torch(frame.file)), frames[0])
        outside = frames[frames.index(innermost) :]
        for frame in outside:
            self.quote(frame.file, frame.line)
        return Site(
            file=self.shorten(innermost.file),
            line=innermost.line,
            function=innermost.function,
            code=linecache.getline(innermost.file, innermost.line).strip(),
            stack=[self.shown(frame) for frame in reversed(outside)],
        )

    def shown(self, frame: Frame) -> str:
        """``file:line function``."""
        return f"{self.shorten(frame.file)}:{frame.line} {frame.function}"

    def quote(self, file: str, line: int) -> None:
        """Keep the text of a line and of those around it."""
        lines = self.sources.setdefault(self.shorten(file), {})
        for number in range(max(1, line - _LINES_AROUND), line + _LINES_AROUND + 1):
            text = linecache.getline(file, number)
            if text:
                lines[number] = text.rstrip("\n")
        if not lines:
            del self.sources[self.shorten(file)]
