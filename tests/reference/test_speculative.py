"""Speculative decoding makes the very tokens of greedy decoding, whatever the draft proposes."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from decodeprof.reference import demo, plain
from decodeprof.reference.model import TINY, Model, random_model
from decodeprof.reference.speculative import SpeculativeDecoder, damped_model, first_layers

NEW = 40
FOUR = dataclasses.replace(TINY, layers=4)


@pytest.fixture(scope="module")
def model() -> Model:
    return random_model(FOUR)


@pytest.fixture(scope="module")
def damped() -> Model:
    return damped_model(FOUR, draft_layers=2)


@pytest.mark.parametrize("draft_tokens", [0, 1, 4])
@pytest.mark.parametrize("draft_layers", [1, 2, 4])
def test_the_tokens_are_those_of_the_plain_loop(
    model: Model, draft_tokens: int, draft_layers: int
) -> None:
    decoder = SpeculativeDecoder(model, 128, draft_tokens=draft_tokens, draft_layers=draft_layers)
    prompt = demo.prompt(model)
    made = decoder.generate_batch([prompt], NEW)
    assert made.texts == [plain.generate(model, prompt, NEW)]


def test_rows_that_come_on_at_different_paces_get_their_own_texts(damped: Model) -> None:
    prompts = [demo.prompt(damped, length) for length in (3, 16, 7)]
    decoder = SpeculativeDecoder(damped, 128, draft_tokens=4, draft_layers=2, rows=3)
    made = decoder.generate_batch(prompts, NEW)
    assert made.texts == [plain.generate(damped, prompt, NEW) for prompt in prompts]
    again = decoder.generate_batch(prompts[::-1], NEW)
    assert again.texts == made.texts[::-1]


def test_a_draft_of_all_layers_is_always_right(model: Model) -> None:
    decoder = SpeculativeDecoder(model, 128, draft_tokens=4, draft_layers=4)
    made = decoder.generate_batch([demo.prompt(model)], 41)
    assert made.kept_mean == 4.0
    assert made.rounds == 8  # 40 tokens after the prompt's, five a round


def test_a_draft_that_guesses_well_needs_fewer_rounds(model: Model, damped: Model) -> None:
    def rounds(of: Model) -> int:
        decoder = SpeculativeDecoder(of, 128, draft_tokens=4, draft_layers=2)
        return decoder.generate_batch([demo.prompt(of)], NEW).rounds

    assert rounds(damped) < rounds(model) / 2


def test_the_draft_holds_no_weights_of_its_own(model: Model) -> None:
    draft = first_layers(model, 2)
    own = {id(parameter) for parameter in model.parameters()}
    assert {id(parameter) for parameter in draft.parameters()} <= own
    assert len(draft.layers) == 2


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"draft_tokens": 4, "draft_layers": 5}, "5 layers; there are 4"),
        ({"draft_tokens": 4, "draft_layers": 0}, "0 layers"),
        ({"draft_tokens": -1, "draft_layers": 1}, "not -1"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    model: Model, options: dict[str, int], problem: str
) -> None:
    with pytest.raises(ValueError, match=problem):
        SpeculativeDecoder(model, 64, **options)


@pytest.mark.parametrize(
    ("prompts", "new_tokens", "problem"),
    [
        ([[1], [2]], 1, "2 prompts"),
        ([[]], 1, "empty"),
        ([[1]], 0, "not 0"),
        ([[1] * 40], 17, "need 65 slots with a draft of 4"),
    ],
)
def test_prompts_that_do_not_fit_are_refused(
    model: Model, prompts: list[list[int]], new_tokens: int, problem: str
) -> None:
    decoder = SpeculativeDecoder(model, 64, draft_tokens=4, draft_layers=1)
    with pytest.raises(ValueError, match=problem):
        decoder.generate_batch(prompts, new_tokens)


def test_the_last_place_is_used(model: Model) -> None:
    decoder = SpeculativeDecoder(model, 64, draft_tokens=4, draft_layers=4)
    prompt = demo.prompt(model, 40)
    assert decoder.generate_batch([prompt], 16).texts == [plain.generate(model, prompt, 16)]


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_a_captured_round_makes_the_same_tokens() -> None:
    model = damped_model(FOUR, draft_layers=2, device="cuda")
    prompt = demo.prompt(model)
    decoder = SpeculativeDecoder(model, 128, draft_tokens=4, draft_layers=2, graph=True)
    assert decoder.generate_batch([prompt], NEW).texts == [plain.generate(model, prompt, NEW)]
