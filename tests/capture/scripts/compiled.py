"""A loop over a model that torch.compile has compiled in place."""

import torch
from torch import nn

torch.manual_seed(0)


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.linear(x))


model = Model()
model.compile(backend="eager")


@torch.no_grad()
def generate(n: int = 8) -> list[int]:
    return [int(model(torch.full((1, 8), float(step))).argmax()) for step in range(n)]
