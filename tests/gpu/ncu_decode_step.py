"""Shape-counted bytes against the DRAM counters of Nsight Compute, kernel by kernel.

    PYTHONPATH=. python tests/gpu/ncu_decode_step.py
        [--ncu PATH] [--engine MODULE:FUNCTION] [--json FILE]

Runs the same decode step in two processes, since only one may use the counters: once under
torch.profiler, whose trace decodeprof counts, once under `ncu`. Kernels are matched by their order;
a name that differs ends the comparison. Kernels over 1 MB are printed; exit code 1 when one of them
differs by more than 5 %.

`ncu` empties the caches before each kernel and counts what crosses the DRAM's pins until it ends: a
result that still lies in L2 then has not been written yet, so that a kernel with a large result may
read low. The column of bytes read alone shows whether it does. A kernel also reads its own code and
constants, which shapes do not show: on an H200 a reduction read 76 KB beside 1.2 MB of values, and
80 KB beside 4.9 MB.

An engine is a function without arguments that returns a step: a function that decodes one token,
and may be called again and again. The default is a few layers of an 8B shape on a static cache.
"""

from __future__ import annotations

import argparse
import csv
import importlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

WARM_UP_STEPS = 4
"""Steps before the measured one, in both processes: libraries load, caches reach a length."""
MARK = "the measured step"
LARGE_BYTES = 1_000_000
TOLERANCE = 0.05
TOTAL, READ = "dram__bytes.sum", "dram__bytes_read.sum"


@dataclass(frozen=True)
class Kernel:
    """One kernel, as one of the two processes saw it; bytes are None where it does not know."""

    name: str
    total_bytes: int | None
    read_bytes: int | None


@dataclass(frozen=True)
class Row:
    """One kernel as both saw it."""

    order: int
    name: str
    counted_bytes: int
    counted_read_bytes: int
    dram_bytes: int
    dram_read_bytes: int

    @property
    def difference(self) -> float:
        """(counted - measured) ÷ measured."""
        return self.counted_bytes / self.dram_bytes - 1 if self.dram_bytes else float("inf")


def engine(
    *,
    device: str = "cuda",
    layers: int = 3,
    width: int = 4096,
    heads: int = 32,
    kv_heads: int = 8,
    inner: int = 12_288,
    vocabulary: int = 151_936,
    batch: int = 4,
    capacity: int = 4096,
) -> Callable[[], None]:
    """A decoder's step in plain PyTorch: norms, projections, cache writes, attention, the head."""
    import torch
    from torch import Tensor
    from torch.nn import functional as nn

    head, dtype = width // heads, torch.bfloat16
    torch.manual_seed(0)

    def weight(*shape: int) -> Tensor:
        return torch.randn(shape, device=device, dtype=dtype).mul_(shape[-1] ** -0.5)

    sizes = [((heads + 2 * kv_heads) * head, width), (width, width), (2 * inner, width),
             (width, inner)]  # fmt: skip
    stack = [[weight(*size) for size in sizes] for _ in range(layers)]
    scale = torch.ones(width, device=device, dtype=dtype)
    embedding, output = weight(vocabulary, width), weight(vocabulary, width)
    shape = (batch, kv_heads, capacity, head)
    caches = [[torch.zeros(shape, device=device, dtype=dtype) for _ in "kv"] for _ in range(layers)]
    token = torch.zeros((batch, 1), device=device, dtype=torch.long)
    position = torch.full((1,), capacity // 2, device=device, dtype=torch.long)
    # Expanded over heads, as a static cache's mask is.
    visible = torch.arange(capacity, device=device) <= position
    visible = visible.view(1, 1, 1, capacity).expand(batch, 1, 1, capacity)

    def step() -> None:
        x = nn.embedding(token, embedding)
        for (qkv, out, gate_up, down), (keys, values) in zip(stack, caches, strict=True):
            joined = nn.linear(nn.rms_norm(x, (width,), scale), qkv)
            q, k, v = (
                joined.view(batch, 1, -1, head)
                .transpose(1, 2)
                .split([heads, kv_heads, kv_heads], dim=1)
            )
            keys.index_copy_(2, position, k)
            values.index_copy_(2, position, v)
            mixed = nn.scaled_dot_product_attention(
                q, keys, values, attn_mask=visible, enable_gqa=True
            )
            x = x + nn.linear(mixed.transpose(1, 2).reshape(batch, 1, width), out)
            gate, up = nn.linear(nn.rms_norm(x, (width,), scale), gate_up).chunk(2, dim=-1)
            x = x + nn.linear(nn.silu(gate) * up, down)
        token.copy_(nn.linear(nn.rms_norm(x, (width,), scale), output).argmax(-1))

    return step


def load(name: str | None) -> Callable[[], None]:
    """The step of an engine named as MODULE:FUNCTION, or of the default one."""
    if name is None:
        return engine()
    module, _, function = name.partition(":")
    step: Callable[[], None] = getattr(importlib.import_module(module), function)()
    return step


def run_counted(engine_name: str | None, path: Path) -> None:
    """Child: the step under torch.profiler; writes its trace."""
    import torch
    from torch.profiler import ProfilerActivity, profile, record_function

    with torch.inference_mode():
        step = load(engine_name)
        for _ in range(WARM_UP_STEPS - 1):
            step()
        torch.cuda.synchronize()
        activities = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
        with profile(activities=activities, record_shapes=True) as profiler:
            # A profiler may miss the first kernels: the last warm-up step takes their place.
            step()
            torch.cuda.synchronize()
            with record_function(MARK):
                step()
            torch.cuda.synchronize()
    profiler.export_chrome_trace(str(path))


def run_measured(engine_name: str | None) -> None:
    """Child of ncu: the same step between the marks that ncu profiles."""
    import torch

    with torch.inference_mode():
        step = load(engine_name)
        for _ in range(WARM_UP_STEPS):
            step()
        torch.cuda.synchronize()
        torch.cuda.profiler.start()
        step()
        torch.cuda.synchronize()
        torch.cuda.profiler.stop()


def counted(path: Path) -> list[Kernel]:
    """The measured step's kernels in launch order, as decodeprof counts them."""
    from decodeprof.analysis.traffic import kernel_traffic
    from decodeprof.ingest.read import read_trace
    from decodeprof.model.trace import NONE, ActivityKind

    trace = read_trace(path)
    traffic = kernel_traffic(trace)
    mark = [i for i, name in enumerate(trace.annotations.name) if trace.names[name] == MARK]
    start, end = trace.annotations.start_ns[mark[0]], trace.annotations.end_ns[mark[0]]
    device = trace.device
    launched = np.where(device.call == NONE, -1, trace.calls.start_ns[device.call])
    kernels = (device.kind == ActivityKind.KERNEL) & (launched >= start) & (launched < end)
    rows = np.flatnonzero(kernels)
    found = []
    for row in rows[np.argsort(launched[rows], kind="stable")].tolist():
        own = traffic.counted_at[row] == row
        found.append(
            Kernel(
                name=trace.names[device.name[row]],
                total_bytes=int(traffic.bytes[row]) if own else None,
                read_bytes=int(traffic.read_bytes[row]) if own else None,
            )
        )
    return found


def measure(ncu: str, engine_name: str | None) -> list[Kernel]:
    """Run the step under ncu; its kernels in order."""
    command = [
        ncu, "--metrics", f"{TOTAL},{READ}", "--clock-control", "none",
        "--profile-from-start", "off", "--csv", "--page", "raw", "--print-units", "base",
        "--print-kernel-base", "demangled", sys.executable, __file__, "--child", "measured",
    ]  # fmt: skip
    command += ["--engine", engine_name] if engine_name else []
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    kernels = parse(done.stdout)
    if not kernels:
        sys.exit(f"ncu (exit code {done.returncode}) measured no kernel:\n{done.stdout[-4000:]}"
                 f"\n{done.stderr[-4000:]}")  # fmt: skip
    return kernels


def parse(text: str) -> list[Kernel]:
    """Read ncu's raw page as CSV: a header, a row of units, a row for each kernel."""
    lines = text.splitlines()
    begin = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
    if begin is None:
        return []
    found = []
    for row in csv.DictReader(lines[begin:]):
        if not (row["ID"] or "").isdigit():
            for column in (TOTAL, READ):
                assert row[column] == "byte", f"{column} is in {row[column]}"
            continue
        found.append(
            Kernel(
                name=row["Kernel Name"],
                total_bytes=_whole(row[TOTAL]),
                read_bytes=_whole(row[READ]),
            )
        )
    return found


def _whole(text: str) -> int:
    return round(float(text.replace(",", "")))


def base(name: str) -> str:
    """A kernel's own name, without return type, namespaces, template and arguments."""
    plain = re.sub(r"\(anonymous namespace\)::|<unnamed>::|\{[^}]*\}::", "", name)
    return re.split(r"[<(]", plain)[0].split()[-1].split("::")[-1]


def compare(ours: list[Kernel], theirs: list[Kernel]) -> list[Row]:
    """Match kernels by order.

    Raises:
        SystemExit: another number of kernels, or another one at some place.
    """
    for i, (mine, other) in enumerate(zip(ours, theirs, strict=False)):
        if base(mine.name) != base(other.name):
            sys.exit(f"kernel {i} is\n  {mine.name}\nin the trace and\n  {other.name}\nunder ncu")
    if len(ours) != len(theirs):
        sys.exit(f"{len(ours)} kernels in the trace, {len(theirs)} under ncu")
    return [
        Row(i, base(mine.name), mine.total_bytes, mine.read_bytes, other.total_bytes,
            other.read_bytes)
        for i, (mine, other) in enumerate(zip(ours, theirs, strict=True))
        if mine.total_bytes is not None and mine.read_bytes is not None
        and other.total_bytes is not None and other.read_bytes is not None
    ]  # fmt: skip


def show(rows: list[Row], ours: list[Kernel], theirs: list[Kernel]) -> int:
    """Print the kernels over 1 MB; returns how many of them differ by more than 5 %."""
    print(table(rows))
    known = {row.order for row in rows}
    unknown = [
        (i, base(mine.name), other.total_bytes)
        for i, (mine, other) in enumerate(zip(ours, theirs, strict=True))
        if i not in known and (other.total_bytes or 0) > LARGE_BYTES
    ]
    for i, name, size in unknown:
        print(f"{i:>4} {name[:44]:<44} {'not counted':>13} {size:>13,}")
    print(f"{len(ours)} kernels in the step")
    return len(off(rows))


def large(rows: list[Row]) -> list[Row]:
    """Those over 1 MB, by either."""
    return [row for row in rows if max(row.counted_bytes, row.dram_bytes) > LARGE_BYTES]


def off(rows: list[Row]) -> list[Row]:
    """Those over 1 MB that differ by more than 5 %."""
    return [row for row in large(rows) if abs(row.difference) > TOLERANCE]


def table(rows: list[Row]) -> str:
    """The kernels over 1 MB, a line each, and how many differ."""
    lines = [f"{'':>4} {'kernel':<44} {'counted':>13} {'DRAM':>13} {'diff':>7} {'read only':>9}"]
    for row in large(rows):
        read = row.counted_read_bytes / row.dram_read_bytes - 1 if row.dram_read_bytes else 0.0
        lines.append(
            f"{row.order:>4} {row.name[:44]:<44} {row.counted_bytes:>13,} {row.dram_bytes:>13,} "
            f"{row.difference:>+7.1%} {read:>+9.1%}"
        )
    total = sum(row.counted_bytes for row in rows), sum(row.dram_bytes for row in rows)
    lines.append(
        f"{len(rows)} kernels counted, {len(large(rows))} over 1 MB, {len(off(rows))} of them "
        f"off by more than {TOLERANCE:.0%}; all: {total[0]:,} counted, {total[1]:,} measured"
    )
    return "\n".join(lines)


HEAD = """Bytes counted from shapes, and what Nsight Compute's DRAM counters saw of the same step.
One decode step of three layers of an 8B shape, batch 4, static cache of 4,096 places, on an H200.
A reduction reads its own code and constants as well, some 77 KB, which shapes do not show.
"""


def report(rows: list[Row]) -> str:
    """The text of a run that was kept."""
    return f"{HEAD}\n{table(rows)}\n"


def main() -> int:
    """Compare, print, and say by the exit code whether they agree."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--ncu", default=shutil.which("ncu"), help="path of ncu")
    parser.add_argument("--engine", help="MODULE:FUNCTION that returns a step")
    parser.add_argument("--json", type=Path, help="write all rows here")
    parser.add_argument("--child", choices=["counted", "measured"], help=argparse.SUPPRESS)
    parser.add_argument("--trace", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child == "measured":
        run_measured(arguments.engine)
        return 0
    if arguments.child == "counted":
        run_counted(arguments.engine, arguments.trace)
        return 0
    if arguments.ncu is None:
        parser.error("ncu is not on the PATH: name it with --ncu")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        command = [sys.executable, __file__, "--child", "counted", "--trace", str(path)]
        command += ["--engine", arguments.engine] if arguments.engine else []
        subprocess.run(command, check=True)
        ours = counted(path)
    theirs = measure(arguments.ncu, arguments.engine)
    rows = compare(ours, theirs)
    if arguments.json is not None:
        arguments.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    return 1 if show(rows, ours, theirs) else 0


if __name__ == "__main__":
    sys.exit(main())
