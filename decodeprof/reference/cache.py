"""Where are the keys and values of earlier tokens kept, and at which address?

A cache that grows by `torch.cat` copies itself every step and lives at a new address after it, so
no CUDA graph can be replayed over it. A cache of fixed shape, indexed by absolute position, is
written in place (two kernels of 2 µs a layer, for any length) and never moves: the precondition of
every later stage.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from decodeprof.reference.model import ModelConfig


class GrowingKVCache:
    """Keys and values appended token by token: every row holds the same, growing length."""

    def __init__(self, layers: int, *, device: torch.device) -> None:
        self._keys: list[Tensor | None] = [None] * layers
        self._values: list[Tensor | None] = [None] * layers
        self._device = device
        self.length = 0
        """Tokens held before the call that is running."""

    def key_positions(self, query_length: int) -> Tensor:
        """0, 1, … up to the last of the tokens that are about to come, ``[keys]``."""
        return torch.arange(self.length + query_length, device=self._device)

    def update(
        self, layer: int, keys: Tensor, values: Tensor, positions: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Append ``[rows, kv_heads, queries, head_dim]``; `positions` must follow on."""
        del positions  # the next ones, by construction
        old_keys, old_values = self._keys[layer], self._values[layer]
        if old_keys is not None and old_values is not None:
            keys = torch.cat((old_keys, keys), dim=2)
            values = torch.cat((old_values, values), dim=2)
        self._keys[layer], self._values[layer] = keys, values
        if layer == len(self._keys) - 1:
            self.length = keys.shape[2]
        return keys, values


class StaticKVCache:
    """Keys and values of fixed shape, indexed by absolute position; rows are slots of requests.

    A request owns a row, so rows may hold different lengths. A write goes to (row, position), a
    read returns the whole capacity with the position of every slot, and what a row has not
    written yet is hidden by ``key_position <= query_position`` alone: a query at position p has
    been preceded by writes to 0 … p of its row. A row may be handed to a new request as it is,
    since that one overwrites each slot before it can see it.

    Slots start as zeros, not uninitialised: a hidden slot gets weight 0, and 0 times a NaN that
    happened to lie in fresh memory is NaN.

    Attributes:
        keys, values: for each layer ``[rows, kv_heads, capacity, head_dim]``, each its own
            allocation: torch.compile treats two written views of one allocation as one input.
        slot_positions: 0 … capacity − 1.
    """

    def __init__(
        self, keys: Sequence[Tensor], values: Sequence[Tensor], slot_positions: Tensor
    ) -> None:
        self.keys = tuple(keys)
        self.values = tuple(values)
        self.slot_positions = slot_positions

    @classmethod
    def zeros(
        cls,
        config: ModelConfig,
        *,
        rows: int,
        capacity: int,
        device: torch.device,
        dtype: torch.dtype,
    ) -> StaticKVCache:
        """An empty cache for this many requests of up to `capacity` tokens each."""
        shape = (rows, config.kv_heads, capacity, config.head_dim)

        def empty_slots() -> list[Tensor]:
            return [torch.zeros(shape, device=device, dtype=dtype) for _ in range(config.layers)]

        return cls(empty_slots(), empty_slots(), torch.arange(capacity, device=device))

    @property
    def rows(self) -> int:
        """Requests that fit."""
        return self.keys[0].shape[0]

    @property
    def capacity(self) -> int:
        """Tokens that a row can hold."""
        return self.keys[0].shape[2]

    def slice(self, start: int, stop: int) -> StaticKVCache:
        """The same memory seen as these rows alone: a live batch, or one request's slot."""
        return StaticKVCache(
            [keys[start:stop] for keys in self.keys],
            [values[start:stop] for values in self.values],
            self.slot_positions,
        )

    def key_positions(self, query_length: int) -> Tensor:
        """The position of every slot, ``[capacity]``, however many queries there are."""
        del query_length
        return self.slot_positions

    def write(self, layer: int, keys: Tensor, values: Tensor, positions: Tensor) -> None:
        """Scatter ``[rows, kv_heads, queries, head_dim]`` to each row's `positions`."""
        index = positions[:, None, :, None].expand_as(keys)
        self.keys[layer].scatter_(2, index, keys)
        self.values[layer].scatter_(2, index, values)

    def read(self, layer: int) -> tuple[Tensor, Tensor, Tensor]:
        """All keys and values of a layer, and the position of every slot."""
        return self.keys[layer], self.values[layer], self.slot_positions

    def update(
        self, layer: int, keys: Tensor, values: Tensor, positions: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Write, then return the whole capacity."""
        self.write(layer, keys, values, positions)
        return self.keys[layer], self.values[layer]
