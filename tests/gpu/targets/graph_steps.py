"""Steps whose graph is known beforehand.

A baked counter, `transformers` on a static cache, the reference decoder at several batch sizes, and
a step that the host reads from halfway, with its twin: a graph before the read and one after it.
"""

from __future__ import annotations

import functools
import sys
import time

import torch
from torch import nn

from decodeprof.reference import demo
from decodeprof.reference.decoder import FastDecoder

WIDTH = 1024
STEPS = 32
PART_LAYERS = 60
CAPACITY = 512
WARM_UP_STEPS = 3
_SLOPE_STEPS = (100, 500)
_SLOPE_TIMES = 5


class Counting(nn.Module):
    """A step that adds a number that Python counts: no error tells that a graph bakes it in."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(8))
        self.position = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One step; the position goes into the result."""
        self.position += 1
        for layer in self.layers:
            x = torch.tanh(layer(x) + 0.1 * self.position)
        return x


_made: list[Counting] = []


@torch.no_grad()
def counter(new_tokens: int = STEPS) -> list[float]:
    """A loop over the counting step."""
    if not _made:
        torch.manual_seed(0)
        _made.append(Counting().cuda())
    model = _made[0]
    model.position = 0
    x = torch.ones(1, WIDTH, device="cuda")
    for _ in range(new_tokens):
        x = model(x)
    return [float(value) for value in x[0, :new_tokens].tolist()]


def static_cache(max_new_tokens: int = STEPS) -> torch.Tensor:
    """`generate` of `transformers` on a static cache, its forward not compiled."""
    from tests.gpu.targets.hf_generate import model, prompt

    tokens: torch.Tensor = model.generate(
        prompt,
        attention_mask=torch.ones_like(prompt),
        max_new_tokens=max_new_tokens,
        do_sample=False,
        pad_token_id=0,
        eos_token_id=511,
        cache_implementation="static",
        disable_compile=True,
    )
    return tokens


@functools.cache
def _decoder(rows: int) -> FastDecoder:
    return FastDecoder(demo.setup(), CAPACITY, rows=rows)


def batched(rows: int = 1, new_tokens: int = STEPS) -> list[list[int]]:
    """The reference decoder, launched kernel by kernel, so many prompts at a time."""
    prompt = demo.prompt(demo.setup())
    return _decoder(rows).generate_batch([prompt] * rows, new_tokens)


class TwoParts(nn.Module):
    """A step that the host reads from halfway: no graph can hold it, but one each side of it."""

    x: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        layers = [nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(2 * PART_LAYERS)]
        self.layers = nn.ModuleList(layers)
        self.register_buffer("x", torch.ones(1, WIDTH))

    def before(self) -> torch.Tensor:
        """What comes before the read."""
        y = self.x
        for layer in self.layers[:PART_LAYERS]:
            y = nn.functional.silu(layer(y)) + self.x
        self.x.copy_(y / y.norm())
        return self.x.sum()

    def after(self) -> torch.Tensor:
        """What comes after it."""
        y = self.x
        for layer in self.layers[PART_LAYERS:]:
            y = nn.functional.silu(layer(y)) + self.x
        self.x.copy_(y / y.norm())
        return self.x.sum()

    def forward(self) -> torch.Tensor:
        """One step."""
        total = self.before()
        if float(total) > WIDTH:
            raise ValueError("a vector of length 1 has no such sum")
        return self.after()


@functools.cache
def _parts() -> TwoParts:
    return TwoParts().to("cuda", torch.bfloat16)


@torch.no_grad()
def two_parts(new_tokens: int = STEPS) -> list[int]:
    """A loop over the step in two parts, launched kernel by kernel."""
    model = _parts()
    model.x.fill_(1.0)
    for _ in range(new_tokens):
        model()
    return [0] * new_tokens


@functools.cache
def _two_graphs() -> tuple[torch.cuda.CUDAGraph, torch.Tensor, torch.cuda.CUDAGraph]:
    model = _parts()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.no_grad(), torch.cuda.stream(side):
        for _ in range(WARM_UP_STEPS):
            model()
    torch.cuda.current_stream().wait_stream(side)
    first, second = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
    with torch.no_grad(), torch.cuda.graph(first):
        total = model.before()
    with torch.no_grad(), torch.cuda.graph(second):
        model.after()
    return first, total, second


def two_graphs(new_tokens: int = STEPS) -> list[int]:
    """The same loop with a graph for each part, and the read between them."""
    first, total, second = _two_graphs()
    _parts().x.fill_(1.0)
    for _ in range(new_tokens):
        first.replay()
        if float(total) > WIDTH:
            raise ValueError("a vector of length 1 has no such sum")
        second.replay()
    return [0] * new_tokens


def two_graphs_ns() -> list[int]:
    """A step of that loop, unprofiled: what 400 more of them take, a few times over."""
    found = []
    for _ in range(_SLOPE_TIMES):
        took = []
        for steps in _SLOPE_STEPS:
            torch.cuda.synchronize()
            begin = time.perf_counter_ns()
            two_graphs(steps)
            torch.cuda.synchronize()
            took.append(time.perf_counter_ns() - begin)
        found.append((took[1] - took[0]) // (_SLOPE_STEPS[1] - _SLOPE_STEPS[0]))
    return found


if __name__ == "__main__":
    sys.stdout.write(f"{two_graphs_ns()}\n")
