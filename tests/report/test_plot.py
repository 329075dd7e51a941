"""Curves drawn with characters stand where their values are."""

from __future__ import annotations

from decodeprof.report.plot import HEIGHT, WIDEST, Curve, drawn


def rows(lines: list[str]) -> list[str]:
    """The drawn cells, top first."""
    return [line.partition("┤")[2] for line in lines[:HEIGHT]]


def test_a_power_of_x_is_a_straight_line() -> None:
    curve = Curve("e", "eager", ((1, 1_000), (10, 10_000), (100, 100_000)))
    lines = drawn([curve], x_name="batch", width=60)
    marks = {(x, y) for y, row in enumerate(rows(lines)) for x, c in enumerate(row) if c == "e"}
    heights = [next(y for at, y in sorted(marks) if at == x) for x in sorted({x for x, _ in marks})]
    assert heights == sorted(heights, reverse=True)
    assert heights[0] == HEIGHT - 1
    assert heights[-1] == 0
    middle = heights[len(heights) // 2]
    assert abs(middle - (HEIGHT - 1) / 2) <= 1


def test_no_line_is_wider_than_asked_and_both_ends_are_named() -> None:
    curve = Curve("e", "eager", ((1, 1_500), (1024, 80_000_000)))
    for width in (40, 80, 120, 200, 1_000):
        lines = drawn([curve], x_name="batch", width=width)
        assert max(map(len, lines[: HEIGHT + 2])) <= min(width, WIDEST + len("100 ms ┤"))
        assert lines[HEIGHT + 1].split() == ["1", "batch", "1,024"]


def test_where_curves_lie_on_each_other_their_letters_stand_in_turn() -> None:
    flat = ((1, 400.0), (4, 400.0))
    curves = [Curve("a", "one", flat), Curve("b", "two", flat), Curve("c", "c", ((1, 1), (4, 1)))]
    (shared,) = (row for row in rows(drawn(curves, x_name="x", width=50)) if "a" in row)
    assert shared.rpartition("┤")[2].startswith("abababab")
    assert "*" not in shared


def test_the_legend_is_no_wider_than_the_rest() -> None:
    curves = [Curve(mark, f"the curve {mark}", ((1, 100), (2, 200))) for mark in "abcdef"]
    legend = drawn(curves, x_name="x", width=40)[HEIGHT + 2 :]
    assert legend == [
        "a the curve a   b the curve b", "c the curve c   d the curve d",
        "e the curve e   f the curve f",
    ]  # fmt: skip


def test_unknown_points_are_left_out() -> None:
    curve = Curve("e", "eager", ((1, None), (2, 100), (4, None)))
    assert drawn([curve], x_name="x", width=50) == []
    assert drawn([], x_name="x", width=50) == []


def test_equal_values_are_drawn_flat() -> None:
    lines = drawn([Curve("e", "eager", ((1, 100), (2, 100)))], x_name="x", width=50)
    assert sum("e" in row for row in rows(lines)) == 1
