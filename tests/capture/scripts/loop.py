"""Small loops of every kind that a target may be."""

import asyncio
import sys
import threading
from collections.abc import AsyncIterator, Iterator

import torch
from torch import nn

from decodeprof import step

VOCABULARY = 64
torch.manual_seed(0)


class Tiny(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, 16)
        self.block = nn.Linear(16, 16)
        self.head = nn.Linear(16, VOCABULARY, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        return self.head(torch.tanh(self.block(self.embed(input_ids))))


model = Tiny()


@torch.no_grad()
def generate(model: Tiny, prompt: list[int], max_new_tokens: int = 16) -> list[int]:
    print("a line on stdout")
    print("a line on stderr", file=sys.stderr)
    ids = torch.tensor([prompt])
    tokens = list(prompt)
    for _ in range(max_new_tokens):
        token = int(model(ids)[0, -1].argmax())
        tokens.append(token)
        ids = torch.tensor([[token]])
    return tokens


def generate_sequence(model: Tiny, max_seqlen: int, batch_size: int) -> torch.Tensor:
    tokens = torch.zeros(batch_size, 1, dtype=torch.int64)
    with torch.no_grad():
        for _ in range(max_seqlen):
            last = model(tokens[:, -1:])[:, -1].argmax(-1, keepdim=True)
            tokens = torch.cat([tokens, last], 1)
    return tokens[:, 1:]


def stream(n: int = 12) -> Iterator[int]:
    yield from generate(model, [1, 2], n)[2:]


def arithmetic(n: int = 12) -> Iterator[int]:
    value = torch.ones(4)
    for _ in range(n):
        value = value * 3 % 61
        yield int(value[0])


async def generate_async(n: int = 12) -> list[int]:
    ids = torch.tensor([[3]])
    tokens = []
    for _ in range(n):
        tokens.append(int(model(ids)[0, -1].argmax()))
        await asyncio.sleep(0)
    return tokens


class Engine:
    """Made by `build`; its queue belongs to the event loop in which it is first used."""

    def __init__(self, model: Tiny) -> None:
        self.model = model
        self.queue: asyncio.Queue[int] = asyncio.Queue(maxsize=1)

    async def stream(self, prompt: list[int], n: int = 8) -> AsyncIterator[int]:
        prompt.append(0)
        ids = torch.tensor([prompt])
        for _ in range(n):
            await self.queue.put(int(self.model(ids)[0, -1].argmax()))
            token = await self.queue.get()
            yield token
            ids = torch.tensor([[token]])


async def build() -> Engine:
    return Engine(model)


def arguments() -> dict[str, object]:
    return {"model": model, "prompt": [5, 6, 7]}


def pieces(n: int = 10) -> list[int]:
    """Calls the parts of a model by themselves."""
    token = torch.tensor([[1]])
    out = []
    for _ in range(n):
        hidden = model.embed(token)
        hidden = model.block(hidden)
        hidden = model.block(hidden)
        token = model.head(hidden).argmax(-1)
        out.append(int(token))
    return out


@torch.no_grad()
def tensors_alone(n: int = 10) -> list[int]:
    """Computes with a model's tensors, and calls no module."""
    token, out = 1, []
    for _ in range(n):
        hidden = torch.tanh(model.block.weight @ model.embed.weight[token])
        token = int((model.head.weight @ hidden).argmax())
        out.append(token)
    return out


def in_a_thread(n: int = 10) -> list[int]:
    """Runs its loop in a thread of its own."""
    made: list[int] = []
    thread = threading.Thread(target=lambda: made.extend(generate(model, [1], n)[1:]))
    thread.start()
    thread.join()
    return made


def endless() -> Iterator[int]:
    """Makes tokens until nobody asks for more."""
    token = 1
    while True:
        token = int(model(torch.tensor([[token]]))[0, -1].argmax())
        yield token


def fresh(n: int = 10) -> list[int]:
    """Makes its module anew in each call."""
    own = Tiny()
    return [int(own(torch.tensor([[step]]))[0, -1].argmax()) for step in range(n)]


@torch.no_grad()
def marked(n: int = 10) -> list[int]:
    """Says itself what its steps are; no module is called."""
    tokens = []
    with step("prefill"):
        tokens.append(int((model.head.weight @ model.block.weight).argmax()))
    for _ in range(n - 1):
        with step():
            tokens.append(int((model.head.weight @ model.block.weight).argmax()))
    return tokens


def two_a_forward(n: int = 12) -> list[int]:
    """Makes two tokens of each forward."""
    tokens: list[int] = []
    while len(tokens) < n:
        tokens += model(torch.tensor([[1, 2]]))[0].argmax(-1).tolist()
    return tokens
