"""Why the device stood idle: known answers, one program at a time."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from decodeprof.analysis.gaps import LATE_START_NS
from decodeprof.model.trace import Trace
from tests.build import LATENCY_NS, NODE_GAP_NS, TraceBuilder
from tests.reading import causes_of, content, gaps_of, trace_of
from tests.scenario import MAIN_THREAD, Scenario
from tests.scenarios import decode_loop, graph_loop
from tests.write_kineto import Dialect

US = 1_000


def some(causes: dict[str, int]) -> dict[str, int]:
    return {cause: ns for cause, ns in causes.items() if ns}


def rows(trace: Trace, device: int = 0) -> list[tuple[int, int, dict[str, int]]]:
    """Every gap with its causes."""
    gaps = gaps_of(trace, device)
    return [
        (start, end, some(gaps.causes_within(start, end)))
        for start, end in zip(gaps.start_ns.tolist(), gaps.end_ns.tolist(), strict=True)
    ]


def truth(scenario: Scenario, device: int = 0) -> list[tuple[int, int, dict[str, int]]]:
    return [(gap.start_ns, gap.end_ns, some(gap.causes_ns)) for gap in scenario.gaps(device)]


def program(**options: Any) -> TraceBuilder:
    """A program whose ops are recorded: one runs on a thread of its own."""
    b = TraceBuilder(**options)
    b.on("io")
    with b.op("aten::empty", before_ns=1, after_ns=0):
        pass
    b.on(MAIN_THREAD)
    return b


def check(b: TraceBuilder, device: int = 0) -> list[tuple[int, int, dict[str, int]]]:
    """The gaps, which must be those that the program is known to have had."""
    scenario = b.build()
    found = rows(trace_of(scenario), device)
    assert found == truth(scenario, device)
    return found


def test_a_late_launch_is_what_its_thread_did_a_latency_earlier() -> None:
    b = program()
    b.launch("a", 1 * US, call_ns=2 * US)  # 0: arrives 5,000; ends 6,000
    b.work(3 * US)
    with b.op("aten::mm", before_ns=4 * US, after_ns=1 * US):
        b.launch("b", 1 * US, call_ns=2 * US)  # called at 9,000: arrives 14,000
    # The gap 6,000 to 14,000 is what happened from 1,000 to 9,000.
    assert check(b) == [(6 * US, 14 * US, {"launch": 1 * US, "python": 3 * US, "dispatch": 4 * US})]


def test_the_time_inside_a_blocking_call_is_sync() -> None:
    b = program()
    b.launch("a", 50 * US)
    b.sync(return_ns=9 * US)  # returns 64,000
    b.work(180 * US)
    b.launch("b", 1 * US)
    ((start, end, causes),) = check(b)
    assert (start, end) == (55 * US, 249 * US)
    assert causes == {"sync": 14 * US, "python": 180 * US}


@pytest.mark.parametrize("api", ["cudaDeviceSynchronize", "cudaEventSynchronize", "cudaMemcpy"])
def test_a_gap_is_opened_by_the_call_in_which_the_device_drained(api: str) -> None:
    b = program()
    b.launch("a", 50 * US)
    b.work(10 * US)
    if api == "cudaMemcpy":
        b.copy(1 * US, api=api, waits=True, return_ns=9 * US)
    else:
        b.sync(api, return_ns=9 * US)
    b.work(181 * US)  # the next kernel starts 190 µs after the wait returned, less its way
    b.launch("b", 1 * US)
    b.work(30 * US)
    b.launch("c", 1 * US)
    scenario = b.build()
    trace = trace_of(scenario)
    gaps = gaps_of(trace)
    opened = [None if r < 0 else int(trace.calls.start_ns[r]) for r in gaps.opened_by.tolist()]
    # The second gap has no sync before it: only the first was opened by one.
    assert opened == [12 * US, None] == [gap.opened_by_ns for gap in scenario.gaps()]
    assert rows(trace) == truth(scenario)


def test_a_wait_that_found_the_device_idle_opened_nothing() -> None:
    b = program()
    b.launch("a", 1 * US)
    b.work(40 * US)
    b.sync(return_ns=1 * US)
    b.launch("b", 1 * US)
    trace = trace_of(b.build())
    assert gaps_of(trace).opened_by.tolist() == [-1]


def test_a_gap_between_queued_kernels_is_the_device() -> None:
    b = program(queue_gap_ns=900)
    for _ in range(5):
        b.launch("long", 40 * US)
    assert [causes for _, _, causes in check(b)] == [{"device": 900}] * 4


def test_gaps_between_graph_nodes_are_the_device() -> None:
    b = graph_loop(replays=3, nodes=60)
    found = check(b)
    assert len(found) == 3 * 59
    assert {ns for *_, causes in found for ns in causes.items()} == {("device", NODE_GAP_NS)}


def test_a_late_graph_launch_is_the_host() -> None:
    b = program(latency_ns={"kernel": 5 * US, "graph": 7 * US})
    for _ in range(25):
        b.work(200 * US)
        b.graph([("a", 1 * US), ("b", 1 * US)], call_ns=10 * US)
    found = check(b)
    assert some(causes_of(trace_of(b.build()))) == {
        "device": 25 * NODE_GAP_NS,
        # The graph's own 2,416 ns hide as much of the launch call that follows its arrival.
        "python": 24 * 200 * US,
        "launch": 24 * (10 * US - 2 * US - NODE_GAP_NS),
    }
    assert len(found) == 25 + 24


def test_a_graph_whose_first_node_has_no_length_is_still_launched_late() -> None:
    b = program()
    b.launch("a", 1 * US)
    b.work(100 * US)
    b.graph([("Memset", 0), ("a", 1 * US)], gap_ns=0)
    ((_, _, causes),) = rows(trace_of(b.build()))
    assert causes == {"launch": 1 * US, "python": 100 * US}


@pytest.mark.parametrize("recorded", [True, False], ids=["sync rows", "calls alone"])
def test_a_queued_kernel_behind_a_stream_wait_is_a_dependency(recorded: bool) -> None:
    b = program(queue_gap_ns=700)
    b.launch("a", 90 * US, stream=7)
    b.launch("b", 1 * US, stream=20)
    b.stream_wait(waiting=20, on=7, recorded=recorded)
    b.launch("c", 5 * US, stream=20)
    b.launch("d", 5 * US, stream=20)
    assert [causes for _, _, causes in check(b)] == [{"dependency": 700}, {"device": 700}]


def test_streams_of_one_number_on_two_devices_are_two() -> None:
    b = program(queue_gap_ns=700)
    b.launch("a", 90 * US, stream=20, device=1)
    b.launch("x", 90 * US, stream=20)
    b.stream_wait(waiting=20, on=7, recorded=True)  # on device 0
    b.launch("b", 5 * US, stream=20, device=1)
    b.launch("y", 5 * US, stream=20)
    assert [causes for *_, causes in check(b, device=1)] == [{"device": 700}]
    assert [causes for *_, causes in check(b, device=0)] == [{"dependency": 700}]


def test_a_stream_wait_explains_nothing_when_the_launch_came_late() -> None:
    b = program()
    b.launch("a", 1 * US, stream=7)
    b.stream_wait(waiting=20, on=7)
    b.work(80 * US)
    b.launch("c", 5 * US, stream=20)
    ((_, _, causes),) = check(b)
    assert "dependency" not in causes
    assert causes["python"] == 80 * US


def test_without_recorded_ops_python_is_not_known() -> None:
    b = TraceBuilder()
    b.launch("a", 1 * US)
    b.work(100 * US)
    b.launch("b", 1 * US)
    assert check(b) == [(6 * US, 107 * US, {"launch": 1 * US, "unknown": 100 * US})]


def test_no_launch_is_unknown() -> None:
    b = program()
    b.launch("a", 1 * US)
    b.work(100 * US)
    b.unlinked("b", start_ns=40 * US, ns=1 * US)
    b.launch("c", 1 * US)
    first, second = check(b)
    assert first == (6 * US, 40 * US, {"unknown": 34 * US})
    assert "unknown" not in second[2]


@pytest.mark.parametrize(
    ("late_ns", "call_ns", "launch_ns", "unknown_ns"),
    [
        (3 * US, 2 * US, 3 * US, 0),
        (LATE_START_NS, 2 * US, LATE_START_NS, 0),
        (LATE_START_NS + 1, 2 * US, LATE_START_NS, 1),
        (300 * US, 2 * US, LATE_START_NS, 280 * US),
        # A call that is still running explains the wait for it: a library loads its kernels.
        (300 * US, 250 * US, 245 * US, 55 * US),
        (300 * US, 400 * US, 300 * US, 0),
    ],
)
def test_what_follows_the_arrival(
    late_ns: int, call_ns: int, launch_ns: int, unknown_ns: int
) -> None:
    b = program()
    for _ in range(300):  # a floor needs launches that were on time
        b.launch("a", 1 * US, call_ns=2 * US)
        b.work(50 * US)
    b.launch("late", 1 * US, call_ns=call_ns, late_ns=late_ns)
    *_, (start, end, causes) = check(b)
    assert end - start == 50 * US + 2 * US - 1 * US + late_ns
    assert causes.get("unknown", 0) == unknown_ns
    assert causes["launch"] == 1 * US + launch_ns


def test_kernels_at_once_are_explained_by_the_one_launched_first() -> None:
    b = program(latency_ns={"kernel": 5 * US})
    b.launch("a", 1 * US, stream=7)
    b.work(30 * US)
    b.launch("b", 9 * US, stream=7, call_ns=2 * US, late_ns=2 * US)
    b.launch("c", 3 * US, stream=20, call_ns=2 * US)  # starts in the same ns as b
    scenario = b.build()
    assert scenario.activities[1].start_ns == scenario.activities[2].start_ns
    check(b)


def test_overlapping_streams_are_busy_once() -> None:
    b = program()
    b.launch("a", 30 * US, stream=7)
    b.launch("b", 30 * US, stream=20)
    b.launch("c", 3 * US, stream=21)
    trace = trace_of(b.build())
    assert gaps_of(trace).busy.total_ns == 32 * US
    assert len(gaps_of(trace)) == 0


def test_devices_have_their_own_gaps() -> None:
    b = program()
    for _ in range(4):
        b.launch("a", 2 * US, device=0)
        b.work(10 * US)
        b.launch("b", 30 * US, device=1)
        with b.op("aten::mm"):
            b.work(7 * US)
    scenario = b.build()
    trace = trace_of(scenario)
    for device in (0, 1):
        assert rows(trace, device) == truth(scenario, device)
        assert gaps_of(trace, device).busy.total_ns == scenario.busy_ns(device)
    assert rows(trace, 0) != rows(trace, 1)


def test_each_thread_is_asked_about_its_own_launches() -> None:
    b = program()
    b.launch("a", 1 * US)
    b.on("second")
    b.work(50 * US)
    with b.op("aten::mm", before_ns=20 * US):
        b.launch("b", 1 * US)
    b.on(MAIN_THREAD)
    b.work(100 * US)
    b.launch("c", 1 * US)
    found = check(b)
    # The second thread works from 0 on, so that its launch comes at 70 µs, the first one's at 102.
    assert [(start, end) for start, end, _ in found] == [(6 * US, 75 * US), (76 * US, 107 * US)]
    assert [causes for *_, causes in found] == [
        {"python": 49 * US, "dispatch": 20 * US},
        {"python": 31 * US},
    ]


def sweep(kernel_ns: int) -> dict[str, float]:
    """Shares of idle time for kernels of one length, a launch every 10 µs."""
    b = program(queue_gap_ns=1_000)
    for _ in range(120):
        b.work(2_200)
        with b.op("aten::add", before_ns=5_300, after_ns=0):
            b.launch("k", kernel_ns, call_ns=2_500)
    scenario = b.build()
    trace = trace_of(scenario)
    assert causes_of(trace) == scenario.causes_ns()
    causes = causes_of(trace)
    return {cause: ns / sum(causes.values()) for cause, ns in causes.items()}


def test_the_cause_does_not_flip_as_kernels_grow() -> None:
    lengths = [500, 1_000, 2_400, 4_000, 5_000, 6_000, 7_000, 8_000, 8_900, 9_100, 10_000, 20_000]
    shares = {ns: sweep(ns) for ns in lengths}
    for ns in lengths:
        if ns <= 7_000:
            assert shares[ns]["device"] == 0
    # Of each 10 µs the program spends 2.2 in Python, 5.3 in the framework, 2.5 in a launch call,
    # half a µs of which the kernel before it hides.
    assert shares[500]["python"] == pytest.approx(2.2 / 9.5, rel=0.01)
    assert shares[500]["dispatch"] == pytest.approx(5.3 / 9.5, rel=0.01)
    assert shares[500]["launch"] == pytest.approx(2.0 / 9.5, rel=0.01)
    device = [shares[ns]["device"] for ns in lengths]
    assert device == sorted(device)
    assert device[-1] > 0.99


def test_a_jitter_of_microseconds_makes_no_host_gap_a_device_gap() -> None:
    b = program()
    rng = np.random.default_rng(7)
    for late in rng.integers(0, 3_000, 500).tolist():
        b.work(2_200)
        with b.op("aten::add", before_ns=5_300, after_ns=0):
            b.launch("k", 2_400, call_ns=2_500, late_ns=late)
    scenario = b.build()
    causes, known = causes_of(trace_of(scenario)), scenario.causes_ns()
    assert causes["device"] == causes["unknown"] == 0
    # The floor is the least latency but one in a hundred: nanoseconds above the true one.
    for cause in ("launch", "dispatch", "python"):
        assert causes[cause] == pytest.approx(known[cause], abs=0.01 * sum(known.values()))


def test_a_start_before_its_launch_breaks_no_sum() -> None:
    trace = trace_of(decode_loop(steps=2).build())
    skewed = replace(
        trace,
        device=replace(
            trace.device,
            start_ns=trace.device.start_ns - 9 * US,
            end_ns=trace.device.end_ns - 9 * US,
        ),
    )
    start, end = skewed.span_ns() or (0, 0)
    gaps = gaps_of(skewed)
    assert gaps.busy.total_ns + sum(causes_of(skewed).values()) == end - start
    assert (gaps.causes_ns >= 0).all()


@pytest.mark.parametrize("program", [decode_loop, graph_loop])
def test_times_names_and_order_are_no_cause(program) -> None:  # type: ignore[no-untyped-def]
    scenario = program().build()
    expected = truth(scenario)
    moved = replace(
        scenario,
        activities=tuple(replace(a, stream=a.stream + 100) for a in scenario.activities),
        calls=tuple(replace(c, thread="decode") for c in scenario.calls),
        ops=tuple(replace(o, thread="decode") for o in scenario.ops),
        annotations=tuple(replace(a, thread="decode") for a in scenario.annotations),
    )
    renamed = trace_of(moved, dialect=Dialect(pid=77, seed=5))
    assert rows(renamed) == expected
    assert content(renamed) != content(trace_of(scenario))
    later = trace_of(scenario, dialect=Dialect(times="absolute", seed=6))
    assert rows(later) == expected


def test_the_floor_is_learnt_or_its_source_is_said() -> None:
    from decodeprof.analysis.launches import latency_floors, launches_of

    typical = {"kernel": 4_100, "copy": 4_200, "set": 4_300, "graph": 6_400}

    def floors(b: TraceBuilder, recorded: int | None = None):  # type: ignore[no-untyped-def]
        trace = trace_of(b.build())
        found = launches_of(trace, 0)
        return latency_floors(trace, found, recorded_ns=recorded, typical_ns=typical), found

    def loop(times: int, late_ns: int = 0) -> TraceBuilder:
        b = program()
        for _ in range(times):
            b.launch("a", 1 * US, late_ns=late_ns)
            b.work(50 * US)
        return b

    many, launches = floors(loop(20))
    assert (many.floor_ns["kernel"], many.source["kernel"]) == (LATENCY_NS, "measured")
    assert launches.found_idle.all()
    few, _ = floors(loop(19))
    # A launch of 5,000 ns was seen: 4,100 is no contradiction.
    assert (few.floor_ns["kernel"], few.source["kernel"]) == (4_100, "typical")
    told, _ = floors(loop(19), recorded=4_800)
    assert (told.floor_ns["kernel"], told.source["kernel"]) == (4_800, "recording")
    undercut, _ = floors(loop(19), recorded=6_000)
    assert undercut.floor_ns["kernel"] == LATENCY_NS
    # Copies were not seen: the kernels' measured floor serves, never another machine's.
    assert (many.floor_ns["copy"], many.samples["copy"]) == (LATENCY_NS, 0)


def test_a_launch_into_a_busy_queue_is_no_sample_of_the_floor() -> None:
    from decodeprof.analysis.launches import launches_of

    b = program()
    b.launch("a", 50 * US)
    b.launch("b", 1 * US)
    b.sync(return_ns=0)
    b.launch("c", 1 * US)
    assert launches_of(trace_of(b.build()), 0).found_idle.tolist() == [True, False, True]
