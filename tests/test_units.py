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


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (0, "0 kernels"), (1, "1 kernel"), (1.0, "1 kernel"), (2508, "2,508 kernels"),
        (0.5, "0.5 kernels"), (None, "unknown kernels"),
        # It is written as 1.
        (1.0004, "1 kernel"),
    ],
)  # fmt: skip
def test_a_count_agrees_with_its_noun(value: float | None, told: str) -> None:
    assert units.counted(value, "kernel") == told


def test_a_noun_brings_its_plural_and_its_verb() -> None:
    assert units.counted(1, "launch has", "launches have") == "1 launch has"
    assert units.counted(2, "launch has", "launches have") == "2 launches have"


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (0.0, "0 %"), (0.00047, "0.04 %"), (0.0279, "2.7 %"), (0.276, "27 %"), (0.9949, "99 %"),
        (0.9996, "99.9 %"), (1.0, "100 %"), (0.29, "29 %"), (0.001, "0.1 %"),
    ],
)  # fmt: skip
def test_a_lower_bound_is_never_rounded_up(value: float, told: str) -> None:
    assert units.at_least(value) == f"at least {told}"
