"""The story's loops all make the text that the first of them makes."""

from __future__ import annotations

import functools

import pytest

from decodeprof.reference.hf_story import variants
from decodeprof.reference.hf_story.gpt2 import prompt, setup

NEW = 16
ROWS = 2


@functools.cache
def expected() -> list[list[int]]:
    rows = variants.no_cache(NEW, ROWS)
    assert all(len(set(row)) > 6 for row in rows), "a text that repeats itself would prove little"
    return rows


@pytest.mark.parametrize("name", variants.VARIANTS)
def test_same_tokens(name: str) -> None:
    model = setup()
    made = variants.VARIANTS[name].loop(model, prompt(model, ROWS), NEW)
    assert made.tolist() == expected()


@pytest.mark.parametrize("name", ["stop_check", "ping_pong"])
def test_the_text_ends_when_every_row_has(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = setup()
    row = expected()[0]
    end = row.index(row[5])
    monkeypatch.setattr(model.config, "eos_token_id", row[5])
    made = variants.VARIANTS[name].loop(model, prompt(model, 1), NEW)
    assert made.tolist() == [row[: end + 1]]


@pytest.mark.parametrize("name", ["no_cache", "static_cache", "compiled", "ping_pong"])
def test_targets(name: str) -> None:
    assert getattr(variants, name)(5, ROWS) == [row[:5] for row in expected()]


def test_a_measurement() -> None:
    measured = variants.measure("dynamic_cache", batch=ROWS, new_tokens=4, repeats=1)
    assert measured.tokens_per_s == pytest.approx(ROWS * 4 / measured.seconds)
    assert (measured.name, measured.batch, measured.new_tokens) == ("dynamic_cache", ROWS, 4)
    with pytest.raises(KeyError):
        variants.measure("paged", batch=1, new_tokens=1)
