"""Loops whose answer is known: a sync that costs nothing, and Python that a graph step waits for.

Each has a twin without its sync, so that what removing it wins can be measured.
"""

from __future__ import annotations

import time

import torch

SIZE = 8192
STEPS = 24
_state: dict[str, object] = {}


def _matrices() -> tuple[torch.Tensor, torch.Tensor]:
    if "a" not in _state:
        torch.manual_seed(0)
        _state["a"] = torch.randn(SIZE, SIZE, device="cuda", dtype=torch.bfloat16) / SIZE**0.5
        _state["x"] = torch.randn(SIZE, SIZE, device="cuda", dtype=torch.bfloat16)
    return _state["a"], _state["x"]  # type: ignore[return-value]


class Product(torch.nn.Module):
    """One large matrix product: a step that the device bounds."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Multiply by the fixed matrix."""
        return torch.mm(_matrices()[0], x)


product = Product()


def matmul_sync(new_tokens: int = STEPS) -> list[float]:
    """A large product a step, each read by the host."""
    x = _matrices()[1]
    out = []
    for _ in range(new_tokens):
        x = product(x)
        out.append(x[0, 0].item())
    return out


def matmul_free(new_tokens: int = STEPS) -> list[int]:
    """The same without the read."""
    x = _matrices()[1]
    for _ in range(new_tokens):
        x = product(x)
    return [0] * new_tokens


def _graph() -> tuple[torch.cuda.CUDAGraph, torch.Tensor]:
    if "graph" not in _state:
        weights = [
            torch.randn(1024, 1024, device="cuda", dtype=torch.bfloat16) / 32 for _ in range(100)
        ]
        x = torch.randn(1, 1024, device="cuda", dtype=torch.bfloat16)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())

        def step() -> torch.Tensor:
            y = x
            for w in weights:
                y = torch.nn.functional.silu(torch.nn.functional.linear(y, w))
            return y.float().sum()

        with torch.cuda.stream(side):
            step()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            total = step()
        _state["graph"], _state["total"] = graph, total
        _state["keep"] = (weights, x)
    return _state["graph"], _state["total"]  # type: ignore[return-value]


def _python(milliseconds: float) -> None:
    until = time.perf_counter() + milliseconds / 1000
    while time.perf_counter() < until:
        pass


def _graph_loop(new_tokens: int, *, milliseconds: float, sync: bool) -> list[float]:
    graph, total = _graph()
    out = []
    for _ in range(new_tokens):
        graph.replay()
        out.append(float(int(total)) if sync else 0.0)
        _python(milliseconds)
    return out


def graph_sync_02(new_tokens: int = STEPS) -> list[float]:
    """A graph step, `int(token)`, and 0.2 ms of Python."""
    return _graph_loop(new_tokens, milliseconds=0.2, sync=True)


def graph_free_02(new_tokens: int = STEPS) -> list[float]:
    """The same without the read."""
    return _graph_loop(new_tokens, milliseconds=0.2, sync=False)


def graph_sync_1(new_tokens: int = STEPS) -> list[float]:
    """A graph step, `int(token)`, and 1 ms of Python."""
    return _graph_loop(new_tokens, milliseconds=1.0, sync=True)


def graph_free_1(new_tokens: int = STEPS) -> list[float]:
    """The same without the read."""
    return _graph_loop(new_tokens, milliseconds=1.0, sync=False)


def graph_sync_3(new_tokens: int = STEPS) -> list[float]:
    """A graph step, `int(token)`, and 3 ms of Python."""
    return _graph_loop(new_tokens, milliseconds=3.0, sync=True)


def graph_free_3(new_tokens: int = STEPS) -> list[float]:
    """The same without the read."""
    return _graph_loop(new_tokens, milliseconds=3.0, sync=False)
