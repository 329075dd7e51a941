"""Several traces on one command line: which files are meant, and how are they reported?"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from decodeprof.cli.options import Output, say
from decodeprof.cli.pages import Page, write_ranks_page
from decodeprof.errors import EXIT_COULD_NOT, InputError, UsageError
from decodeprof.recording import RECORDING_FILE
from decodeprof.report.names import cleaned

_TRACES = (".json", ".json.gz", ".sqlite", ".nsys-rep")
_MOST_NAMED = 8
"""Files of a folder that one line names."""


def traces_of(paths: Sequence[Path]) -> list[Path]:
    """The traces that some paths name: a folder with no recording in it stands for its files.

    A folder's JSON of something else is left out, and named in one line.

    Raises:
        UsageError: a trace is named twice.
        InputError: a folder holds JSON of something else alone.
    """
    from decodeprof.ingest.other_json import is_other_json

    found: list[Path] = []
    left_out: list[Path] = []
    for path in paths:
        names = _in_folder(path)
        others = [name for name in names if is_other_json(name)] if names else []
        if names and len(others) == len(names):
            raise InputError(
                f"`{path}` holds no trace",
                why=f"{_listed(others)}: JSON of something else",
                hint="a trace is what `prof.export_chrome_trace(path)` writes",
            )
        found += [name for name in names if name not in others] or [path]
        left_out += others
    if left_out:
        say(cleaned(f"left out, since it is no trace: {_listed(left_out)}"))
    seen: dict[str, Path] = {}
    for path in found:
        # Unlike Path.resolve, it takes a link to itself as it is: who reads it says what is wrong.
        first = seen.setdefault(os.path.realpath(path), path)
        if first is not path:
            raise UsageError(
                f"`{path}` is named twice",
                why="each rank has a trace of its own" if first == path else f"it is `{first}` too",
            )
    return found


def _listed(paths: Sequence[Path]) -> str:
    more = f" and {len(paths) - _MOST_NAMED} more" if len(paths) > _MOST_NAMED else ""
    return ", ".join(path.name for path in paths[:_MOST_NAMED]) + more


def _in_folder(path: Path) -> list[Path]:
    """A folder's traces, `rank2` before `rank10`; none of a file, or of a recording."""
    try:
        if not path.is_dir() or (path / RECORDING_FILE).is_file():
            return []
        names = [p for p in path.iterdir() if p.name.endswith(_TRACES) and p.name[0] != "."]
    except OSError:
        return []
    return sorted(names, key=lambda p: [int(t) if t.isdigit() else t for t in _split(p.name)])


def _split(name: str) -> list[str]:
    """Text and digits in turn, text first, so that lists of them can be compared."""
    return re.split(r"([0-9]+)", name)


def report_on(traces: Sequence[Path], output: Output, page: Page) -> int:
    """Diagnose several ranks' traces, report on them and write the page; the exit code.

    Raises:
        InputError: none of them can be analysed.
    """
    from decodeprof.diagnosis.ranks import analyze_ranks

    report = analyze_ranks(traces, told=lambda path: say(f"reading {cleaned(str(path))}"))
    if output.as_json:
        import msgspec

        from decodeprof.cli.show import write_data

        plain = msgspec.to_builtins(report, str_keys=True, order="deterministic")
        write_data(msgspec.json.format(msgspec.json.encode(plain), indent=1) + b"\n")
    else:
        from decodeprof.cli.show import show_view
        from decodeprof.report.ranks import ranks_view

        show_view(ranks_view(report), output)
        say("one rank, with its timeline: decodeprof analyze FILE")
    for failed in report.failed:
        say(cleaned(f"not analysed: {failed.name}: {failed.what}"))
    write_ranks_page(report, traces, page)
    return EXIT_COULD_NOT if report.failed else 0
