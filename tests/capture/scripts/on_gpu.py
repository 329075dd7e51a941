"""Loops on a GPU: eager with a sync a token, replaying a graph, compiled, and out of memory."""

import torch
from torch import nn

torch.manual_seed(0)
WIDTH = 256


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(64, WIDTH)
        self.blocks = nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(8)))
        self.head = nn.Linear(WIDTH, 64)

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        return self.head(torch.tanh(self.blocks(self.embed(input_ids))))


model = Model().cuda()


@torch.no_grad()
def eager(max_new_tokens: int = 40) -> list[int]:
    ids = torch.tensor([[1, 2, 3]], device="cuda")
    tokens = []
    for _ in range(max_new_tokens):
        last = model(ids)[:, -1].argmax(-1, keepdim=True)
        tokens.append(int(last))
        ids = last
    torch.cuda.synchronize()
    return tokens


graphs: list[tuple[torch.cuda.CUDAGraph, torch.Tensor]] = []


@torch.no_grad()
def graphed(max_new_tokens: int = 40) -> list[int]:
    """Captures in its first call, replays in all."""
    if not graphs:
        token = torch.ones(1, 1, dtype=torch.int64, device="cuda")
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            model(token)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            token.copy_(model(token).argmax(-1))
        graphs.append((graph, token))
    graph, token = graphs[0]
    model(torch.tensor([[1, 2, 3]], device="cuda"))
    out = []
    for _ in range(max_new_tokens - 1):
        graph.replay()
        out.append(token.clone())
    return [int(each) for each in [token, *out]]


counter = torch.zeros(1, device="cuda")


@torch.compile(mode="reduce-overhead")
def _step(x: torch.Tensor) -> torch.Tensor:
    counter.add_(1)
    return model(x).argmax(-1)


@torch.no_grad()
def compiled(max_new_tokens: int = 20) -> list[int]:
    """Changes a buffer in place, so that compile uses no graph."""
    token = torch.ones(1, 1, dtype=torch.int64, device="cuda")
    return [int(_step(token)) for _ in range(max_new_tokens)]


def too_large() -> None:
    torch.empty(1 << 50, device="cuda")


def on_the_cpu_after_all(max_new_tokens: int = 12) -> list[int]:
    values = torch.ones(16)
    return [int((values * step).sum()) for step in range(max_new_tokens)]
