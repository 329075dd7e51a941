"""Targets that misbehave, each in one way."""

import ctypes
import os
import time
from typing import Any

import torch
from torch import nn

layer = nn.Linear(4, 4)
state: dict[str, Any] = {"calls": 0}
seen: list[str] = []
OTHER_CALL = 9
"""With calls that never agree the warm-up makes seven; this is the second one that is timed."""


def _run(n: int = 6) -> list[int]:
    state["calls"] += 1
    return [int(layer(torch.ones(1, 4)).argmax()) for _ in range(n)]


def _late() -> bool:
    time.sleep(0.02 * (state["calls"] % 2))
    return state["calls"] == OTHER_CALL - 1


def helper() -> None:
    raise ValueError("the cache is full")


def raises_at_call_3() -> list[int]:
    if state["calls"] == 2:
        helper()
    return _run()


def raises_late() -> list[int]:
    """Fails in the timing, when the warm-up is over."""
    if _late():
        helper()
    return _run()


def exits() -> None:
    raise SystemExit(3)


def leaves() -> None:
    os._exit(7)


def hangs() -> list[int]:
    if _late():
        while True:
            time.sleep(0.01)
    return _run()


def waits() -> list[int]:
    """Never ends, and says so when it is reached."""
    if _late():
        print("waiting for good", flush=True)
        while True:
            time.sleep(0.01)
    return _run()


def crashes() -> list[int]:
    if _late():
        ctypes.string_at(0)
    return _run()


def profiles_itself() -> list[int]:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
        return _run()


def differs(seen: list[str]) -> list[int]:
    seen.append("again")
    return _run(5 + state["calls"] % 2)


class NeedsSize:
    def __init__(self, size: int) -> None:
        self.size = size

    def generate(self) -> list[int]:
        return _run(self.size)


engine = NeedsSize(3)


def set_up_with_nothing() -> None:
    return None


not_a_function = 3


def crashes_at_once() -> None:
    ctypes.string_at(0)


def sleeps() -> None:
    time.sleep(600)
