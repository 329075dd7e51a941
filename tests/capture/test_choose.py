"""Which outermost call begins a step, from the order of the calls."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decodeprof.capture.choose import OutermostCall, choose


def calls(text: str) -> list[OutermostCall]:
    """``P16 D1 D1``: the key and the query length of each call."""
    return [OutermostCall(word[0], int(word[1:]) if word[1:] else None) for word in text.split()]


@pytest.mark.parametrize(
    ("text", "tokens", "keys"),
    [
        ("", 4, ""),
        ("M16 M1 M1 M1", 4, "M"),
        ("M16 M1 M1 M1", None, "M"),
        # Each part by itself: the embedding is the first of a step.
        ("E N H E N H E N H", 3, "E"),
        ("E N H E N H E N H", None, "E"),
        # The same layer twice a token.
        ("E L L H E L L H E L L H", 3, "E"),
        # A prefill by another module, then a graph each token.
        ("P16 G G G", 4, "PG"),
        ("P16 G G G", None, "PG"),
        # An encoder is no step of the decoder, which takes the prompt in itself.
        ("V80 D16 D1 D1 D1", 4, "D"),
        ("V80 D16 D1 D1 D1", None, "D"),
        # A check of every other step happens less often than the step.
        ("M16 M1 C M1 M1 C", 4, "M"),
        # Another graph for each length.
        ("P16 A B C", 4, "PABC"),
        ("A A A B B", 5, "AB"),
        # A draft model's four calls for each of the target's.
        ("T16 D D D D T5 D D D D T5 D D D D T5", None, "T"),
    ],
)
def test_known_loops(text: str, tokens: int | None, keys: str) -> None:
    assert choose(calls(text), tokens=tokens).keys == frozenset(keys)


def test_doubt_is_told() -> None:
    assert not choose(calls("E N E N E N"), tokens=3).ambiguous
    assert choose(calls("A A B B B A"), tokens=None).ambiguous is False
    assert choose(calls("A A B B B"), tokens=None).ambiguous


@given(st.lists(st.sampled_from("ABCD"), min_size=1), st.none() | st.integers(1, 20))
def test_something_is_chosen_among_what_was_called(keys: list[str], tokens: int | None) -> None:
    chosen = choose([OutermostCall(key) for key in keys], tokens=tokens).keys
    assert chosen
    assert chosen <= set(keys)
