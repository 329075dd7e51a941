"""What an error says where nothing but its text is shown: in a notebook, in a test runner."""

from __future__ import annotations

import pytest

from decodeprof.errors import DecodeprofError, InputError


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (DecodeprofError("it cannot be done"), "it cannot be done"),
        (InputError("no", why="because", hint="try `x`"), "no\nbecause\nhint: try `x`"),
        (InputError("no", hint="try `x`"), "no\nhint: try `x`"),
    ],
)
def test_an_error_says_all_of_it(error: DecodeprofError, text: str) -> None:
    assert str(error) == text


def test_a_hint_that_is_added_later_is_said_too() -> None:
    error = DecodeprofError("it cannot be done")
    error.hint = "the recording is kept"
    assert str(error).endswith("\nhint: the recording is kept")
