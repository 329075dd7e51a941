"""Steps whose graph is known beforehand: a baked counter, and `transformers` on a static cache."""

from __future__ import annotations

import torch
from torch import nn

WIDTH = 1024
STEPS = 32


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
