"""Targets for lint: each loop does one thing that a GPU run, or a graph, would suffer from."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import torch
from torch import nn

import decodeprof

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
STEPS = 8
torch.manual_seed(0)


class Tiny(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(32, 8)
        self.head = nn.Linear(8, 32)

    def forward(self, ids: torch.Tensor, shift: float = 0.0) -> torch.Tensor:
        return self.head(torch.tanh(self.embed(ids) + shift))


model = Tiny().to(DEVICE).eval()


@torch.no_grad()
def clean(steps: int = STEPS) -> torch.Tensor:
    """Nothing stands against a graph of it: state stays where it is."""
    token = torch.ones(1, 1, dtype=torch.int64, device=DEVICE)
    position = torch.zeros(1, dtype=torch.int64, device=DEVICE)
    made = torch.zeros(steps, dtype=torch.int64, device=DEVICE)
    for _ in range(steps):
        token.copy_(model(token)[:, -1].argmax(-1, keepdim=True))
        made.index_copy_(0, position, token[0])
        position.add_(1)
    return made.cpu()


@torch.no_grad()
def replaying(steps: int = STEPS) -> list[int]:
    """The step is a graph already, captured before the loop; its token is read."""
    token = torch.ones(1, 1, dtype=torch.int64, device=DEVICE)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        token.copy_(model(token)[:, -1].argmax(-1, keepdim=True))
    made = []
    for _ in range(steps):
        graph.replay()
        made.append(int(token))
    return made


@torch.no_grad()
def reading_while_captured(steps: int = STEPS) -> list[int]:
    """A value is read while the step is captured, which a GPU does not let happen."""
    token = torch.ones(1, 1, dtype=torch.int64, device=DEVICE)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        token.copy_(model(token)[:, -1].argmax(-1, keepdim=True))
        first = int(token)
    for _ in range(steps):
        graph.replay()
    return [first] * steps


@torch.no_grad()
def marked(steps: int = STEPS) -> float:
    """No module is called: the steps are marked."""
    x, weight = torch.ones(1, 8, device=DEVICE), torch.eye(8, device=DEVICE)
    for number in range(steps):
        with decodeprof.step():
            x.copy_(torch.tanh(x @ weight + number))
    return float(x.sum())


@torch.no_grad()
def counter(steps: int = STEPS) -> torch.Tensor:
    """A Python number that grows enters the step."""
    token = torch.ones(1, 1, dtype=torch.int64, device=DEVICE)
    for number in range(steps):
        token.copy_(model(token, number * 0.5)[:, -1].argmax(-1, keepdim=True))
    return token.cpu()


@torch.no_grad()
def growing(steps: int = STEPS) -> torch.Tensor:
    """The tokens are joined to a tensor that grows."""
    tokens = torch.ones(1, 1, dtype=torch.int64, device=DEVICE)
    for _ in range(steps):
        last = model(tokens[:, -1:])[:, -1].argmax(-1, keepdim=True)
        tokens = torch.cat([tokens, last], 1)
    return tokens.cpu()


@torch.no_grad()
def branching(steps: int = STEPS) -> list[int]:
    """What runs depends on the token that was read."""
    token = torch.ones(1, 1, dtype=torch.int64, device=DEVICE)
    made = []
    for number in range(steps):
        logits = model(token)[:, -1]
        if number % 2:
            logits = logits.softmax(-1)
        token.copy_(logits.argmax(-1, keepdim=True))
        made.append(int(token))
    return made


@torch.no_grad()
def keeping(steps: int = STEPS) -> list[int]:
    """Results of the step are kept in a list and read at the end."""
    token = torch.ones(1, 1, dtype=torch.int64, device=DEVICE)
    kept = []
    for _ in range(steps):
        last = model(token)[:, -1].argmax(-1, keepdim=True)
        kept.append(last)
        token.copy_(last)
    return torch.cat(kept).view(-1).tolist()


@torch.no_grad()
def copying(steps: int = STEPS) -> torch.Tensor:
    """A tensor of the host is copied, without blocking, in each step."""
    token = torch.ones(1, 1, dtype=torch.int64, device=DEVICE)
    for _ in range(steps):
        bias = torch.zeros(32).to(DEVICE, non_blocking=True)
        token.copy_((model(token)[:, -1] + bias).argmax(-1, keepdim=True))
    return token.cpu()


@torch.no_grad()
def own_generator(steps: int = STEPS) -> torch.Tensor:
    """Samples with a generator of its own."""
    generator = torch.Generator(device=DEVICE).manual_seed(1)
    token = torch.ones(1, 1, dtype=torch.int64, device=DEVICE)
    for _ in range(steps):
        token.copy_(torch.multinomial(model(token)[0].softmax(-1), 1, generator=generator))
    return token.cpu()


def stream(steps: int = STEPS) -> Iterator[int]:
    yield from branching(steps)


def fails(steps: int = STEPS) -> None:
    branching(steps)
    raise ValueError("half-way")


class Speechless(Exception):
    def __str__(self) -> str:
        raise ValueError("nothing to say")


def fails_to_say_why() -> None:
    raise Speechless


def needs_extension() -> None:
    import flash_attn  # noqa: F401


def needs_registered() -> None:
    torch.ops.some_engine.fused_norm(torch.ones(1, device=DEVICE))


@torch.no_grad()
def seeding(steps: int = STEPS) -> torch.Tensor:
    """Random numbers begin anew in each step."""
    token = torch.ones(1, 1, dtype=torch.int64, device=DEVICE)
    for number in range(steps):
        torch.manual_seed(number)
        logits = model(token)[:, -1]
        token.copy_((logits + torch.rand_like(logits)).argmax(-1, keepdim=True))
    return token.cpu()


@torch.no_grad()
def asking(steps: int = STEPS) -> torch.Tensor:
    """The host asks an event, and keeps copies that the device writes to."""
    token = torch.ones(1, 1, dtype=torch.int64, device=DEVICE)
    event, kept = torch.cuda.Event(), []
    for _ in range(steps):
        token.copy_(model(token)[:, -1].argmax(-1, keepdim=True))
        kept.append(token.to("cpu", non_blocking=True))
        event.record()
        while not event.query():
            pass
    return torch.cat(kept)


@torch.no_grad()
def mixing(steps: int = STEPS) -> torch.Tensor:
    """An offset stays on the host; a number without dimensions may."""
    token = torch.ones(1, 1, dtype=torch.int64, device=DEVICE)
    offset, number = torch.zeros(1, 32), torch.tensor(2.0)
    for _ in range(steps):
        logits = model(token)[:, -1] * number
        token.copy_((logits + offset).argmax(-1, keepdim=True))
    return token.cpu()


def hangs() -> None:
    while True:
        time.sleep(0.01)


calls: list[int] = []


@torch.no_grad()
def ends_early(steps: int = STEPS, at: int = 0, hang: bool = False) -> list[int]:
    """Its second call ends, or stands still, in one of its steps."""
    calls.append(steps)
    token = torch.ones(1, 1, dtype=torch.int64, device=DEVICE)
    made = []
    for number in range(steps):
        token.copy_(model(token, number * 0.5)[:, -1].argmax(-1, keepdim=True))
        if len(calls) == 2 and number == at:
            if hang:
                hangs()
            raise ValueError("half-way")
        made.append(int(token))
    return made


def leaves() -> None:
    os._exit(3)


def changes_torch(steps: int = STEPS) -> torch.Tensor:
    torch.set_default_device(DEVICE)
    torch.set_default_dtype(torch.float64)
    torch.set_grad_enabled(False)
    return clean(steps)
