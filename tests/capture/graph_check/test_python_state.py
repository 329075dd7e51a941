"""What a step changes in Python is seen, named, and put back."""

from __future__ import annotations

import random
from collections import deque
from typing import Any

import torch
from torch import nn

from decodeprof.capture.graph_check.python_state import Snapshot, roots_of


class Engine:
    def __init__(self) -> None:
        self.position = 3
        self.tokens = [1, 2]
        self.cache: dict[str, Any] = {"keys": [torch.zeros(2)]}
        self.name = "engine"

    def step(self) -> None:
        self.position += 1
        self.tokens.append(3)
        self.cache["keys"][0] = torch.zeros(3)
        self.extra = True


def told(snapshot: Snapshot) -> dict[str, str]:
    return {each.name: each.text for each in snapshot.changes()}


def test_changes_are_named_and_put_back() -> None:
    engine = Engine()
    keys = engine.cache["keys"][0]
    snapshot = Snapshot.take(roots_of(engine.step, {}))
    assert snapshot.changes() == []
    engine.step()
    assert told(snapshot) == {
        "self.position": "3 → 4",
        "self.tokens": "2 → 3 items",
        "self.cache['keys'][0]": "bound to a new tensor, (2) → (3)",
        "self.extra": "appears",
    }
    snapshot.put_back()
    assert snapshot.changes() == []
    assert engine.position == 3
    assert engine.tokens == [1, 2]
    assert engine.cache["keys"][0] is keys
    assert not hasattr(engine, "extra")


def test_a_value_set_anew_to_the_same_is_no_change() -> None:
    engine = Engine()
    snapshot = Snapshot.take({"engine": engine})
    engine.name = "".join(["eng", "ine"])
    assert snapshot.changes() == []


def test_a_closure_and_the_state_of_modules_are_reached() -> None:
    counts = [0]
    inner = nn.Linear(2, 2)
    inner.register_buffer("seen", torch.zeros(1))
    model = nn.Sequential(inner)

    def step() -> None:
        counts[0] += 1
        inner.seen = torch.ones(1)

    snapshot = Snapshot.take(roots_of(step, {"model": model}))
    step()
    assert told(snapshot) == {
        "counts[0]": "0 → 1",
        "model.0.seen": "bound to a new tensor, (1) → (1)",
    }
    assert "model.0.seen" in snapshot.tensors()
    assert not any("weight" in name for name in snapshot.tensors())


class Slotted:
    __slots__ = ("position", "unset")

    def __init__(self) -> None:
        self.position = 5


def test_variables_slots_queues_and_random_numbers_are_put_back() -> None:
    count, slotted, queue = 0, Slotted(), deque([1, 2], maxlen=2)
    random.seed(3)

    def step() -> float:
        nonlocal count
        count += 1
        slotted.position += 1
        queue.append(count)
        return random.random()

    snapshot = Snapshot.take(roots_of(step, {}))
    drawn = step()
    assert told(snapshot) == {
        "count": "0 → 1",
        "slotted.position": "5 → 6",
        "queue[0]": "1 → 2",
        "queue[1]": "2 → 1",
        "random": "random numbers of Python's own are drawn",
    }
    snapshot.put_back()
    assert snapshot.changes() == []
    assert (count, slotted.position, list(queue), queue.maxlen) == (0, 5, [1, 2], 2)
    assert step() == drawn


def test_what_refers_to_itself_ends() -> None:
    loop: list[Any] = []
    loop.append(loop)
    assert Snapshot.take({"loop": loop}).changes() == []
