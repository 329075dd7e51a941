"""Several traces on one command line: which files are meant, and how are they reported?"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from decodeprof.cli.options import Output, say
from decodeprof.cli.pages import Page, write_ranks_page
from decodeprof.errors import EXIT_COULD_NOT, UsageError
from decodeprof.recording import RECORDING_FILE
from decodeprof.report.names import cleaned

_TRACES = (".json", ".json.gz", ".sqlite", ".nsys-rep")


def traces_of(paths: Sequence[Path]) -> list[Path]:
    """The traces that some paths name: a folder with no recording in it stands for its files.

    Raises:
        UsageError: a trace is named twice.
    """
    found: list[Path] = []
    for path in paths:
        found += _in_folder(path) or [path]
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
