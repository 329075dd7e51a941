"""The worked example's stages, graphs included, run on the pretended GPU and make their tokens."""

from __future__ import annotations

import pytest

from decodeprof.lint import predict
from decodeprof.reference import stages
from decodeprof.reference.model import TINY, random_model

NEW_TOKENS = 20


@pytest.fixture(scope="module")
def expected() -> list[int]:
    return stages.start("plain", random_model(TINY)).generate(NEW_TOKENS)


@pytest.mark.parametrize(
    ("name", "waits"), [("plain", 2 * NEW_TOKENS + 1), ("eager", 2), ("graph", 2), ("compiled", 2)]
)
def test_stages(name: str, waits: int, expected: list[int]) -> None:
    with predict() as warm:
        running = stages.start(name, random_model(TINY, device="cuda"))
        before = warm.count
        tokens = running.generate(NEW_TOKENS)
    assert tokens == expected
    # The plain loop reads each token and passes it back; the others read once, and check once.
    assert warm.count - before == waits
