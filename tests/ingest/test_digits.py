"""Decimal text to exact ns: known answers, and a property against exact fractions."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decodeprof.ingest.digits import ns_from_us


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        (b"5123108928638.280", 5_123_108_928_638_280),
        # As epoch µs, float64 would be off by up to 125 ns here.
        (b"1790857026123456.789", 1_790_857_026_123_456_789),
        (b"1606910596297023", 1_606_910_596_297_023_000),
        (b"4.48", 4_480),
        (b"4.4", 4_400),
        (b"4.0", 4_000),
        (b"0", 0),
        (b"0.000", 0),
        (b"-0.000", 0),
        (b"-1.5", -1_500),
        (b"1e3", 1_000_000),
        (b"1.5E-2", 15),
        (b'"5123108928638.280"', 5_123_108_928_638_280),
        (b'"17"', 17_000),
        # Below a nanosecond: half to even.
        (b"0.0005", 0),
        (b"0.0015", 2),
        (b"0.00051", 1),
        (b"1e-99999999999", 0),
    ],
)
def test_known_answers(text: bytes, ns: int) -> None:
    assert ns_from_us(text) == ns


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"null",
        b"NaN",
        b"nan",
        b"inf",
        b"-Infinity",
        b"true",
        b"[]",
        b"{}",
        b'""',
        b'"stream 7"',
        b'"\xc2\xb2"',
        b"\xff",
        b"--5",
        b"9223372036854775808",
        b"123456789012345678901234567890.123",
        b"1e30",
        b"1e999999999999999999999",
        b"9" * 5000,
    ],
)
def test_what_is_no_time_is_none(text: bytes) -> None:
    assert ns_from_us(text) is None


@given(ns=st.integers(min_value=-(2**61), max_value=2**61))
def test_three_decimals_are_exact(ns: int) -> None:
    sign, whole = ("-" if ns < 0 else ""), abs(ns)
    text = f"{sign}{whole // 1000}.{whole % 1000:03d}"
    assert ns_from_us(text.encode()) == ns
    assert ns_from_us(f'"{text}"'.encode()) == ns


@given(
    digits=st.integers(min_value=0, max_value=10**15),
    places=st.integers(min_value=0, max_value=9),
    exponent=st.integers(min_value=-3, max_value=3),
)
def test_any_decimal_is_rounded_to_the_nearest_ns(digits: int, places: int, exponent: int) -> None:
    text = f"{digits:0{places + 1}d}"
    text = f"{text[:-places]}.{text[-places:]}" if places else text
    text = f"{text}e{exponent}" if exponent else text
    # Fraction's round() is half to even, like the reader's.
    expected = round(Fraction(digits, 10**places) * Fraction(10) ** exponent * 1000)
    assert ns_from_us(text.encode()) == (expected if expected < 2**62 else None)
