"""The static cache holds what the growing one holds, and hides what it does not hold."""

from __future__ import annotations

import dataclasses

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from decodeprof.reference.cache import GrowingKVCache, StaticKVCache
from decodeprof.reference.model import TINY, random_model
from decodeprof.reference.prefill import prefill

CPU = torch.device("cpu")
CAPACITY = 24
SHAPE = dataclasses.replace(TINY, layers=1)


def static(rows: int) -> StaticKVCache:
    return StaticKVCache.zeros(SHAPE, rows=rows, capacity=CAPACITY, device=CPU, dtype=torch.float32)


def random_tokens(queries: int, seed: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    keys, values = torch.randn(
        (2, 1, SHAPE.kv_heads, queries, SHAPE.head_dim), generator=generator
    ).unbind()
    return keys, values


@settings(deadline=None, max_examples=60, derandomize=True)
@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(1, 6), st.booleans()), min_size=1, max_size=12
    )
)
def test_what_a_query_sees_equals_the_growing_cache(
    events: list[tuple[int, int, bool]],
) -> None:
    """Rows grow by any steps in any order, and a row may be handed to a new request as it is."""
    cache = static(rows=3)
    growing = [GrowingKVCache(1, device=CPU) for _ in range(3)]
    for seed, (row, queries, new_request) in enumerate(events):
        if new_request or growing[row].length + queries > CAPACITY:
            growing[row] = GrowingKVCache(1, device=CPU)
        start = growing[row].length
        positions = torch.arange(start, start + queries)[None]
        keys, values = random_tokens(queries, seed)
        expected = growing[row].update(0, keys, values, positions)
        cache.slice(row, row + 1).update(0, keys, values, positions)
        for index, grown in enumerate(growing):
            if grown.length == 0:
                continue
            own_keys, own_values, slots = cache.slice(index, index + 1).read(0)
            visible = slots <= grown.length - 1
            held = grown.update(0, *random_tokens(0, 0), positions[:, :0])
            assert torch.equal(own_keys[:, :, visible], held[0])
            assert torch.equal(own_values[:, :, visible], held[1])
        assert expected[0].shape[2] == start + queries


def test_rows_of_different_lengths_are_written_by_one_call() -> None:
    cache = static(rows=2)
    keys, values = torch.randn(2, 2, SHAPE.kv_heads, 1, SHAPE.head_dim).unbind()
    cache.write(0, keys, values, torch.tensor([[3], [17]]))
    assert torch.equal(cache.keys[0][0, :, 3], keys[0, :, 0])
    assert torch.equal(cache.values[0][1, :, 17], values[1, :, 0])
    assert int(cache.keys[0].ne(0).any(-1).sum()) == 2 * SHAPE.kv_heads


def test_an_uninitialised_slot_could_poison_attention_and_a_zero_cannot() -> None:
    model = random_model(SHAPE)
    prompt = [3, 1, 4, 1, 5]
    clean, poisoned = static(rows=1), static(rows=1)
    poisoned.values[0][:, :, 20] = torch.nan
    assert prefill(model, prompt, clean).isfinite().all()
    assert prefill(model, prompt, poisoned).isnan().any(), "then zero-filling would be pointless"


def test_a_slice_is_the_same_memory() -> None:
    cache = static(rows=4)
    cache.slice(1, 3).keys[0].fill_(1)
    assert cache.keys[0].sum(dim=(1, 2, 3)).ne(0).tolist() == [False, True, True, False]
    assert (cache.slice(1, 3).rows, cache.slice(1, 3).capacity) == (2, CAPACITY)
