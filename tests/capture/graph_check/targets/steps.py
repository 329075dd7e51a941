"""Steps that a graph can hold, and steps that it cannot."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import nn

WIDTH = 8
REFUSED = "CUDA error: operation not permitted when stream is capturing\nCUDA kernel errors might"


def weights() -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(WIDTH, WIDTH, generator=generator)


class Static(nn.Module):
    """State in buffers that stay."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(weights())
        self.register_buffer("kv", torch.zeros(64, WIDTH))
        self.register_buffer("position", torch.zeros(1, dtype=torch.long))

    def begin(self) -> torch.Tensor:
        self.kv.zero_()
        self.position.zero_()
        return torch.ones(1, WIDTH, device="cuda")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.kv.index_copy_(0, self.position, x)
        self.position.add_(1)
        return torch.tanh(self.kv.sum(0, keepdim=True) @ self.w)


class Counting(nn.Module):
    """A number that Python counts goes into the result."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(weights())
        self.position = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.position += 1
        return torch.tanh(x @ self.w + self.position)


class Growing(nn.Module):
    """A cache that is bound to a longer tensor in each step."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(weights())
        self.cache = torch.zeros(0, WIDTH, device="cuda")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.cache = torch.cat([self.cache, x])
        return torch.tanh(self.cache.sum(0, keepdim=True) @ self.w)


class Refusing(nn.Module):
    """As a GPU would, it refuses to be captured."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.tanh(x)
        if torch.cuda.is_current_stream_capturing():
            raise RuntimeError(REFUSED)
        return y


class Speechless(Exception):
    def __str__(self) -> str:
        raise ValueError("nothing to say")


class RefusingWithoutWords(nn.Module):
    """Its own error cannot be told."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if torch.cuda.is_current_stream_capturing():
            raise Speechless
        return torch.tanh(x)


class Twice(nn.Module):
    """Nothing stands against a graph of it."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(2 * x)


class Drawing(nn.Module):
    """Random numbers go into the result."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x + torch.randn_like(x))


static_model = Static().to("cuda")
counting_model = Counting().to("cuda")
refusing_model = Refusing()
drawing_model = Drawing()
twice_model = Twice()


@torch.no_grad()
def static(new_tokens: int = 12) -> list[float]:
    x = static_model.begin()
    for _ in range(new_tokens):
        x = static_model(x)
    return list(x[0].tolist())


@torch.no_grad()
def streamed(new_tokens: int = 12) -> Iterator[int]:
    x = static_model.begin()
    for _ in range(new_tokens):
        x = static_model(x)
        yield int(x.argmax())


@torch.no_grad()
def counting(new_tokens: int = 12) -> list[float]:
    counting_model.position = 0
    x = torch.ones(1, WIDTH, device="cuda")
    for _ in range(new_tokens):
        x = counting_model(x)
    return list(x[0].tolist())


@torch.no_grad()
def refusing_without_words(new_tokens: int = 12) -> list[float]:
    model, x = RefusingWithoutWords(), torch.ones(1, WIDTH, device="cuda")
    for _ in range(new_tokens):
        x = model(x)
    return list(x[0].tolist())


@torch.no_grad()
def two_models(new_tokens: int = 12) -> list[float]:
    x = static_model.begin()
    for _ in range(new_tokens):
        x = twice_model(static_model(x))
    return list(x[0].tolist())


@torch.no_grad()
def kept(new_tokens: int = 12) -> list[float]:
    x, results = static_model.begin(), []
    for _ in range(new_tokens):
        x = static_model(x)
        results.append(x)
    return [float(each.sum()) for each in results]


@torch.no_grad()
def made_anew(new_tokens: int = 12) -> list[float]:
    class Local(Twice):
        pass

    model, x = Local(), torch.ones(1, WIDTH, device="cuda")
    for _ in range(new_tokens):
        x = model(x)
    return list(x[0].tolist())


@torch.no_grad()
def growing(new_tokens: int = 12) -> list[int]:
    model = Growing().to("cuda")
    x = torch.ones(1, WIDTH, device="cuda")
    tokens = []
    for _ in range(new_tokens):
        x = model(x)
        tokens.append(int(x.argmax()))
    return tokens


@torch.no_grad()
def refusing(new_tokens: int = 12) -> list[float]:
    x = torch.ones(1, WIDTH, device="cuda")
    for _ in range(new_tokens):
        x = refusing_model(x)
    return list(x[0].tolist())


@torch.no_grad()
def refusing_outside(new_tokens: int = 12) -> list[float]:
    """The step can be captured; the loop's own code cannot."""
    x = static_model.begin()
    for _ in range(new_tokens):
        x = static_model(x)
        if torch.cuda.is_current_stream_capturing():
            raise RuntimeError(REFUSED)
    return list(x[0].tolist())


@torch.no_grad()
def drawing(new_tokens: int = 12) -> list[float]:
    torch.manual_seed(0)
    x = torch.ones(1, WIDTH, device="cuda")
    for _ in range(new_tokens):
        x = drawing_model(x)
    return list(x[0].tolist())


@torch.no_grad()
def batched(batch: int = 1, new_tokens: int = 12) -> list[float]:
    x = torch.ones(batch, WIDTH, device="cuda")
    w = static_model.w
    for _ in range(new_tokens):
        x = one_step(x, w, scale=0.5)
    return list(x[0].tolist())


def one_step(x: torch.Tensor, w: torch.Tensor, *, scale: float) -> torch.Tensor:
    return torch.tanh(x @ w) * scale


@torch.no_grad()
def by_position(new_tokens: int = 12) -> list[float]:
    x = torch.ones(1, WIDTH, device="cuda")
    for position in range(new_tokens):
        x = moved(x, position)
    return list(x[0].tolist())


def moved(x: torch.Tensor, position: int) -> torch.Tensor:
    return torch.tanh(x + position)


calls_made = 0


@torch.no_grad()
def global_counter(new_tokens: int = 12) -> list[float]:
    x = torch.ones(1, WIDTH, device="cuda")
    for _ in range(new_tokens):
        x = counted(x)
    return list(x[0].tolist())


def counted(x: torch.Tensor) -> torch.Tensor:
    global calls_made
    calls_made += 1
    return torch.tanh(x + 0.01 * calls_made)
