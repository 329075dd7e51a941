"""How fast is the command line? One table: ``make bench``, or ``python -m tests.bench.speed``.

Each figure is the fastest of several runs of a whole process, as a shell would start it: other
work on the machine can only add to it. Goals stand beside what was measured; nothing here fails.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from decodeprof.cli.pages import page_text
from decodeprof.diagnosis.pipeline import analyze_path
from decodeprof.recording import read_recording
from tests.export.perfetto.many import written

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
RUNS = 5
EVENTS = 1_000_000


def fastest(arguments: list[str], runs: int = RUNS) -> float:
    """Seconds of the fastest run of a command."""
    times = []
    for _ in range(runs):
        began = time.perf_counter()
        subprocess.run(arguments, check=True, capture_output=True)
        times.append(time.perf_counter() - began)
    return min(times)


def page_seconds(path: Path, runs: int = RUNS) -> float:
    """Seconds of the fastest making of a page, from what was analysed to its bytes."""
    analyzed = analyze_path(path)
    times = []
    for _ in range(runs):
        began = time.perf_counter()
        page_text(analyzed)
        times.append(time.perf_counter() - began)
    return min(times)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("traces", nargs="*", type=Path, help="more traces to analyse")
    options = parser.parse_args()
    table = Table("what", "measured", "goal", title=f"fastest of {RUNS}", title_justify="left")
    tool = [sys.executable, "-m", "decodeprof"]
    table.add_row("decodeprof --help", f"{fastest([*tool, '--help']):.2f} s", "< 0.3 s")
    recordings = sorted(p.parent for p in FIXTURES.glob("*/recording.json"))
    for path in [*options.traces, *recordings]:
        seconds = fastest([*tool, "analyze", str(path)])
        size = path.stat().st_size if path.is_file() else (path / "trace.json.gz").stat().st_size
        table.add_row(f"analyze {path.name} ({size / 1e6:.1f} MB)", f"{seconds:.2f} s", "< 3 s")
        table.add_row(f"page of {path.name}, once analysed", f"{page_seconds(path):.2f} s", "< 2 s")
    with tempfile.TemporaryDirectory() as folder:
        taken = written(EVENTS, Path(folder) / "timeline.pftrace")
    what = f"timeline of {EVENTS:,} events ({taken.file_bytes / 1e6:.0f} MB)"
    table.add_row(what, f"{taken.seconds:.1f} s of CPU", "")
    table.add_row(f"{what}: memory", f"{taken.grown_bytes / 1e6:.0f} MB more", "< 100 MB more")
    for path in recordings:
        for done in read_recording(path).passes:
            if done.name == "profile":
                text = f"{done.seconds:.1f} s"
                table.add_row(f"profile pass of {path.name}, as recorded", text, "< 60 s")
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
