"""Lists of numbers on the command line that are too large to be read."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from decodeprof.cli.sweep_values import buckets_of, histogram_of, vary_of
from decodeprof.errors import UsageError

LONG = "9" * 5_000


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (vary_of, f"batch=1,{LONG}"),
        (buckets_of, LONG),
        (histogram_of, f"1:{LONG}"),
        (histogram_of, f"{LONG}:1"),
    ],
)
def test_a_number_of_thousands_of_digits_is_refused(
    read: Callable[[str], object], text: str
) -> None:
    with pytest.raises(UsageError, match="too large"):
        read(text)
