"""Real recordings of 2020 to 2026: counts, exact busy time, sums and steps."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Any

import numpy as np
import pytest

from decodeprof.analysis.intervals import union
from decodeprof.analysis.steps.cuts import Period
from decodeprof.ingest.read import read_trace
from decodeprof.model.calls import CallKind
from decodeprof.model.trace import ActivityKind, Trace
from tests.reading import causes_of, gaps_of, steps_of
from tests.traces import expected, needs_traces, path_of

pytestmark = [pytest.mark.traces, needs_traces]
FILES = sorted(expected())
ON_A_DEVICE = [name for name in FILES if expected()[name]["activities"]]


@cache
def read(name: str) -> Trace:
    return read_trace(path_of(name))


@pytest.mark.parametrize("name", FILES)
def test_counts_and_busy_time_to_the_ns(name: str) -> None:
    trace, known = read(name), expected()[name]
    device, calls = trace.device, trace.calls
    found: dict[str, Any] = {
        "kernels": int((device.kind == ActivityKind.KERNEL).sum()),
        "activities": len(device),
        "graph_launches": int((calls.kind == CallKind.GRAPH_LAUNCH).sum()),
        "most": max(Counter(device.correlation[device.correlation > 0].tolist()).values(),
                    default=int(bool(len(device)))),
        "syncs": dict(
            Counter(trace.names[n] for n in calls.name[calls.kind == CallKind.SYNC].tolist())
        ),
    }  # fmt: skip
    if len(device):
        found["busy_ns"] = union(device.start_ns, device.end_ns).total_ns
        start, end = trace.span_ns() or (0, 0)
        found["span_ns"] = end - start
    assert found == {key: known[key] for key in known if key not in ("steps", "bytes")}
    assert trace.caveats == ()


@pytest.mark.parametrize("name", FILES)
def test_steps_of_real_recordings(name: str) -> None:
    steps, known = steps_of(read(name)), expected()[name]["steps"]
    phases = Counter(steps.phases)
    assert {
        "method": steps.method,
        **{phase: phases[phase] for phase in ("prefill", "decode", "other")},
    } == known
    if steps.method == "annotation":
        assert steps.single
        assert not steps.steady.any()


@pytest.mark.parametrize("name", ON_A_DEVICE)
def test_busy_and_causes_sum_to_the_span_and_to_every_step(name: str) -> None:
    trace = read(name)
    for device in sorted(set(trace.device.device.tolist())):
        gaps, mine = gaps_of(trace, device), trace.device.device == device
        span = int(trace.device.end_ns[mine].max() - trace.device.start_ns[mine].min())
        assert gaps.busy.total_ns + sum(causes_of(trace, device).values()) == span
        assert (gaps.causes_ns >= 0).all()
        steps = steps_of(trace, device=device)
        for start, end in zip(
            steps.device_start_ns.tolist(), steps.device_end_ns.tolist(), strict=True
        ):
            busy = int(gaps.busy.within(np.array([start]), np.array([end]))[0])
            assert busy + sum(gaps.causes_within(start, end).values()) == end - start > 0


def test_a_toy_of_three_kernels_is_a_period_and_no_steps() -> None:
    steps = steps_of(read("h200/toy_b1.json.gz"))
    assert steps.period == Period(activities=3, count=640)


@pytest.mark.parametrize(
    "name", [n for n in FILES if "v100" in n or "2020" in n or "graphs_a" in n]
)
def test_training_has_no_decode_steps(name: str) -> None:
    assert "autograd" in steps_of(read(name)).text


@pytest.mark.parametrize(
    ("name", "lengths"),
    [
        ("h200/qwen3_0p6b_naive.json.gz", (16, 1, 1, 1, 1)),
        ("h200/qwen3_0p6b_eager.json.gz", (16, 1, 1, 1, 1)),
        ("h200/qwen3_0p6b_naive_stack.json.gz", (16, 1, 1)),
        ("h200/qwen3_0p6b_graph.json.gz", (16, None, None, None, None)),
    ],
)
def test_query_lengths(name: str, lengths: tuple[int | None, ...]) -> None:
    assert steps_of(read(name)).query_lengths == lengths


def test_steps_hold_the_launches_of_their_forward() -> None:
    trace = read("h200/qwen3_0p6b_naive.json.gz")
    steps = steps_of(trace)
    counts = np.bincount(steps.activity_step[steps.activity_step >= 0])
    # Decode steps of one loop launch the same, but for what the growing cache needs.
    assert counts[1:].max() - counts[1:].min() <= 2
    assert (steps.activity_step >= 0).all()


def test_a_host_bound_loop_is_not_the_devices_fault() -> None:
    causes = causes_of(read("h200/qwen3_0p6b_naive.json.gz"))
    assert causes["device"] / sum(causes.values()) < 0.001
    graph = causes_of(read("h200/toy_b1_graph.json.gz"))
    assert graph["device"] == sum(graph.values())


def test_kernels_without_launches_are_unknown_not_the_hosts_fault() -> None:
    trace = read("torch/hf_qwen_h100_unlinked.json.gz")
    assert int((trace.device.call < 0).sum()) == 509
    assert causes_of(trace)["unknown"] > 0
