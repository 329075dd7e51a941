"""How fast is a trace read, and in how much memory, beside what else reads it?

    python -m tests.bench.loaders --peers /path/to/venv/bin/python --table reports/loader_bench.txt

Reads a generated trace in every way of `loader_ways`, each time in a process of its own. The peers
that decodeprof does not depend on (HolisticTraceAnalysis with its pandas) are looked for in the
environment whose interpreter `--peers` names. Ways take turns, so that other work on the machine
meets all of them; a way's time is that of its fastest run. Two times are told: that of the clock,
which other work adds to, and that of the processors, which says what one process takes where it is
alone. HTA's time grows with the square of the steps: traces of two models of one size in bytes are
read, one of few large steps, one of many small ones. HTA runs once for each.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from tests.bench import generate

ONE, TWO = "decodeprof, one process", "decodeprof, two processes"
FLOOR, PANDAS, HTA = "msgspec, floor", "json + pandas", "HTA"
_SCRIPT = Path(__file__).with_name("loader_ways.py")
_ROOT = Path(__file__).resolve().parents[2]
# More often, the looking would take a good share of a processor from what it looks at.
_LOOK_EVERY_S = 0.02


@dataclass(frozen=True)
class Taken:
    """What one way took for one file: the fastest run, the largest memory."""

    wall_s: float
    cpu_s: float
    private_bytes: int
    found: dict[str, Any]


@dataclass(frozen=True)
class Goal:
    """One of the aims, what was measured, and whether that is enough."""

    what: str
    aim: str
    measured: str
    met: bool


def run_once(way: str, path: Path, interpreter: str) -> Taken | str:
    """One reading in a process of its own; a text says why there is none."""
    command = [interpreter, str(_SCRIPT), way, str(path)]
    environment = {**os.environ, "PYTHONPATH": str(_ROOT), "OMP_NUM_THREADS": "1"}
    environment.pop("PYTHONHOME", None)
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment
        )
        private = 0
        while process.poll() is None:
            private = max(private, private_bytes(process.pid))
            time.sleep(_LOOK_EVERY_S)
        output = process.stdout.read() if process.stdout else ""
        if process.returncode:
            errors.seek(0)
            return errors.read().strip().rpartition("\n")[2][:80]
    found = json.loads(output.strip().splitlines()[-1])
    return Taken(found["wall_s"], found["cpu_s"], private, found)


def private_bytes(pid: int) -> int:
    """Memory that a process and those that it started have for themselves: no file's pages."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    except OSError:
        return 0
    lines = [line.split() for line in status.splitlines() if line.startswith("RssAnon:")]
    return sum(int(line[1]) << 10 for line in lines) + sum(private_bytes(int(c)) for c in children)


def measure(path: Path, ways: tuple[str, ...], *, peers: str, runs: int) -> dict[str, Taken | str]:
    """Read a file in each way, `runs` times in turn."""
    taken: dict[str, Taken | str] = {}
    for turn in range(runs):
        for way in ways:
            if way == HTA and turn:
                continue
            new = run_once(way, path, peers if way in (HTA, PANDAS) else sys.executable)
            taken[way] = _better(taken.get(way), new)
            print(f"{path.name}: {way}: {_told(new)}", file=sys.stderr)
    return taken


def _better(known: Taken | str | None, new: Taken | str) -> Taken | str:
    if not isinstance(known, Taken) or not isinstance(new, Taken):
        return known if isinstance(known, Taken) else new
    return Taken(
        wall_s=min(known.wall_s, new.wall_s),
        cpu_s=min(known.cpu_s, new.cpu_s),
        private_bytes=max(known.private_bytes, new.private_bytes),
        found={
            key: min(value, known.found[key]) if key.startswith("parse_") else value
            for key, value in new.found.items()
        },
    )


def _told(taken: Taken | str) -> str:
    if isinstance(taken, str):
        return taken
    size = taken.private_bytes / 1e6
    return f"{taken.wall_s:.2f} s, {taken.cpu_s:.2f} s of processors, {size:.0f} MB"


def table_of(title: str, taken: dict[str, Taken | str], *, plain_bytes: int, kernels: int) -> Table:
    """The ways side by side; how many times one process of decodeprof goes into each."""
    table = Table(title=title, title_justify="left")
    for column in ("way", "clock", "processors", "× decodeprof", "private memory", "× file",
                   "kernels", "kernel time"):  # fmt: skip
        table.add_column(column, justify="left" if column == "way" else "right")
    own = taken.get(ONE)
    for way, one in taken.items():
        if isinstance(one, str):
            table.add_row(way, one)
            continue
        ratio = f"{one.cpu_s / own.cpu_s:.1f}" if isinstance(own, Taken) else ""
        count = one.found.get("kernels")
        table.add_row(
            way, f"{one.wall_s:.2f} s", f"{one.cpu_s:.2f} s", ratio,
            f"{one.private_bytes / 1e6:,.0f} MB", f"{one.private_bytes / plain_bytes:.2f}",
            "" if count is None else f"{count / kernels:.1%}",
            f"{one.found['kernel_ns'] / 1e6:,.1f} ms" if "kernel_ns" in one.found else "",
        )  # fmt: skip
        if "parse_cpu_s" in one.found:
            found = one.found
            table.add_row(
                "  its parse alone", f"{found['parse_wall_s']:.2f} s",
                f"{found['parse_cpu_s']:.2f} s",
                f"{found['parse_cpu_s'] / own.found['parse_cpu_s']:.1f}"
                if isinstance(own, Taken) else "",
            )  # fmt: skip
    return table


def goals_of(taken: dict[str, dict[str, Taken | str]], *, plain_bytes: int) -> Iterator[Goal]:
    """The aims and what was measured, in one run; two processes by the clock, one by its own time.

    Args:
        taken: by file, then by way.
        plain_bytes: size of the plain file.
    """
    for name in ("trace.json", "small_steps.json"):
        yield from _beside_hta(taken[name], name)
    plain, large = taken["trace.json"], taken.get("large.json", {})
    one, two, packed = plain[ONE], plain[TWO], taken["trace.json.gz"][ONE]
    if not isinstance(one, Taken) or not isinstance(two, Taken):
        return
    for way in (one, two):
        name = ONE if way is one else TWO
        share = way.private_bytes / plain_bytes
        yield Goal(f"memory ÷ the plain file: {name}", "≤ 0.3", f"{share:.2f}", share <= 0.3)
    if isinstance(packed, Taken):
        ratio = packed.wall_s / one.wall_s
        yield Goal("gz ÷ plain, clock", "≤ 2", f"{ratio:.2f}", ratio <= 2)
    for name in (ONE, TWO):
        big = large.get(name)
        if isinstance(big, Taken):
            size = big.private_bytes / 1e6
            what = f"memory for the large file: {name}"
            yield Goal(what, "≤ 500 MB", f"{size:,.0f} MB", size <= 500)


def _beside_hta(taken: dict[str, Taken | str], name: str) -> Iterator[Goal]:
    one, two, hta = taken[ONE], taken[TWO], taken.get(HTA)
    if not isinstance(one, Taken) or not isinstance(two, Taken) or not isinstance(hta, Taken):
        return
    pairs = [
        ("usable ÷ one process", 65, hta.cpu_s, one.cpu_s),
        ("usable ÷ two processes, clock", 100, hta.wall_s, two.wall_s),
        ("parse ÷ one process's", 18, hta.found["parse_cpu_s"], one.found["parse_cpu_s"]),
        (
            "parse ÷ two processes', clock", 22,
            hta.found["parse_wall_s"], two.found["parse_wall_s"],
        ),
    ]  # fmt: skip
    for what, aim, theirs, ours in pairs:
        yield _times(f"{name}: HTA, {what}", aim, theirs / ours)


def _times(what: str, aim: int, measured: float) -> Goal:
    return Goal(what, f"≥ {aim} ×", f"{measured:.0f} ×", measured >= aim)


def pack(path: Path) -> Path:
    """The packed file beside a plain one, as `export_chrome_trace` packs."""
    packed = path.with_name(path.name + ".gz")
    with path.open("rb") as source, gzip.open(packed, "wb", compresslevel=6) as target:
        shutil.copyfileobj(source, target, 1 << 20)
    return packed


def main() -> None:
    """Measure, print the tables, and write them where asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--megabytes", type=float, default=500)
    parser.add_argument("--large", type=float, default=1500, help="0: no large file")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument(
        "--peers", default=sys.executable, help="interpreter that has the peers installed"
    )
    parser.add_argument("--without", nargs="*", default=[], choices=(FLOOR, PANDAS, HTA))
    parser.add_argument("--folder", type=Path, help="where the traces are, or are made")
    parser.add_argument("--table", type=Path, help="a file to write the tables to")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        report(options, options.folder or Path(temporary))


def report(options: argparse.Namespace, folder: Path) -> None:
    """Make the traces, measure, and tell."""
    ways = {
        "trace.json": (ONE, TWO, FLOOR, PANDAS, HTA),
        "trace.json.gz": (ONE, PANDAS),
        "small_steps.json": (ONE, TWO, HTA),
        "large.json": (ONE, TWO),
        "large.json.gz": (ONE,),
    }
    tables: list[Table] = []
    taken: dict[str, dict[str, Taken | str]] = {}
    for name, megabytes, model in (
        ("trace.json", options.megabytes, generate.QWEN),
        ("small_steps.json", options.megabytes, generate.GPT2),
        ("large.json", options.large, generate.QWEN),
    ):
        if not megabytes:
            continue
        path = folder / name
        truth = generate.write(path, steps=generate.steps_for(megabytes, model), model=model)
        size = path.stat().st_size
        packed = (pack(path),) if f"{name}.gz" in ways else ()
        for file in (path, *packed):
            before = os.getloadavg()[0]
            chosen = tuple(way for way in ways[file.name] if way not in options.without)
            found = measure(file, chosen, peers=options.peers, runs=options.runs)
            taken[file.name] = found
            title = (
                f"{file.name}: {file.stat().st_size / 1e6:,.0f} MB, {size / 1e6:,.0f} MB of text; "
                f"{model.name}: {truth.steps:,} steps of {model.kernels} kernels and "
                f"{truth.ops // truth.steps:,} ops; load {before:.1f} to {os.getloadavg()[0]:.1f}"
            )
            tables.append(table_of(title, found, plain_bytes=size, kernels=truth.kernels))
    goals = Table("aim", "wanted", "measured", "met", title="aims", title_justify="left")
    for goal in goals_of(taken, plain_bytes=(folder / "trace.json").stat().st_size):
        goals.add_row(goal.what, goal.aim, goal.measured, "yes" if goal.met else "no")
    for console in _consoles(options.table):
        for table in (*tables, goals):
            console.print(table)
        console.print(NOTE)


NOTE = (
    "Each row is a process of its own: fastest run, largest memory (pages that belong to no file, "
    "children included). Clock: from the open file to the result. Processors: user and system "
    "time of all its processes, imports included but in rows of a parse alone. '× decodeprof' "
    "divides the processors' times. HTA runs once, through TraceAnalysis, whose constructor also "
    "traces its own allocations; it leaves out the last profiler step and rounds times to µs. "
    "Load: what else wanted the machine's processors, and the ways themselves; where it is above "
    "their number, the clock says little."
)


def _consoles(path: Path | None) -> Iterator[Console]:
    yield Console(width=120)
    if path is not None:
        with path.open("w", encoding="utf-8") as file:
            yield Console(width=120, file=file, color_system=None)


if __name__ == "__main__":
    main()
