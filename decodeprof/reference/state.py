"""What does a decode step change, and where does it live?

Every value that one step hands to the next is a device tensor that the step updates in place, at
an address that never moves: the token, its position, the text so far, and whether it has ended.
The host therefore needs none of them to launch the next step: it can run ahead, and a captured
graph finds each value where it was.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from decodeprof.reference.cache import StaticKVCache

MOST_STOPS = 8
"""Stop tokens that fit; the tensor has a fixed size so that a graph serves any set of them."""
NO_TOKEN = -1


@dataclass(frozen=True)
class State:
    """One entry for each row.

    Attributes:
        token: ``[rows]`` int64: the last token made; the next step's input.
        position: ``[rows]`` int64: where that token stands.
        made: ``[rows, capacity + 1]`` int64: every token made, at its position. The last one
            stands one past the cache, since nothing was computed from it.
        stopped: ``[rows]`` bool: a stop token has been made.
        stops: ``[MOST_STOPS]`` int64, filled up with −1.
    """

    token: Tensor
    position: Tensor
    made: Tensor
    stopped: Tensor
    stops: Tensor

    @classmethod
    def empty(cls, *, rows: int, capacity: int, device: torch.device) -> State:
        """A state in which no row has begun."""

        def zeros(*shape: int) -> Tensor:
            return torch.zeros(shape, dtype=torch.int64, device=device)

        return cls(
            token=zeros(rows),
            position=zeros(rows),
            made=zeros(rows, capacity + 1),
            stopped=torch.zeros(rows, dtype=torch.bool, device=device),
            stops=torch.full((MOST_STOPS,), NO_TOKEN, device=device),
        )

    def slice(self, start: int, stop: int) -> State:
        """The same memory seen as these rows alone."""
        rows = slice(start, stop)
        return State(
            token=self.token[rows],
            position=self.position[rows],
            made=self.made[rows],
            stopped=self.stopped[rows],
            stops=self.stops,
        )

    def set_stops(self, stops: Collection[int]) -> None:
        """Set the tokens that end a text.

        Raises:
            ValueError: there are more than fit.
        """
        distinct = set(stops)
        if len(distinct) > MOST_STOPS:
            raise ValueError(f"{len(distinct)} stop tokens; at most {MOST_STOPS} fit")
        filled = [*distinct, *[NO_TOKEN] * (MOST_STOPS - len(distinct))]
        self.stops.copy_(on_device(filled, self.stops.device), non_blocking=True)

    def take(self, following: Tensor) -> None:
        """Make ``following [rows]`` the last token of every row, one position further on."""
        self.position.add_(1)
        self.made.scatter_(1, self.position[:, None], following[:, None])
        self.token.copy_(following)
        self.stopped.logical_or_((following[:, None] == self.stops).any(1))

    def begin(self, following: Tensor, length: int) -> None:
        """Start rows whose prompt of this length is followed by ``following [rows]``."""
        self.position.fill_(length - 1)
        self.stopped.fill_(False)
        self.take(following)


def on_device(values: list[int], device: torch.device) -> Tensor:
    """Integers on the device, without waiting for it: from pinned memory, as part of its queue."""
    pin = device.type == "cuda"
    return torch.tensor(values, pin_memory=pin).to(device, non_blocking=True)


@contextmanager
def put_back(
    state: State, cache: StaticKVCache, *, steps: int, generator: torch.Generator
) -> Iterator[None]:
    """Let up to `steps` decode steps run, then restore all that they changed.

    Warming up and capturing run the step for real, perhaps amid a text. Inside, every row stands at
    position 0, so the steps write the first slots of the cache and no others: only those, the
    state's tensors and the random numbers need keeping.
    """
    tensors = (state.token, state.position, state.made, state.stopped)
    slots = [tensor[:, :, :steps] for tensor in (*cache.keys, *cache.values)]
    kept = [tensor.clone() for tensor in (*tensors, *slots)]
    random = generator.get_state()
    state.position.zero_()
    try:
        yield
    finally:
        for tensor, before in zip((*tensors, *slots), kept, strict=True):
            tensor.copy_(before)
        generator.set_state(random)
