"""Replay against recordings of an H200, and a prediction against what was measured there."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from decodeprof.analysis.replay.build import Source, build_program
from decodeprof.analysis.replay.changes import graph_costs, scaled
from decodeprof.analysis.replay.errors import reproduce
from decodeprof.analysis.replay.fusion import fused, roles
from decodeprof.analysis.replay.run import replay
from decodeprof.analysis.replay.scale import host_scale
from decodeprof.analysis.replay.what_if import Outcome, Question, what_ifs
from decodeprof.ingest.read import read_trace
from tests.analysis.replay.sources import source_of
from tests.traces import expected, folder, needs_traces, path_of

pytestmark = [pytest.mark.traces, needs_traces]
H200 = sorted(name for name in expected() if name.startswith("h200/"))
LARGEST_ERROR = 0.015
STEADY = 2


@cache
def source(name: str) -> Source:
    return source_of(read_trace(path_of(name)))


@cache
def measured_ns(program: str) -> int:
    where = folder()
    assert where is not None
    truth = json.loads((where / "h200" / "truth.json").read_text(encoding="utf-8"))
    return round(truth[program]["unprofiled_ms_per_decode_step"] * 1e6)


@pytest.mark.parametrize("name", H200)
def test_unchanged_replay_reproduces_the_recording(name: str) -> None:
    found = reproduce(source(name))
    assert found is not None
    assert abs(found.span_share) <= LARGEST_ERROR
    assert np.abs(found.step_shares).max(initial=0) <= LARGEST_ERROR
    assert found.error_share <= LARGEST_ERROR
    assert len(found.steps) == expected()[name]["steps"].get("decode", 0)


@pytest.mark.parametrize("name", H200)
def test_no_recorded_device_start_enters(name: str) -> None:
    one = source(name)
    device = one.trace.device
    moved = np.random.default_rng(5).integers(0, 10**12, len(device))
    ends = moved + (device.end_ns - device.start_ns)
    two = replace(
        one,
        trace=replace(one.trace, device=replace(device, start_ns=moved, end_ns=ends)),
    )
    before, after = build_program(one), build_program(two)
    for column in vars(before.events):
        assert np.array_equal(getattr(before.events, column), getattr(after.events, column))
    assert np.array_equal(before.duration_ns, after.duration_ns)


def test_a_step_repeats_as_it_was_recorded() -> None:
    for program in ("naive", "eager", "graph"):
        one = source(f"h200/qwen3_0p6b_{program}.json.gz")
        period = replay(build_program(one, range(STEADY, STEADY + 1))).period_ns
        assert period == pytest.approx(int(one.steps.window_ns[STEADY]), rel=LARGEST_ERROR)


def question(program: str) -> Question:
    one = source(f"h200/qwen3_0p6b_{program}.json.gz")
    profiled = build_program(one, range(STEADY, STEADY + 1))
    factor = host_scale(profiled, measured_ns(program))
    return Question(
        program=profiled if factor is None else scaled(profiled, factor),
        roles=roles(one.trace, profiled),
        costs=graph_costs(one.delays, measured_gap_ns=None, measured_launch_ns=None),
        spread_share=0.01,
    )


def test_the_graph_predicted_from_the_eager_loop_is_the_graph_that_was_measured() -> None:
    found = what_ifs(question("eager"))
    assert found.step_ns == pytest.approx(measured_ns("eager"), rel=0.001)
    assert found.cuda_graph is not None
    step = found.cuda_graph.step_ns
    assert step.expected == pytest.approx(measured_ns("graph"), rel=0.03)
    assert step.low <= measured_ns("graph") <= step.high
    assert found.cuda_graph.launches_per_step == 1


def test_the_naive_loop_has_other_attention_kernels_than_the_graph_it_is_compared_with() -> None:
    found, other = what_ifs(question("naive")), what_ifs(question("eager"))
    assert found.cuda_graph is not None
    assert other.cuda_graph is not None
    # It attends to the tokens that exist, the graph to its whole capacity: 0.19 ms less busy time.
    missing = other.floor_ns - found.floor_ns
    expected_ns = found.cuda_graph.step_ns.expected + missing
    assert expected_ns == pytest.approx(measured_ns("graph"), rel=0.03)


def test_a_graph_step_does_not_respond_to_the_host() -> None:
    one = source("h200/qwen3_0p6b_graph.json.gz")
    program = build_program(one, range(STEADY, STEADY + 1))
    assert host_scale(program, measured_ns("graph")) is None
    found = what_ifs(question("graph"))
    assert found.device_bound
    assert found.cuda_graph is None
    assert found.faster_host.saving_ns.expected == 0
    for outcome in vars(found).values():
        if isinstance(outcome, Outcome):
            assert outcome.saving_ns.low == 0


def test_fusion_counts_what_a_compiler_left_of_the_same_step() -> None:
    asked, compiled = question("eager"), question("compile")
    smaller = fused(asked.program, asked.roles)
    # Attention kernels differ between the two; all others are chains and matrix kernels.
    attention = 70 - 28
    left = compiled.program.activities - attention
    assert smaller.activities == pytest.approx(left, rel=0.1)
    assert smaller.device_work_ns == pytest.approx(compiled.program.device_work_ns, rel=0.1)


def test_loops_that_never_wait_have_no_sync_to_remove() -> None:
    found = what_ifs(question("eager"))
    assert found.no_syncs is None
    assert found.no_host.step_ns.expected < 0.25 * found.step_ns
