"""Is the simulated device right? A few cases that can be checked on paper."""

from tests.build import TraceBuilder
from tests.scenarios import decode_loop


def test_a_late_launch_a_queued_one_and_a_wait() -> None:
    b = TraceBuilder()
    b.work(1_000)
    with b.op("aten::mm", before_ns=0, after_ns=0):
        b.launch("a", 10_000, call_ns=2_000)  # call 1,000; arrives 6,000; runs to 16,000
    b.launch("b", 3_000, call_ns=2_000)  # call 3,000; arrives 8,000; runs 16,000 to 19,000
    b.sync(return_ns=500)  # call 5,000 to 19,500
    b.work(700)
    b.launch("c", 1_000, call_ns=2_000)  # call 20,200; arrives and runs 25,200
    s = b.build()
    assert s.shift_ns == 1_000
    assert [(a.start_ns, a.end_ns) for a in s.activities] == [
        (5_000, 15_000),
        (15_000, 18_000),
        (24_200, 25_200),
    ]
    assert s.busy_ns() == 14_000
    (gap,) = s.gaps()
    assert (gap.start_ns, gap.end_ns) == (18_000, 24_200)
    # 5,000 earlier: from 13,000 the thread waited until 18,500, then 700 of Python.
    assert {k: v for k, v in gap.causes_ns.items() if v} == {"sync": 5_500, "python": 700}
    assert gap.opened_by_ns == 4_000


def test_graph_nodes_follow_one_another_and_share_a_call() -> None:
    b = TraceBuilder(latency_ns={"graph": 6_000})
    nodes = b.graph([("a", 100), ("b", 200)], call_ns=900, gap_ns=50)
    s = b.build()
    assert [(a.start_ns, a.end_ns) for a in s.activities] == [(6_000, 6_100), (6_150, 6_350)]
    assert len({a.correlation for a in nodes}) == 1
    assert s.causes_ns()["device"] == 50


def test_the_truth_sums_to_the_span() -> None:
    s = decode_loop().build()
    start, end = s.span_ns()
    assert s.busy_ns() + sum(s.causes_ns().values()) == end - start
    assert [phase for phase, _ in s.steps] == ["prefill", *["decode"] * 4]
