"""Figures as people read them."""

import pytest

from decodeprof import units


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (0.0, "0 %"), (0.0004, "< 0.1 %"), (0.024, "2.4 %"), (0.24, "24 %"), (0.994, "99 %"),
        (0.997, "99.7 %"), (0.9995, "> 99.9 %"), (1.0, "100 %"), (None, "unknown"),
    ],
)  # fmt: skip
def test_a_share_never_rounds_a_remainder_away(value: float | None, told: str) -> None:
    assert units.share(value) == told


def test_an_arithmetic_rate() -> None:
    assert units.flops(7.33e14) == "733 TFLOP/s"
    assert units.flops(None) == "unknown"
