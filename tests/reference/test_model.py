"""The model computes what transformers' Qwen3 computes, and the plain loop continues a prompt."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from decodeprof.reference import demo, plain
from decodeprof.reference.cache import GrowingKVCache
from decodeprof.reference.model import (
    QWEN3_0P6B,
    QWEN3_8B,
    TINY,
    Model,
    ModelConfig,
    random_model,
    step_weight_bytes,
)
from tests.reference.qwen3 import as_transformers

UNTIED = dataclasses.replace(TINY, tied=False, heads=6, kv_heads=2, head_dim=8, layers=3)


def forward(model: Model, tokens: torch.Tensor) -> torch.Tensor:
    positions = torch.arange(tokens.shape[1]).expand_as(tokens)
    cache = GrowingKVCache(model.config.layers, device=torch.device("cpu"))
    logits = model(tokens, positions, cache)
    assert isinstance(logits, torch.Tensor)
    return logits


@pytest.mark.parametrize("config", [TINY, UNTIED], ids=["tied", "untied"])
def test_logits_equal_those_of_transformers(config: ModelConfig) -> None:
    model = random_model(config, seed=3)
    theirs = as_transformers(model)
    tokens = torch.randint(config.vocab_size, (2, 33), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        expected = theirs(input_ids=tokens).logits
    torch.testing.assert_close(forward(model, tokens), expected, atol=1e-4, rtol=0)


def test_greedy_text_equals_that_of_transformers() -> None:
    model = random_model(TINY, seed=5)
    prompt = demo.prompt(model, 9)
    ours = plain.generate(model, prompt, 24)
    theirs = as_transformers(model).generate(
        torch.tensor([prompt]), max_new_tokens=24, do_sample=False, eos_token_id=None
    )
    assert ours == theirs[0, len(prompt) :].tolist()
    assert len(set(ours)) > 12, "a text that repeats itself would prove little"


def test_the_norm_weights_matter() -> None:
    model = random_model(TINY)
    tokens = torch.arange(5)[None]
    before = forward(model, tokens)
    with torch.no_grad():
        model.layers[1].attention.k_norm.weight.mul_(3)
    assert not torch.allclose(before, forward(model, tokens), atol=1e-3)


def test_a_token_does_not_see_later_ones() -> None:
    model = random_model(TINY)
    tokens = torch.arange(10)[None]
    changed = tokens.clone()
    changed[0, 7] = 99
    before, after = forward(model, tokens), forward(model, changed)
    assert torch.equal(before[:, :7], after[:, :7])
    assert not torch.allclose(before[:, 7:], after[:, 7:])


def test_only_gives_the_logits_of_one_query_a_row() -> None:
    model = random_model(TINY)
    tokens = torch.arange(12).view(2, 6)
    positions = torch.arange(6).expand_as(tokens)
    cache = GrowingKVCache(TINY.layers, device=torch.device("cpu"))
    some = model(tokens, positions, cache, only=torch.tensor([2, 5]))
    every = forward(model, tokens)
    assert some.shape == (2, 1, TINY.vocab_size)
    torch.testing.assert_close(some[:, 0], torch.stack((every[0, 2], every[1, 5])))


def test_random_weights_are_seeded() -> None:
    first, again, other = random_model(TINY), random_model(TINY), random_model(TINY, seed=1)
    assert torch.equal(first.embedding, again.embedding)
    assert not torch.equal(first.embedding, other.embedding)


@pytest.mark.parametrize(("config", "gigabytes"), [(QWEN3_0P6B, 1.19), (QWEN3_8B, 15.1)])
def test_weight_bytes_of_a_step(config: ModelConfig, gigabytes: float) -> None:
    model = Model(config, device=torch.device("meta"), dtype=torch.bfloat16)
    assert step_weight_bytes(model) / 1e9 == pytest.approx(gigabytes, rel=0.01)


def test_plain_loop_stops_after_a_stop_token() -> None:
    model = random_model(TINY)
    prompt = demo.prompt(model)
    text = plain.generate(model, prompt, 20)
    cut = plain.generate(model, prompt, 20, stop={text[6]})
    assert cut == text[: text.index(text[6]) + 1]


def test_plain_loop_refuses_an_empty_prompt() -> None:
    with pytest.raises(ValueError, match="empty"):
        plain.generate(random_model(TINY), [], 4)


def test_demo_makes_the_tokens_asked_for() -> None:
    assert len(demo.generate()) == 32
    assert demo.generate(5) == demo.generate(32)[:5]
