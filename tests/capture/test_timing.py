"""What the stamps of one call say of its steps, and of its first token."""

from collections.abc import Callable
from typing import Any

import pytest

from decodeprof import mark
from decodeprof.capture import timing
from decodeprof.capture.timing import Clocked, Stamps, steady_samples
from decodeprof.capture.watch import Boundary
from decodeprof.recording import Run

FORWARD, YIELD = Boundary(mark.FORWARD), Boundary(mark.YIELD)
STEP, PREFILL = Boundary(mark.STEP), Boundary(mark.STEP, prefill=True)
At = Callable[[int], None]


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> At:
    """Sets the host's clock."""
    now = [0]
    monkeypatch.setattr(timing.time, "perf_counter_ns", lambda: now[0])

    def set_clock(ns: int) -> None:
        now[0] = ns

    return set_clock


def run_of(stamps: Stamps, *, end: int = 220, tokens: int | None = 4) -> Run:
    return Clocked((100, None), (end, None), end + 10, stamps).run(tokens=tokens)


def test_a_call_is_split_at_its_boundaries(at: At) -> None:
    stamps = Stamps(on_device=False)
    for ns in (110, 150, 180, 215):
        at(ns)
        stamps.start(FORWARD)
    assert run_of(stamps) == Run(
        total_ns=130,
        tokens=4,
        steps=3,
        ttft_ns=50,
        step_ns=[30, 35, 5],
        host_step_ns=[30, 35, 5],
    )
    nothing = run_of(Stamps(on_device=False), tokens=None)
    assert (nothing.steps, nothing.step_ns, nothing.ttft_ns) == (0, [], None)


def test_a_boundary_that_is_withdrawn_was_none() -> None:
    stamps = Stamps(on_device=False)
    stamps.start(YIELD)
    stamps.start(YIELD)
    stamps.withdraw()
    assert len(stamps.host_ns) == len(stamps.prefills) == 1


def forwards(stamps: Stamps, at: At, *, first: Boundary = FORWARD) -> None:
    """Two forwards: from 110 to 130, and from 160 to 190."""
    for start, end, boundary in ((110, 130, first), (160, 190, FORWARD)):
        at(start)
        stamps.start(boundary)
        at(end)
        stamps.end(boundary)


def test_the_first_token_is_there_at_the_end_of_the_first_forward(at: At) -> None:
    stamps = Stamps(on_device=False, ends_with_token=True)
    forwards(stamps, at)
    run = run_of(stamps)
    assert (run.first_token_ns, run.first_token_by) == (30, "forward")
    assert run.ttft_ns == 60


def test_a_part_of_a_forward_gives_no_token(at: At) -> None:
    stamps = Stamps(on_device=False)
    forwards(stamps, at)
    run = run_of(stamps)
    assert (run.first_token_ns, run.first_token_by) == (None, "")


def test_the_first_item_is_the_first_token_whatever_was_seen_before(at: At) -> None:
    stamps = Stamps(on_device=False, ends_with_token=True)
    forwards(stamps, at)
    at(195)
    stamps.item()
    at(210)
    stamps.item()
    run = run_of(stamps)
    assert (run.first_token_ns, run.first_token_by) == (95, "yield")


def test_a_marked_prefill_ends_with_the_first_token(at: At) -> None:
    stamps = Stamps(on_device=False)
    forwards(stamps, at, first=PREFILL)
    run = run_of(stamps)
    assert (run.first_token_ns, run.first_token_by) == (30, "mark")


def test_a_marked_prefill_among_the_steps_is_none(at: At) -> None:
    stamps = Stamps(on_device=False)
    for ns, boundary in ((110, PREFILL), (120, STEP), (125, PREFILL), (170, STEP)):
        at(ns)
        stamps.start(boundary)
    run = run_of(stamps, end=180)
    assert (run.steps, run.step_ns, run.host_step_ns) == (2, [5, 10], [5, 10])


class Event:
    """Stands for a CUDA event: its time in ms."""

    def __init__(self, ms: float) -> None:
        self.ms = ms

    def elapsed_time(self, later: Any) -> float:
        return float(later.ms - self.ms)


@pytest.mark.parametrize(("host_ns", "ttft_ns"), [(1_500_000, 2_000_000), (9_000_000, 9_000_000)])
def test_an_item_is_there_when_host_and_device_have_come_to_it(
    at: At, monkeypatch: pytest.MonkeyPatch, host_ns: int, ttft_ns: int
) -> None:
    monkeypatch.setattr(Stamps, "_event", staticmethod(lambda: Event(3.0)))
    stamps = Stamps(on_device=True)
    at(host_ns)
    stamps.item()
    run = Clocked((0, Event(1.0)), (host_ns, Event(4.0)), host_ns, stamps).run(tokens=1)
    assert run.first_token_ns == ttft_ns


def test_steady_samples_leave_the_first_and_the_last_step_out() -> None:
    assert steady_samples([Run(total_ns=9, step_ns=[5, 1, 2, 6])]) == [1, 2]
    # Of two the last one is cut short by the call's end.
    assert steady_samples([Run(total_ns=9, step_ns=[5, 6])]) == [5]
    assert steady_samples([Run(total_ns=9, step_ns=[5])]) == [5]
    assert steady_samples([Run(total_ns=90, tokens=9)]) == [10]
