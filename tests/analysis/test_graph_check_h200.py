"""Three captures as an H200 left them, by `tests/gpu/graph_check_h200.py`: what is said of each."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import msgspec
import pytest

from decodeprof.analysis.graph_checked import checked
from decodeprof.model.graph_check import GraphCheck, GraphCheckRun

RUNS = Path(__file__).with_name("graph_check_h200.json.gz")


@pytest.fixture(scope="module")
def found() -> dict[str, GraphCheck]:
    runs = json.loads(gzip.decompress(RUNS.read_bytes()))
    return {name: checked(msgspec.convert(run, GraphCheckRun)) for name, run in runs.items()}


def test_the_plain_loop_is_stopped_by_its_read_and_its_growing_cache(
    found: dict[str, GraphCheck],
) -> None:
    plain = found["plain"]
    assert plain.verdict == "wrong"
    assert "._keys[…]`" in plain.sentence
    assert "grow in each step at decodeprof/reference/cache.py:40" in plain.sentence
    refusal = plain.whole_step_refusal
    assert refusal is not None
    assert refusal.error.place is not None
    assert refusal.error.place.code == "token = int(logits[0, -1].argmax())"
    assert refusal.op == "aten::_local_scalar_dense.default"
    assert refusal.rule == "no value is read by the host"
    grown = [each for each in plain.attempts[0].python_changes if each.grows]
    assert [each.text for each in grown] == [
        "bound to a new tensor, (1, 8, 19, 128) → (1, 8, 20, 128), 28 times"
    ] * 2
    assert [each.operations for each in plain.segments] == [1930, 1]
    assert plain.segments[0].stopped_at is not None
    assert plain.segments[1].stopped_at is None


def test_the_counter_is_caught_by_the_second_input_alone(found: dict[str, GraphCheck]) -> None:
    counter = found["counter"]
    assert counter.verdict == "wrong"
    assert "`self.position` changes in each step (4 → 5) at graph_steps.py:24" in counter.sentence
    assert {each.input for each in counter.attempts[0].differences} == {2}
    assert counter.whole_step is not None
    assert counter.whole_step.captured
    assert counter.hazards is not None
    assert any(each.kind == "scalar" for each in counter.hazards)


def test_a_static_cache_is_captured_and_its_loop_is_not(found: dict[str, GraphCheck]) -> None:
    static = found["static_cache"]
    assert static.verdict == "captures"
    (attempt,) = static.attempts
    assert attempt.same_result
    assert attempt.static_inputs == [
        "input_ids",
        "position_ids",
        "attention_mask.full_attention",
    ]
    assert attempt.before is not None
    assert attempt.after is not None
    assert 5 < attempt.before.median_ns / attempt.after.median_ns < 7
    assert static.whole_step_refusal is not None
    assert static.whole_step_refusal.op == "aten::_local_scalar_dense.default"
