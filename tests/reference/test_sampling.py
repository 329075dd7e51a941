"""Tokens drawn on the device follow the distribution that torch.multinomial would draw from."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from scipy import stats
from torch import Tensor

from decodeprof.reference.sampling import Sampling, filtered_logits, sample_on_device

DRAWS = 20_000
LEAST_P = 1e-3
"""A seeded draw either fits or does not; below this the fit would be a 1 in 1,000 accident."""
LOGITS = torch.linspace(-2.0, 2.5, 24)[
    torch.randperm(24, generator=torch.Generator().manual_seed(2))
]
FILTERS: list[dict[str, Any]] = [
    {},
    {"top_k": 5},
    {"top_p": 0.7},
    {"min_p": 0.2},
    {"top_k": 12, "top_p": 0.9, "min_p": 0.1},
]


def draw(temperature: float, **filters: Any) -> Tensor:
    generator = torch.Generator().manual_seed(11)
    many = LOGITS.expand(DRAWS, -1)
    tokens = sample_on_device(many, temperature, generator=generator, **filters)
    return torch.bincount(tokens, minlength=len(LOGITS))


@pytest.mark.parametrize("temperature", [0.6, 1.0, 1.7])
@pytest.mark.parametrize("filters", FILTERS, ids=str)
def test_frequencies_are_those_of_the_softmax(temperature: float, filters: dict[str, Any]) -> None:
    counts = draw(temperature, **filters)
    expected = filtered_logits(LOGITS, temperature, **filters).double().softmax(-1)
    kept = expected > 0
    assert int(counts[~kept].sum()) == 0
    fit = stats.chisquare(counts[kept].numpy(), (expected[kept] * DRAWS).numpy())
    assert fit.pvalue > LEAST_P


@pytest.mark.parametrize("filters", FILTERS, ids=str)
def test_frequencies_agree_with_multinomial(filters: dict[str, Any]) -> None:
    ours = draw(1.0, **filters)
    probabilities = filtered_logits(LOGITS, 1.0, **filters).softmax(-1)
    generator = torch.Generator().manual_seed(5)
    drawn = torch.multinomial(probabilities, DRAWS, replacement=True, generator=generator)
    theirs = torch.bincount(drawn, minlength=len(LOGITS))
    kept = probabilities > 0
    table = torch.stack((ours[kept], theirs[kept])).numpy()
    assert stats.chi2_contingency(table).pvalue > LEAST_P


def test_a_wrong_distribution_would_be_noticed() -> None:
    expected = filtered_logits(LOGITS, 1.05).double().softmax(-1) * DRAWS
    assert stats.chisquare(draw(1.0).numpy(), expected.numpy()).pvalue < LEAST_P


def test_zero_temperature_is_the_argmax() -> None:
    logits = torch.randn(3, 50, generator=torch.Generator().manual_seed(0))
    assert torch.equal(sample_on_device(logits), logits.argmax(-1))
    assert torch.equal(sample_on_device(logits, 1.0, top_k=1), logits.argmax(-1))


def test_filters_keep_what_their_definitions_say() -> None:
    logits = torch.tensor([0.5, 0.25, 0.15, 0.1]).log()

    def kept(**filters: Any) -> list[bool]:
        return filtered_logits(logits, 1.0, **filters).isfinite().tolist()

    assert kept(top_k=2) == [True, True, False, False]
    assert kept(top_k=9) == [True] * 4
    assert kept(top_p=0.74) == [True, True, False, False]
    assert kept(top_p=0.76) == [True, True, True, False]
    assert kept(top_p=1e-6) == [True, False, False, False]
    assert kept(min_p=0.25) == [True, True, True, False]
    # top_p looks at what top_k left: 0.5 of 0.75 is 0.67.
    assert kept(top_k=2, top_p=0.6) == [True, False, False, False]


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"temperature": -1.0}, "temperature"),
        ({"temperature": float("nan")}, "temperature"),
        ({"temperature": float("inf")}, "temperature"),
        ({"top_k": 0}, "top_k"),
        ({"top_p": 0.0}, "top_p"),
        ({"min_p": 1.5}, "min_p"),
    ],
)
def test_settings_that_mean_nothing_are_refused(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Sampling(**settings)
    with pytest.raises(ValueError, match=says):
        sample_on_device(LOGITS, **({"temperature": 1.0} | settings))
