"""Random programs: every gap is explained as the program knows it, and the parts always sum."""

from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.build import TraceBuilder
from tests.reading import causes_of, gaps_of, steps_of, trace_of
from tests.scenario import CAUSES, Range, Scenario
from tests.write_kineto import Dialect

NS = st.integers(0, 30_000)
STREAM = st.sampled_from([7, 20])
DEVICE = st.sampled_from([0, 0, 0, 1])
# What a program may do, as (method, arguments). Fewer than 20 launches a kind: the latency floors
# are then the ones that the builder was given.
ACTION = st.one_of(
    st.tuples(st.just("work"), st.fixed_dictionaries({"ns": NS})),
    st.tuples(
        st.just("launch"),
        st.fixed_dictionaries(
            {
                "name": st.just("k"),
                "ns": NS,
                "call_ns": NS,
                "stream": STREAM,
                "device": DEVICE,
                "late_ns": st.sampled_from([0, 0, 0, 700, 25_000]),
            }
        ),
    ),
    st.tuples(
        st.just("copy"),
        st.fixed_dictionaries({"ns": NS, "stream": STREAM, "api": st.just("cudaMemcpyAsync")}),
    ),
    st.tuples(
        st.just("copy"),
        st.fixed_dictionaries(
            {
                "ns": NS,
                "stream": STREAM,
                "waits": st.just(True),
                "name": st.sampled_from(["Memcpy DtoH (Device -> Pageable)"]),
            }
        ),
    ),
    st.tuples(st.just("set"), st.fixed_dictionaries({"ns": NS})),
    st.tuples(
        st.just("graph"),
        st.fixed_dictionaries(
            {
                "nodes": st.lists(st.tuples(st.just("n"), NS), min_size=1, max_size=5),
                "call_ns": NS,
                "gap_ns": st.sampled_from([0, 416]),
                "stream": STREAM,
            }
        ),
    ),
    st.tuples(
        st.just("sync"),
        st.fixed_dictionaries(
            {"stream": st.sampled_from([None, 7, 20]), "device": DEVICE, "return_ns": NS}
        ),
    ),
    st.tuples(
        st.just("stream_wait"),
        st.fixed_dictionaries(
            {"waiting": st.just(20), "on": st.just(7), "recorded": st.just(True)}
        ),
    ),
    st.tuples(
        st.just("unlinked"),
        st.fixed_dictionaries(
            {"name": st.just("u"), "start_ns": st.integers(60_000, 160_000), "ns": NS}
        ),
    ),
    st.tuples(st.just("on"), st.fixed_dictionaries({"thread": st.sampled_from(["429", "430"])})),
)


@st.composite
def programs(draw: st.DrawFn) -> Scenario:
    b = TraceBuilder(queue_gap_ns=draw(st.sampled_from([0, 900])))
    # What a thread did before the recording counts as well, a latency later.
    for thread in ("430", "429"):
        b.on(thread)
        b.work(60_000)
    with b.op("aten::empty", before_ns=0, after_ns=0):
        b.launch("first", 1_000)
    waited = False
    for name, arguments in draw(st.lists(ACTION, max_size=14)):
        action = getattr(b, name)
        waited |= name == "stream_wait"
        if waited and name == "on":
            # A stream wait orders what is enqueued after it, by any thread: threads hand over.
            b.on(**arguments)
            b.work(max(b.now_ns.values()) - b.now)
            continue
        if name == "stream_wait":
            b.work(max(b.now_ns.values()) - b.now)
        if name != "on" and draw(st.booleans()):
            with b.op("aten::op", before_ns=draw(NS), after_ns=draw(NS)):
                action(**arguments)
        else:
            action(**arguments)
    return b.build()


def explained(trace: Any, device: int) -> list[Any]:
    gaps = gaps_of(trace, device)
    starts = [None if r < 0 else int(trace.calls.start_ns[r]) for r in gaps.opened_by.tolist()]
    return [
        (start, end, gaps.causes_within(start, end), opened)
        for start, end, opened in zip(
            gaps.start_ns.tolist(), gaps.end_ns.tolist(), starts, strict=True
        )
    ]


@settings(max_examples=300)
@given(scenario=programs(), seed=st.sampled_from([None, 1]))
def test_every_gap_is_what_the_program_did(scenario: Scenario, seed: int | None) -> None:
    trace = trace_of(scenario, dialect=Dialect(seed=seed, flows=False))
    for device in scenario.devices():
        assert explained(trace, device) == [
            (gap.start_ns, gap.end_ns, gap.causes_ns, gap.opened_by_ns)
            for gap in scenario.gaps(device)
        ]
        assert gaps_of(trace, device).busy.total_ns == scenario.busy_ns(device)


@settings(max_examples=100)
@given(scenario=programs(), offsets=st.lists(st.integers(-40_000, 40_000), min_size=1))
def test_parts_sum_whatever_the_times_are(scenario: Scenario, offsets: list[int]) -> None:
    """Device times moved at random: skewed clocks, overlaps, launches after their starts."""
    trace = trace_of(scenario, dialect=Dialect(flows=False))
    moves = np.resize(np.array(offsets, np.int64), len(trace.device))
    start = trace.device.start_ns + moves
    moved = replace(trace.device, start_ns=start, end_ns=trace.device.end_ns + moves).take(
        np.argsort(start, kind="stable")
    )
    trace = replace(trace, device=moved)
    for device in scenario.devices():
        real = (moved.device == device) & (moved.end_ns > moved.start_ns)
        if not real.any():
            continue
        gaps = gaps_of(trace, device)
        span = int(moved.end_ns[real].max() - moved.start_ns[real].min())
        causes = causes_of(trace, device)
        assert gaps.busy.total_ns + sum(causes.values()) == span
        assert (gaps.causes_ns >= 0).all()
        assert (gaps.causes_ns.sum(axis=1) == gaps.end_ns - gaps.start_ns).all()
        assert tuple(causes) == CAUSES


@settings(max_examples=60)
@given(scenario=programs(), marks=st.lists(st.integers(0, 300_000), min_size=1, max_size=6))
def test_step_windows_sum_too(scenario: Scenario, marks: list[int]) -> None:
    loops = tuple(Range(at, at, "decodeprof.loop") for at in sorted({0, *marks}))
    trace = trace_of(replace(scenario, annotations=loops), dialect=Dialect(flows=False))
    for device in scenario.devices():
        steps, gaps = steps_of(trace, device=device), gaps_of(trace, device)
        for start, end in zip(
            steps.device_start_ns.tolist(), steps.device_end_ns.tolist(), strict=True
        ):
            if start < 0:
                continue
            assert end >= start
            busy = int(gaps.busy.within(np.array([start]), np.array([end]))[0])
            assert busy + sum(gaps.causes_within(start, end).values()) == end - start
