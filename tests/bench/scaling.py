"""Is `analyze` linear in events? Traces of several shapes at 1, 4 and 16 times a size.

    python -m tests.bench.scaling --table reports/analyze_bench.txt

From the open file to the judged diagnosis, in processors' time, which other work on the machine
adds to least. A linear analysis takes 4 times as long for 4 times the trace; the last column is
what 16 times the trace takes ÷ what 4 times takes. The first shape is also run at the size of
users' large traces, as a command of its own, with its memory.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from rich.console import Console
from rich.table import Table

from decodeprof.diagnosis.pipeline import analyze_path
from tests.bench import generate
from tests.bench.loaders import private_bytes
from tests.build import TraceBuilder
from tests.scenarios import decode_loop, forward, graph_loop, take_token
from tests.write_kineto import write

TIMES = (1, 4, 16)
RUNS = 2
_LOOK_EVERY_S = 0.01


def unmarked(size: int) -> TraceBuilder:
    """A loop whose steps nobody marked: they are found in the sequence of launches."""
    b = TraceBuilder()
    for step in range(size):
        b.work(20_000)
        forward(b, query=1 if step else 16, layers=20, kernel_ns=2_000)
        take_token(b)
    return b


def frames(size: int) -> TraceBuilder:
    """Python frames around every op, with names of their own, and shapes that change."""
    b = TraceBuilder()
    for step in range(size):
        b.step("decode")
        for at in range(60):
            with (
                b.frame(f"<built-in {step * 60 + at:x}>"),
                b.op("aten::mm", shapes=((step + 1, 3),)),
            ):
                b.launch("gemm", 2_000)
        take_token(b)
    return b


def streams(size: int) -> TraceBuilder:
    """Five streams that overlap and wait for each other."""
    b = TraceBuilder()
    for _ in range(size):
        b.step("decode")
        for at in range(80):
            length = 2_000 if at % 5 else 30_000
            with b.op("aten::mm", shapes=((2, 3), (3, 4))):
                b.launch(f"gemm{at % 7}", length, stream=7 + at % 5)
            if at % 10 == 0:
                b.stream_wait(waiting=7 + (at + 1) % 5, on=7 + at % 5, recorded=True)
        take_token(b)
    return b


def names(size: int) -> TraceBuilder:
    """No two kernels of one name."""
    b = TraceBuilder()
    for step in range(size):
        b.step("decode")
        for at in range(60):
            with b.op(f"aten::op_{step}_{at}", shapes=((step + 1, at + 3), (at + 3, 4))):
                b.launch(f"kernel_{step}_{at}", 2_000)
        take_token(b)
    return b


def syncs(size: int) -> TraceBuilder:
    """Sixty blocking reads a step."""
    b = TraceBuilder()
    for _ in range(size):
        b.step("decode")
        for _ in range(60):
            with b.op("aten::item"):
                b.copy(1_000)
                b.sync(stream=7, recorded=True)
    return b


SHAPES: dict[str, Callable[[int], TraceBuilder]] = {
    "eager steps": lambda size: decode_loop(steps=size, layers=20),
    "steps without marks": unmarked,
    "graph replays of 300 nodes": lambda size: graph_loop(replays=size, nodes=300),
    "few steps, many layers": lambda size: decode_loop(steps=3, layers=6 * size),
    "Python frames": frames,
    "five streams": streams,
    "all names different": names,
    "60 reads a step": syncs,
}


def sizes_of(shape: str, size: int, folder: Path) -> Iterator[tuple[int, float]]:
    """Bytes of a trace, and the seconds that its analysis took, for each of `TIMES`."""
    path = folder / "trace.json"
    for times in TIMES:
        write(path, SHAPES[shape](size * times).build())
        analyze_path(path)  # What is imported or compiled once is no part of it.
        taken = []
        for _ in range(RUNS):
            began = time.process_time()
            analyze_path(path)
            taken.append(time.process_time() - began)
        yield path.stat().st_size, min(taken)


def command(path: Path) -> tuple[float, float, int]:
    """Clock and processors' seconds of `decodeprof analyze`, and the memory that is its own."""
    began = time.perf_counter()
    script = (
        "import os, sys\nfrom decodeprof.cli import main\n"
        "try:\n    main()\nfinally:\n    print(sum(os.times()[:4]), file=sys.stderr)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script, "analyze", str(path)],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    private = 0
    while process.poll() is None:
        private = max(private, private_bytes(process.pid))
        time.sleep(_LOOK_EVERY_S)
    clock = time.perf_counter() - began
    last = process.stderr.read().strip().splitlines()[-1] if process.stderr else "0"
    return clock, float(last), private


def main() -> None:
    """Print the tables, and write them where asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--size", type=int, default=30, help="steps of the smallest trace")
    parser.add_argument("--megabytes", type=float, default=500)
    parser.add_argument("--table", type=Path)
    options = parser.parse_args()
    table = Table("trace", *(f"{t} ×" for t in TIMES), "16 × ÷ 4 ×", title="analyze, processors")
    whole = Table("analyze, end to end", "measured", "wanted", "met")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for shape in SHAPES:
            found = list(sizes_of(shape, options.size, folder))
            cells = [f"{seconds:.2f} s, {size / 1e6:.1f} MB" for size, seconds in found]
            table.add_row(shape, *cells, f"{found[-1][1] / found[-2][1]:.1f}")
            print(shape, *cells, sep="; ", file=sys.stderr)
        path = folder / "large.json"
        generate.write(path, steps=generate.steps_for(options.megabytes))
        clock, processors, private = command(path)
        whole.title = f"{path.stat().st_size / 1e6:,.0f} MB"
        whole.add_row("clock", f"{clock:.1f} s", "< 15 s", "yes" if clock < 15 else "no")
        whole.add_row("processors", f"{processors:.1f} s", "", "")
        met = "yes" if private < 1.5e9 else "no"
        whole.add_row("private memory", f"{private / 1e6:,.0f} MB", "< 1,500 MB", met)
    Console(width=110).print(table, whole)
    if options.table is not None:
        with options.table.open("w", encoding="utf-8") as file:
            Console(width=110, file=file, color_system=None).print(table, whole)


if __name__ == "__main__":
    main()
