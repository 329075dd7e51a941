"""Decode and prefill steps of many shapes, each with the twin that a prediction is about.

A workload is a step without arguments. Its loop launches it kernel by kernel; its twin replays it
as one CUDA graph, leaves its read out, or compiles it. Everything is built at the first call.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable

import torch

from decodeprof import step as mark
from decodeprof.reference import demo
from decodeprof.reference.cache import StaticKVCache
from decodeprof.reference.decoder import FastDecoder
from decodeprof.reference.jobs import KernelOptions
from decodeprof.reference.sampling import GREEDY
from decodeprof.reference.state import State

Step = Callable[[], torch.Tensor]

CAPACITY = 512
HF_CAPACITY = 2048
"""Steps until `transformers`' cache, which counts them by itself, is full: it is never reset."""
TOY_DEPTH = 32
TOY_WIDTH = 2048
LARGE_BATCH = 4096
"""Rows at which one product of the toy takes longer than the launch of three kernels."""
READ_KERNELS = 60
WARM_UP_STEPS = 3
STEPS = 32


def decode(rows: int) -> Step:
    """One greedy token for each of so many rows, on the 0.6B shape and a static cache."""
    model = demo.setup()
    device, dtype = model.embedding.device, model.embedding.dtype
    cache = StaticKVCache.zeros(
        model.config, rows=rows, capacity=CAPACITY, device=device, dtype=dtype
    )
    state = State.empty(rows=rows, capacity=CAPACITY, device=device)
    generator = torch.Generator(device)

    def run() -> torch.Tensor:
        logits = model(state.token[:, None], state.position[:, None], cache)[:, 0]
        state.take(GREEDY(logits, generator))
        # Any number of steps: what a position holds does not change what a step costs.
        state.position.remainder_(CAPACITY)
        return state.token

    return run


def prompt(length: int) -> Step:
    """One prompt of this length, its last token's logits."""
    model = demo.setup()
    device, dtype = model.embedding.device, model.embedding.dtype
    cache = StaticKVCache.zeros(model.config, rows=1, capacity=length, device=device, dtype=dtype)
    tokens = torch.randint(0, 512, (1, length), device=device)
    positions = torch.arange(length, device=device)[None]
    last = positions[:, -1].clone()
    return lambda: model(tokens, positions, cache, only=last)


def transformers_static() -> Step:
    """One forward of `transformers`' own Qwen3 of the same shape, on its static cache."""
    from transformers import StaticCache

    from tests.gpu.targets import hf_generate

    cache = StaticCache(config=hf_generate.config(), max_cache_len=HF_CAPACITY)
    token = torch.zeros((1, 1), dtype=torch.int64, device=hf_generate.DEVICE)
    position = torch.full((1,), 40, device=hf_generate.DEVICE)
    mask = torch.ones((1, 1, 1, HF_CAPACITY), dtype=torch.bool, device=hf_generate.DEVICE)

    def run() -> torch.Tensor:
        out = hf_generate.model(
            input_ids=token,
            position_ids=position[None],
            cache_position=position,
            past_key_values=cache,
            attention_mask=mask,
            use_cache=True,
        )
        token.copy_(out.logits[:, -1].argmax(-1, keepdim=True))
        return token

    return run


def toy(rows: int) -> Step:
    """So many rows through `TOY_DEPTH` times product, SiLU and addition."""
    weights = [
        torch.randn(TOY_WIDTH, TOY_WIDTH, device="cuda", dtype=torch.bfloat16) / TOY_WIDTH**0.5
        for _ in range(TOY_DEPTH)
    ]
    x = torch.randn(rows, TOY_WIDTH, device="cuda", dtype=torch.bfloat16)

    def run() -> torch.Tensor:
        y = x
        for weight in weights:
            y = torch.nn.functional.silu(y @ weight) + x
        return y

    return run


def medium() -> Step:
    """Kernels that each last a few times as long as their launch."""
    x = torch.randn(READ_KERNELS, 30_000_000, device="cuda", dtype=torch.bfloat16)
    out = torch.empty_like(x[0])

    def run() -> torch.Tensor:
        for row in x:
            torch.add(row, 1.0, out=out)
        return out

    return run


BUILDS: dict[str, Callable[[], Step]] = {
    "batch1": lambda: decode(1),
    "batch16": lambda: decode(16),
    "batch128": lambda: decode(128),
    "prompt16": lambda: prompt(16),
    "prompt1024": lambda: prompt(1024),
    "hf_static": transformers_static,
    "toy1": lambda: toy(1),
    "toy4096": lambda: toy(LARGE_BATCH),
    "medium": medium,
}


@functools.cache
def built(name: str) -> Step:
    """A workload's step; the same each time."""
    with torch.no_grad():
        return BUILDS[name]()


@functools.cache
def captured(name: str) -> Step:
    """The same step as one graph."""
    run = built(name)
    with torch.no_grad():
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(WARM_UP_STEPS):
                run()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            result = run()

    def replay() -> torch.Tensor:
        graph.replay()
        return result

    return replay


@functools.cache
def compiled(name: str) -> Step:
    """The same step compiled, its fused kernels in one graph."""
    made: Step = torch.compile(built(name))
    with torch.no_grad():
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(WARM_UP_STEPS):
                made()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            made()
    return lambda: graph.replay()  # type: ignore[func-returns-value]


def loop(run: Step, new_tokens: int, *, reads: bool = False, python_ms: float = 0.0) -> list[int]:
    """So many steps, each marked; the host reads a result of each if asked to, then works."""
    read = 0
    with torch.no_grad():
        for _ in range(new_tokens):
            with mark():
                result = run()
                if reads:
                    read += int(result.flatten()[0])
                until = time.perf_counter() + python_ms / 1000
                while time.perf_counter() < until:
                    pass
    return [read] * new_tokens


def batch1(new_tokens: int = STEPS) -> list[int]:
    """Batch 1."""
    return loop(built("batch1"), new_tokens)


def batch16(new_tokens: int = STEPS) -> list[int]:
    """Batch 16."""
    return loop(built("batch16"), new_tokens)


def batch128(new_tokens: int = STEPS) -> list[int]:
    """Batch 128."""
    return loop(built("batch128"), new_tokens)


def prompt16(new_tokens: int = STEPS) -> list[int]:
    """Prompts of 16 tokens."""
    return loop(built("prompt16"), new_tokens)


def prompt1024(new_tokens: int = STEPS) -> list[int]:
    """Prompts of 1,024 tokens."""
    return loop(built("prompt1024"), new_tokens)


def hf_static(new_tokens: int = STEPS) -> list[int]:
    """The forward of `transformers` on a static cache."""
    return loop(built("hf_static"), new_tokens)


def toy1(new_tokens: int = STEPS) -> list[int]:
    """The toy, one row."""
    return loop(built("toy1"), new_tokens)


def toy4096(new_tokens: int = STEPS) -> list[int]:
    """The toy, many rows: bound by the device."""
    return loop(built("toy4096"), new_tokens)


@functools.cache
def _normed() -> FastDecoder:
    return FastDecoder(
        demo.setup(), CAPACITY, joined=True, kernels=KernelOptions(norm=True, place=True)
    )


def joined(new_tokens: int = STEPS) -> list[int]:
    """Joined projections and two Triton kernels, launched one by one."""
    return _normed().generate(demo.prompt(demo.setup()), new_tokens)


@functools.cache
def _batch16_compiled() -> FastDecoder:
    return FastDecoder(demo.setup(), CAPACITY, mode="compile", rows=16, joined=True)


def batch16_compiled(new_tokens: int = STEPS) -> list[int]:
    """Batch 16, compiled, with graphs of the compiler's own."""
    prompts = [demo.prompt(demo.setup())] * 16
    return _batch16_compiled().generate_batch(prompts, new_tokens)[0]


def toy4096_read(new_tokens: int = STEPS) -> list[int]:
    """The toy, many rows, each step's result read."""
    return loop(built("toy4096"), new_tokens, reads=True)


def medium_read(new_tokens: int = STEPS) -> list[int]:
    """Medium kernels, each step's result read, and half a millisecond of Python after it."""
    return loop(built("medium"), new_tokens, reads=True, python_ms=0.5)


def graph_read_02(new_tokens: int = STEPS) -> list[int]:
    """Batch 1 as a graph, its token read, and 0.2 ms of Python."""
    return loop(captured("batch1"), new_tokens, reads=True, python_ms=0.2)


def graph_read_1(new_tokens: int = STEPS) -> list[int]:
    """Batch 1 as a graph, its token read, and 1 ms of Python."""
    return loop(captured("batch1"), new_tokens, reads=True, python_ms=1.0)


def graph_read_3(new_tokens: int = STEPS) -> list[int]:
    """Batch 1 as a graph, its token read, and 3 ms of Python."""
    return loop(captured("batch1"), new_tokens, reads=True, python_ms=3.0)
