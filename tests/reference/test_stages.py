"""Stages run, measure themselves, and say why they cannot."""

from __future__ import annotations

import pytest
import torch

from decodeprof.reference import demo, measure, stages
from decodeprof.reference.plain import generate


def test_every_stage_is_a_target_of_its_own() -> None:
    for name in stages.STAGES:
        assert callable(getattr(stages, name))


@pytest.mark.parametrize("name", ["plain", "eager", "compiled"])
def test_a_target_continues_the_demos_prompt(name: str) -> None:
    model = demo.setup()
    assert getattr(stages, name)(7) == generate(model, demo.prompt(model), 7)


@pytest.mark.skipif(torch.cuda.is_available(), reason="graphs run here")
def test_graph_stages_say_why_they_cannot_run() -> None:
    with pytest.raises(ValueError, match="`graph` cannot run here: graphs need a CUDA device"):
        stages.graph()
    with pytest.raises(ValueError, match="`norm` cannot run here"):
        stages.run("norm")


def test_a_result_adds_up() -> None:
    result = stages.run("eager", bandwidth_bytes_per_s=1e12, profile=False)
    assert result.tokens_per_s == pytest.approx(1e9 / result.step_ns)
    weights = stages.step_weight_bytes(demo.setup())
    assert result.mbu_share == pytest.approx(weights / (result.step_ns / 1e9) / 1e12)
    assert (result.same_tokens, result.compared_tokens) == (32, 32)
    assert result.kernels is None
    assert result.capture_seconds is None


def test_an_unknown_stage() -> None:
    with pytest.raises(KeyError, match="warp"):
        stages.run("warp")


def test_step_time_leaves_the_prompt_pass_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that lasts 5 s for its prompt and 2 ms for each token: the step is 2 ms."""
    clock = 0.0

    def slow(new_tokens: int) -> list[int]:
        nonlocal clock
        clock += 5 + 0.002 * new_tokens
        return [0] * new_tokens

    monkeypatch.setattr(measure.time, "perf_counter", lambda: clock)
    assert measure.step_ns(slow, most_tokens=500) == 2_000_000
