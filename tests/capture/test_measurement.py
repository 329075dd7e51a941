"""Medians, intervals, the slope, and what becomes of a trace."""

import gzip
import json
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decodeprof.capture.calibration import (
    Kernel,
    alike,
    at_first_sample,
    floor_ns,
    node_costs,
    read,
    start_of_graphs_ns,
    steady,
    with_samples,
)
from decodeprof.capture.passes import completeness, steps_for
from decodeprof.capture.scrub import (
    EventCounts,
    count_events,
    scrub,
    without_throwaway,
    write_trace,
)
from decodeprof.capture.statistics import half_interval_share, lower_median
from decodeprof.capture.timing import slope_ns_per_token
from decodeprof.capture.warmup import token_parameter
from decodeprof.model.ceilings import Ceilings
from decodeprof.model.trace import ActivityKind
from decodeprof.recording import Run


def test_the_lower_median_occurred() -> None:
    assert lower_median([4, 1, 3, 2]) == 2
    assert lower_median([5]) == 5


def test_the_interval_lies_between_order_statistics() -> None:
    # 100 samples: ranks 50 - 9.8 and 50 + 9.8, so the 40th and the 61st (from 0: 39 and 60).
    samples = list(range(1000, 1100))
    assert half_interval_share(samples) == (1060 - 1039) / 2 / 1049
    assert half_interval_share([7] * 50) == 0
    assert half_interval_share([1, 2, 3, 4, 5]) is None
    assert half_interval_share([]) is None


@given(st.lists(st.integers(1, 10**9), min_size=6))
def test_an_interval_is_never_wider_than_the_samples(samples: list[int]) -> None:
    share = half_interval_share(samples)
    assert share is not None
    assert 0 <= share <= (max(samples) - min(samples)) / 2 / lower_median(samples)


def test_short_steps_are_profiled_for_two_periods_and_long_ones_for_few() -> None:
    assert steps_for(700_000) == 36
    assert steps_for(5_500_000) == 21
    assert steps_for(50_000_000) == 12
    assert steps_for(1) == 36


def test_the_slope_is_time_over_tokens() -> None:
    full = [Run(total_ns=each, tokens=16) for each in (1700, 1800, 9000)]
    short = [Run(total_ns=each, tokens=8) for each in (1000, 1100)]
    assert slope_ns_per_token(full, short) == (1800 - 1000) // 8
    assert slope_ns_per_token(short, full) is None
    assert slope_ns_per_token([Run(total_ns=1, tokens=16)], short) is None
    assert slope_ns_per_token([], short) is None


def _go(prompt: list[int], max_new_tokens: int = 32, batch: int = 32, top_k: int = 5) -> None:
    del prompt, max_new_tokens, batch, top_k


def test_the_argument_that_says_how_many_tokens() -> None:
    assert token_parameter(_go, {"batch": 1}, tokens=32) == "max_new_tokens"
    assert token_parameter(_go, {}, tokens=32) == "max_new_tokens"
    assert token_parameter(_go, {"top_k": 9}, tokens=9) == "top_k"
    assert token_parameter(_go, {}, tokens=31) is None
    assert token_parameter(_go, {}, tokens=None) is None
    assert token_parameter(_go, {"batch": 8}, tokens=8) == "batch"
    # A sweep's point is measured at its own value alone.
    assert token_parameter(_go, {"batch": 8}, tokens=8, varied="batch") is None


TRACE = b"""{
  "schemaVersion": 1,
  "host_name": "box-17",
  "baseTimeNanoseconds": 1790857026000000000,
  "traceEvents": [
  {
    "ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 5135175889376.432, "dur": 2.010,
    "args": { "file": "/home/ann/project/run.py", "cache": "/tmp/torchinductor_ann/x.py" }
  },
  { "ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": 1.000, "dur": 2.000,
    "args": { "correlation": 7 } },
  { "ph": "X", "cat": "cuda_runtime", "name": "cudaGraphLaunch", "ts": 20.000, "dur": 2.000,
    "args": { "correlation": 8 } },
  { "ph": "X", "cat": "kernel", "name": "add", "ts": 6.125, "dur": 1.100,
    "args": { "correlation": 7 } },
  { "ph": "X", "cat": "kernel", "name": "add", "ts": 30.000, "dur": 0.960,
    "args": { "correlation": 8 } },
  { "ph": "X", "cat": "kernel", "name": "add", "ts": 31.400, "dur": 0.992,
    "args": { "correlation": 8 } },
  { "ph": "X", "cat": "gpu_memcpy", "name": "Memcpy", "ts": 40.000, "dur": 0.992, "args": {} }
  ],"traceName": "/home/ann/secret/x.json" }
"""


def test_a_trace_keeps_its_layout_and_loses_its_paths() -> None:
    prefixes = [("/home/ann/project/", ""), ("/home/ann/", "~/"), ("/tmp/", "tmp/")]
    scrubbed = scrub(TRACE, prefixes=prefixes, names=["box-17", "ann"])
    for word in (b"ann/", b"_ann", b"box-17", b"/home", b"/tmp", b"secret"):
        assert word not in scrubbed
    before: dict[str, Any] = json.loads(TRACE)
    after: dict[str, Any] = json.loads(scrubbed)
    assert after["traceName"] == "trace.json"
    assert after["traceEvents"][0]["args"] == {
        "file": "run.py",
        "cache": "tmp/torchinductor_-/x.py",
    }
    assert after["traceEvents"][1:] == before["traceEvents"][1:]
    assert b"5135175889376.432" in scrubbed


def test_equal_traces_give_equal_files(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_trace(tmp_path / name, TRACE)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert gzip.decompress((tmp_path / "a").read_bytes()) == TRACE


def test_events_are_counted_without_parsing() -> None:
    assert count_events(TRACE) == EventCounts(kernels=3, device_activities=4, launches=2, ops=1)


def test_the_kernel_that_wakes_the_profiler_is_not_the_targets() -> None:
    idle = without_throwaway(EventCounts(kernels=1, device_activities=1, launches=1, ops=4))
    assert (idle.kernels, idle.device_activities, idle.launches) == (0, 0, 0)
    blind = EventCounts(kernels=0, device_activities=0, launches=1, ops=4)
    assert without_throwaway(blind) == blind


@pytest.mark.parametrize(
    ("counts", "on_device", "said"),
    [
        (EventCounts(3, 4, 2, 1), True, ""),
        (EventCounts(0, 0, 1200, 9), True, "1,200 launches but no kernels"),
        (EventCounts(0, 0, 0, 9), True, "no GPU activity"),
        (EventCounts(0, 0, 0, 9), False, "CPU operators only"),
    ],
)
def test_what_a_trace_lacks_is_said(counts: EventCounts, on_device: bool, said: str) -> None:
    reason = completeness(counts, on_device=on_device)
    assert said in reason
    assert bool(reason) == bool(said)


def test_a_short_profile_shows_latencies_and_kernel_times() -> None:
    def event(cat: str, name: str, ts: float, dur: float, **args: Any) -> dict[str, Any]:
        return {"ph": "X", "cat": cat, "name": name, "ts": ts, "dur": dur, "args": args}

    trace = {
        "traceEvents": [
            event("cuda_runtime", "cudaLaunchKernel", 1, 2, correlation=6),
            event("kernel", "before", 4, 1, correlation=6),
            event("user_annotation", "decodeprof.calibration.1", 10, 5),
            event("user_annotation", "decodeprof.calibration.0", 30, 5),
            event("cuda_runtime", "cudaLaunchKernel", 11, 2, correlation=7),
            event("cuda_runtime", "cudaMemsetAsync", 31, 2, correlation=8),
            event("gpu_memset", "Memset", 36.5, 0.6, correlation=8),
            event("kernel", "add", 16.125, 1.1, correlation=7, grid=[4, 3, 1]),
            event("kernel", "add", 40, 0.96, correlation=9),
        ]
    }
    zeroth, first = read(json.dumps(trace).encode(), functions=2)
    assert first == [Kernel(duration_ns=1100, latency_ns=5125, blocks=12, name="add")]
    assert zeroth == [
        Kernel(duration_ns=600, latency_ns=5500, name="Memset", kind=ActivityKind.SET)
    ]
    assert floor_ns([5125, 5000, 9000]) == 5000
    assert floor_ns([]) is None


def test_graphs_times_less_their_kernels_are_what_nodes_cost() -> None:
    def rounds(*each: Kernel, times: int) -> list[Kernel]:
        """The first of the five still warms up."""
        warm = [replace(one, duration_ns=one.duration_ns + 300) for one in each]
        return warm * times + list(each) * times * 4

    few = Kernel(duration_ns=700, latency_ns=0, blocks=1, name="elementwise")
    many = Kernel(duration_ns=5_000, latency_ns=0, blocks=900, name="elementwise")
    huge = Kernel(duration_ns=90_000, latency_ns=0, blocks=100_000, name="elementwise")
    matrix = Kernel(duration_ns=9_000, latency_ns=0, blocks=1_000, name="nvjet_tst_64x8")
    memset = Kernel(duration_ns=600, latency_ns=0, name="Memset", kind=ActivityKind.SET)
    copy = Kernel(duration_ns=800, latency_ns=0, name="Memcpy", kind=ActivityKind.COPY)
    cost = {few: 400, many: 64, huge: -3_900, matrix: 360, memset: 2_000, copy: 150}
    graphs = [((few, few, matrix), 10), ((few, many), 10), ((huge, many), 10),
              ((few, memset), 10), ((few, copy), 10)]  # fmt: skip
    times = [
        4_700 + repeats * sum(one.duration_ns + cost[one] for one in each)
        for each, repeats in graphs
    ]
    launched = [rounds(*each, times=repeats) for each, repeats in graphs]
    found = node_costs(times, launched, start_ns=4_700)
    assert found is not None
    assert astuple(found) == pytest.approx((400.04, 100, 2000, 150, 0.04, 4700), rel=0.001)


def test_graphs_are_timed_until_all_were_timed_at_one_speed() -> None:
    readings = iter([(100, 200), (86, 200), (86, 170), (86, 171), (50, 50)])
    queue: list[int] = []

    def read_next() -> int:
        if not queue:
            queue.extend(next(readings))
        return queue.pop(0)

    assert alike([read_next, read_next]) == [86, 171]


class Speeds:
    """A device of two speeds, as a probe sees it."""

    def __init__(self, *samples_ns: int) -> None:
        self.samples_ns = [0]
        self._next = iter(samples_ns)

    def sample(self) -> int:
        self.samples_ns.append(next(self._next))
        return self.samples_ns[-1]


def test_what_nodes_cost_is_measured_between_two_samples_of_one_speed() -> None:
    rows = iter([100, 100, 66, 66])
    probe = Speeds(0, -340, -335, -340)
    found, reference = steady(probe, [lambda: next(rows)])  # type: ignore[arg-type]
    assert found == [66]
    assert probe.samples_ns[reference] == -340


def test_costs_count_at_the_speed_of_the_timing() -> None:
    fast = Ceilings(
        node_gap_ns=70, node_gap_large_ns=-210, node_gap_set_ns=600, profiled_block_ps=40.0
    )
    slow = at_first_sample(fast, -340)
    assert slow == Ceilings(
        node_gap_ns=410, node_gap_large_ns=130, node_gap_set_ns=940, profiled_block_ps=40.0
    )
    # A device cannot take less than nothing.
    assert at_first_sample(fast, 340).node_gap_ns == 0
    assert at_first_sample(Ceilings(), 340) == Ceilings()


def test_two_rows_of_one_kernel_tell_when_the_first_begins() -> None:
    assert start_of_graphs_ns(4_700 + 100 * 1_015, 4_700 + 1_000 * 1_015) == 4_700
    assert start_of_graphs_ns(100, 2_000) == 0


def test_the_gap_at_each_sample_counts_from_the_first() -> None:
    found = with_samples(Ceilings(node_gap_ns=430), [0, -20, -360, 40])
    assert found.node_gap_samples_ns == [430, 410, 70, 470]
    assert with_samples(Ceilings(), [0, 10]) == Ceilings()
