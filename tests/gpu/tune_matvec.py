"""Time the matrix-vector kernel over block shapes on this GPU, beside cuBLAS, for each matrix.

    python tests/gpu/tune_matvec.py [--shape 0.6b --shape 8b]

Each matrix is replayed in a graph over copies of itself that together exceed the L2 cache, as a
model's layers do. What it prints is what `matvec.choose_blocks` is made of.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable

import torch

from decodeprof.reference.kernels.matvec import matvec
from decodeprof.reference.model import SHAPES

Blocks = tuple[int, int, int]
EARLY = 4
"""Of the fastest block shapes, how many are also timed with overlapping kernels."""
FOOTPRINT = 400e6
"""Bytes of copies: eight times the L2 cache of an H200."""


def timed_us(launch: Callable[[int], None], copies: int) -> float:
    """Time of one launch, in a graph of one for each copy."""
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        launch(0)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for index in range(copies):
            launch(index)
    times = []
    for _ in range(6):
        start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        graph.replay()
        stop.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(stop) * 1e3 / copies)
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shape", action="append", choices=["0.6b", "8b"])
    arguments = parser.parse_args()
    for shape in arguments.shape or ["0.6b", "8b"]:
        config = SHAPES[shape]
        hidden, wide = config.hidden_size, config.intermediate_size
        query, kv = config.heads * config.head_dim, config.kv_heads * config.head_dim
        for name, rows, size, norm, adds, gated in (
            ("qkv", query + 2 * kv, hidden, True, False, False),
            ("o", hidden, query, False, True, False),
            ("gate_up", wide, hidden, True, False, True),
            ("down", hidden, wide, False, True, False),
            ("head", config.vocab_size, hidden, True, False, False),
        ):
            tune(f"{shape} {name}", rows, size, norm=norm, adds=adds, gated=gated)


def tune(name: str, rows: int, size: int, *, norm: bool, adds: bool, gated: bool) -> None:
    total = rows * (2 if gated else 1)
    size_bytes = total * size * 2
    copies = max(2, round(FOOTPRINT / size_bytes))
    weights = torch.empty((copies, total, size), device="cuda", dtype=torch.bfloat16).normal_()
    x = torch.randn((1, size), device="cuda", dtype=torch.bfloat16)
    scale = torch.ones(size, device="cuda", dtype=torch.bfloat16)
    out = torch.zeros((1, rows), device="cuda", dtype=torch.bfloat16)

    def run(blocks: Blocks, *, early: bool) -> float:
        def launch(index: int) -> None:
            matvec(
                weights[index], x, out, norm=scale if norm else None,
                residual=out if adds else None, gated=gated, eps=1e-6, blocks=blocks,
                overlap=early,
            )  # fmt: skip

        return timed_us(launch, copies)

    linear = timed_us(lambda i: torch.nn.functional.linear(x, weights[i]), copies)
    timed = [(run(blocks, early=False), blocks) for blocks in candidates(rows, size, gated=gated)]
    timed.sort()
    early = sorted((run(blocks, early=True), blocks) for _, blocks in timed[:EARLY])
    print(
        f"{name} [{total}, {size}] {size_bytes / 1e6:.1f} MB, at 4.27 TB/s "
        f"{size_bytes / 4.27e6:.2f} µs; cuBLAS {linear:.2f} µs",
        flush=True,
    )
    for label, rows_of in (("one after another", timed), ("overlapping", early)):
        print(f"  {label}: " + "; ".join(f"{b} {t:.2f}" for t, b in rows_of[:4]), flush=True)


def candidates(rows: int, size: int, *, gated: bool) -> list[Blocks]:
    """Block shapes worth a try: 2 to 16 loads of 16 bytes a thread, at least 132 programs."""
    found = []
    for block_rows, block_size, warps in itertools.product(
        (1, 2, 4, 8, 16), (256, 512, 1024, 2048), (1, 2, 4, 8)
    ):
        elements = block_rows * block_size / (32 * warps) * (2 if gated else 1)
        if size % block_size or not 16 <= elements <= 128:
            continue
        # Unrolled loops beyond this compile slowly and gain nothing.
        if size // block_size > 16 or rows // block_rows < 132:
            continue
        found.append((block_rows, block_size, warps))
    return found


if __name__ == "__main__":
    main()
