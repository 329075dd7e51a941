"""Leaves are named and replaced; a difference is more than rounding."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from decodeprof.capture.graph_check.values import differences, distance, leaves, replaced


@dataclass
class Output:
    logits: torch.Tensor
    cache: object


def test_leaves_are_named_and_other_objects_are_none() -> None:
    one, two = torch.zeros(1), torch.ones(2)
    value = {"x": [one, 3], "out": Output(two, object())}
    assert [name for name, _ in leaves(value)] == ["x[0]", "x[1]", "out.logits"]


def test_replacing_leaves_everything_else_as_it_is() -> None:
    one, two, new = torch.zeros(1), torch.ones(2), torch.ones(1)
    cache, rest = object(), [two]
    value = {"x": (one, 3), "rest": rest, "out": Output(two, cache)}
    got = replaced(value, {"x[0]": new, "out.logits": new})
    assert got["x"] == (new, 3)
    assert got["rest"] is rest
    assert got["out"].logits is new
    assert got["out"].cache is cache


def found(one: object, two: object, again: object | None = None) -> list[str]:
    told = differences(
        {"y": one},
        {"y": two},
        {"y": one if again is None else again},
        kind="output",
        input_number=2,
    )
    return [each.text for each in told]


def test_rounding_is_no_difference_and_a_wrong_value_is_one() -> None:
    one = torch.tensor([1.0, 100.0])
    assert found(one, one.clone()) == []
    assert found(one, one + torch.tensor([0.0, 1e-5])) == []
    assert found(one, one + torch.tensor([0.0, 0.5])) == [
        "50 % of the elements differ, by up to 0.5"
    ]


def test_what_two_runs_of_the_step_differ_by_is_allowed() -> None:
    one = torch.tensor([1.0, 2.0])
    assert found(one, one + 0.02, again=one + 0.01) == []
    assert found(one, one + 0.05, again=one + 0.01) != []


def test_whole_numbers_must_be_equal() -> None:
    one = torch.tensor([5])
    assert found(one, torch.tensor([6])) == ["5, and 6 from a replay"]
    assert found(torch.arange(4), torch.tensor([0, 1, 2, 9])) == ["25 % of the elements differ"]


def test_numbers_that_are_none_may_be_the_same() -> None:
    one = torch.tensor([float("nan"), float("inf"), 1.0])
    assert distance(one, one.clone()) == 0.0
    assert found(one, torch.tensor([float("nan"), 3.0, 1.0])) != []


def test_a_shape_or_a_python_value_that_differs_is_told() -> None:
    assert found(torch.zeros(2), torch.zeros(3)) == ["shape (2,), and (3,) from a replay"]
    assert found(8, 7) == ["the step returns 8, a replay repeats 7"]
