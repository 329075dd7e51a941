from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from decodeprof.report.html.labels import LETTER, Circle, Label, placed


def test_a_number_stands_inside_a_circle_that_has_room() -> None:
    assert placed([Circle(100, 100, 20)]) == [Label(0, 0, "inside")]


def test_a_small_circle_has_its_number_on_the_right() -> None:
    assert placed([Circle(100, 100, 4)]) == [Label(11, 0, "beside")]


def test_a_circle_under_a_smaller_one_has_its_number_beside_it() -> None:
    large, small = placed([Circle(100, 100, 20), Circle(101, 100, 10)])
    assert large == Label(27, 0, "beside")
    assert small == Label(0, 0, "inside")


def test_a_circle_over_a_larger_one_keeps_its_number() -> None:
    # The large circle's centre is free: its number stays, and the small one's is near no other.
    large, small = placed([Circle(100, 100, 22), Circle(120, 100, 9)])
    assert (large.where, small.where) == ("inside", "inside")


def test_equal_circles_have_a_number_on_either_side() -> None:
    first, second = placed([Circle(100, 100, 4), Circle(100, 100, 4)])
    assert (first.dx, second.dx) == (11, -11)


@given(
    st.lists(
        st.builds(Circle, st.floats(0, 600), st.floats(0, 296), st.floats(3, 22)),
        min_size=1,
        max_size=8,
    )
)
def test_every_circle_has_a_number_that_touches_it(circles: list[Circle]) -> None:
    labels = placed(circles)
    assert len(labels) == len(circles)
    for circle, label in zip(circles, labels, strict=True):
        away = math.hypot(label.dx, label.dy)
        assert away == 0 if label.where == "inside" else away <= circle.radius + LETTER
