"""Marks that a person puts into an engine: cheap, and heard while a target is recorded."""

from typing import Any

import pytest

from decodeprof import mark, step

torch = pytest.importorskip("torch")


class Heard:
    def __init__(self) -> None:
        self.what: list[str] = []

    def marked(self, phase: str) -> None:
        self.what.append(phase)

    def unmarked(self) -> None:
        self.what.append("end")


def test_an_observer_hears_of_each_mark_until_it_is_taken_away() -> None:
    heard = Heard()
    mark.observe(heard)
    try:
        with step("prefill"), step():
            pass
    finally:
        mark.observe(None)
    with step():
        pass
    assert heard.what == ["prefill", "decode", "end", "end"]


def test_a_mark_does_not_ask_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    # That alone takes longer than all the rest of a mark.
    monkeypatch.setattr(torch.cuda, "is_available", lambda: pytest.fail("asked"))
    with step():
        pass


def test_a_mark_is_a_range_of_torchs_profiler() -> None:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:  # noqa: SIM117
        with step("prefill"):
            torch.zeros(1)
    assert "decodeprof.step phase=prefill" in {event.key for event in profiler.key_averages()}


@pytest.mark.parametrize("phase", [5, "both", None])
def test_a_phase_that_is_none(phase: object) -> None:
    with pytest.raises(ValueError, match='phase is "decode" or "prefill"'):
        step(phase)  # type: ignore[arg-type]


@pytest.mark.parametrize("decorate", [step, step()])
def test_a_decorator_is_told_to_be_a_block(decorate: Any) -> None:
    with pytest.raises(TypeError, match="`with step\\(\\):`"):

        @decorate
        def one_step() -> None: ...
