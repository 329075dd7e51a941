"""On a GPU, in a process of its own: the same steps, captured and refused for real."""

from __future__ import annotations

import pytest
import torch

from decodeprof.analysis.graph_checked import checked
from decodeprof.capture.graph_check.supervise import check_graph
from decodeprof.capture.job import Job
from decodeprof.model.graph_check import GraphCheck
from tests.capture.graph_check.conftest import TARGETS

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


def check(name: str, step: str | None = None) -> GraphCheck:
    job = Job(target=f"{TARGETS}:{name}", step=step, timeout_s=120.0)
    return checked(check_graph(job, progress=lambda _: None))


def test_a_step_with_its_state_in_buffers_is_captured_and_faster() -> None:
    found = check("static")
    (attempt,) = found.attempts
    assert found.verdict == "captures"
    assert attempt.same_result
    assert attempt.graph_device is not None
    assert attempt.alone_before is not None
    assert attempt.graph_device.median_ns < attempt.alone_before.median_ns
    assert attempt.pool_bytes


def test_a_counter_and_a_growing_cache_are_named() -> None:
    assert "`self.position`" in check("counting").sentence
    growing = check("growing")
    assert "`self.cache` grows" in growing.sentence
    assert growing.whole_step_refusal is not None
    assert growing.whole_step_refusal.error.place is not None
    assert "int(x.argmax())" in growing.whole_step_refusal.error.place.code


def test_random_numbers_are_drawn_as_the_step_does() -> None:
    assert check("drawing").verdict == "captures"
