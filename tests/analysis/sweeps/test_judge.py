"""Crossings on curves whose truth is known."""

from __future__ import annotations

import msgspec
import pytest

from decodeprof.analysis.sweeps.crossing import Ratio, crossing
from decodeprof.analysis.sweeps.floors import Machine
from decodeprof.analysis.sweeps.judge import NO_GPU, ROOF_SHARE, Swept, judge
from decodeprof.diagnosis import verdict
from decodeprof.model.sweep import Crossing, Measured, Sweep

GAP_NS = 400
MACHINE = Machine(node_gap_ns=GAP_NS, bandwidth_bytes_per_s=4e12, flops_per_s=8e14)
HOST_NS, NODES = 1_000_000, 100


def point(value: int, busy_ns: int, **changes: object) -> Measured:
    """A step of 100 kernels on a host that needs 10 µs for each."""
    device = busy_ns + NODES * GAP_NS
    fields: dict[str, object] = {
        "value": value,
        "eager_ns": [max(HOST_NS, device)],
        "graph_ns": [device],
        "tokens": value,
        "bytes": 400_000_000,
        "flops": 8_000_000 * value,
        "activities": NODES,
        "kernels": NODES,
        "busy_ns": busy_ns,
        "graph_busy_ns": busy_ns,
        **changes,
    }
    return Measured(**fields)  # type: ignore[arg-type]


def swept(*points: Measured, **changes: object) -> Sweep:
    fields: dict[str, object] = {
        "subject": "a step",
        "axis": "batch",
        "device": "a GPU",
        "torch": "2",
        "points": points,
        "machine": MACHINE,
        "today": 1,
        **changes,
    }
    return judge(Swept(**fields))  # type: ignore[arg-type]


def of(sweep: Sweep, kind: str) -> Crossing:
    return next(found for found in sweep.crossings if found.kind == kind)


def line(value: int) -> Measured:
    """Its device floor is 20,000 ns × value: the host's time at 50, 1.1 × it at 55."""
    return point(value, 20_000 * value - NODES * GAP_NS)


def test_the_crossing_of_straight_lines_is_exact() -> None:
    sweep = swept(*(line(value) for value in (4, 16, 32, 64, 128)))
    assert sweep.launch_cost_ns is not None
    assert sweep.launch_cost_ns.expected == 10_000
    floors = of(sweep, "floors")
    assert floors.answer == "at"
    assert floors.at == pytest.approx(50)
    assert floors.low == pytest.approx(50)
    assert floors.high == pytest.approx(50)
    assert floors.between == (32, 64)
    # The eager curve bends at the crossing, so of where it leaves its plateau no more is claimed.
    plateau = of(sweep, "plateau")
    assert plateau.between == (plateau.low, plateau.high) == (32, 64)
    # Not the straight line between its two points, which would leave 1.1 behind before 50.
    assert plateau.at == pytest.approx(55)
    assert plateau.stand_in_ns == 20_000 * 32
    assert floors.stand_in_ns is None
    assert sweep.sentence == ("The device needs as long as the host from batch 50 on.")


def test_an_unsteady_host_widens_the_interval() -> None:
    points = [line(value) for value in (4, 16, 32, 64, 128)]
    points[0] = point(4, 40_000, eager_ns=[800_000])
    points[1] = point(16, 280_000, eager_ns=[1_250_000])
    floors = of(swept(*points), "floors")
    assert floors.at == pytest.approx(50)
    assert floors.low == pytest.approx(40)
    # 62.5, were the host always as slow as at its slowest.
    assert floors.high == pytest.approx(62.5)


def test_a_step_that_waits_for_a_slow_host_has_not_left_its_plateau() -> None:
    # Device floors of 80, 320 and 640 µs: whatever the host took at them, the device did not.
    points = [line(value) for value in (4, 16, 32, 64, 128)]
    steady = of(swept(*points), "plateau")
    points[0] = point(4, 40_000, eager_ns=[800_000])
    points[2] = point(32, 600_000, eager_ns=[1_400_000])
    noisy = of(swept(*points), "plateau")
    assert noisy.at == pytest.approx(steady.at)
    assert noisy.low == 32
    assert noisy.between == (32, 64)


def test_a_step_that_is_measured_beyond_the_bend_stands_for_itself() -> None:
    # The device takes 1.05 and 1.2 × the host's time: nothing bends between these two.
    plateau = of(swept(line(4), point(52, 1_010_000), point(60, 1_160_000)), "plateau")
    assert plateau.between == (52, 60)
    assert plateau.stand_in_ns is None


def test_a_point_whose_host_was_slow_all_the_while_is_named() -> None:
    points = [line(value) for value in (1, 4, 8)]
    assert swept(*points, point(16, 280_000)).caveats == []
    (caveat,) = swept(*points, point(16, 280_000, eager_ns=[1_500_000])).caveats
    assert "waits for its host at batch 16 (50 %)" in caveat


def test_none_up_to_the_last_point_is_an_answer() -> None:
    sweep = swept(line(4), line(16))
    assert of(sweep, "floors") == Crossing(kind="floors", answer="none", between=(16, 16))
    assert sweep.sentence.endswith("The device does not reach the host's time up to batch 16.")


def test_a_sweep_that_begins_beyond_the_crossing_says_so() -> None:
    sweep = swept(line(128), line(256), today=128)
    assert of(sweep, "floors").answer == "before"
    assert sweep.launch_cost_ns is None
    assert "device-bound" in sweep.sentence


def test_a_device_whose_clocks_moved_is_said_to_have() -> None:
    steady = swept(point(1, 1_000, node_ns=1_000), point(2, 1_000, node_ns=1_040))
    assert steady.caveats == []
    (caveat,) = swept(point(1, 1_000, node_ns=1_200), point(2, 1_000, node_ns=1_000)).caveats
    assert "took 1.20 µs beside point 1 and 1 µs beside 2" in caveat
    assert "compare to 20 % only" in caveat


def test_today_stands_on_a_side() -> None:
    sweep = swept(line(4), line(64), today=4)
    assert sweep.sentence.startswith(
        "At batch 4 the eager step is launch-bound: 1 ms, of which the device needs 80 µs. "
    )


def test_points_without_a_profile_are_not_judged() -> None:
    points = [Measured(value=value, eager_ns=[HOST_NS]) for value in (1, 2)]
    sweep = swept(*points)
    assert {found.answer for found in sweep.crossings} == {"unknown"}
    assert sweep.points[0].device_ns is None
    assert sweep.points[0].exposed_launch_share is None


def test_a_cpu_has_no_crossing() -> None:
    sweep = swept(Measured(value=1, eager_ns=[HOST_NS]), device=None)
    assert {found.reason for found in sweep.crossings} == {NO_GPU}
    assert "a CPU" in sweep.sentence


def test_a_failed_point_is_kept_and_left_out() -> None:
    gone = Measured(value=96, failed="out of memory")
    sweep = swept(line(4), line(32), line(64), gone)
    assert of(sweep, "floors").at == pytest.approx(50)
    assert sweep.points[-1].failed == "out of memory"


def test_the_figures_of_a_point() -> None:
    found = swept(line(4), line(64)).points[0]
    assert (found.host_ns, found.device_ns, found.bytes_ns) == (HOST_NS, 80_000, 100_000)
    assert found.exposed_launch_share == pytest.approx(0.92)
    assert found.mbu_share == pytest.approx(100_000 / 80_000)
    assert found.graph_gain == pytest.approx(12.5)
    assert found.tokens_per_s == pytest.approx(4e9 / 80_000)


def test_a_graph_is_worth_it_until_it_gains_less_than_a_tenth() -> None:
    sweep = swept(line(4), line(32), line(64))
    gain = of(sweep, "graph_gain")
    assert gain.answer == "at"
    assert gain.between == (32, 64)


def test_the_roof_is_reached_where_bytes_explain_the_busy_time() -> None:
    # 100 µs of bytes: 0.6 of a busy time of 167 µs.
    sweep = swept(point(1, 400_000), point(2, 200_000), point(4, 100_000))
    roof = of(sweep, "roof")
    assert roof.between == (2, 4)
    assert ROOF_SHARE == verdict.ROOF_SHARE


def test_the_last_rise_counts() -> None:
    values = [(1, 1.2), (2, 0.5), (4, 2.0)]
    found = crossing("floors", [Ratio(at, y, y, y) for at, y in values])
    assert found.between == (2, 4)
    assert found.at == pytest.approx(2 * 2**0.5)


def test_drift_is_said() -> None:
    sweep = swept(line(4), line(64), again_ns=[1_100_000])
    assert sweep.drift_share == pytest.approx(0.1)
    assert sweep.caveats == [
        "the first point took 10 % longer when it was measured again at the end: the host's speed "
        "moved"
    ]
    assert swept(line(4), again_ns=[1_010_000]).caveats == []


def bare(value: int) -> Measured:
    """Timed as `line` has it, and not counted."""
    device = 20_000 * value
    return Measured(value=value, eager_ns=[max(HOST_NS, device)], graph_ns=[device])


def test_points_that_no_profile_counted_are_known_by_their_graph() -> None:
    sweep = swept(line(4), line(16), line(32), bare(64), bare(128))
    assert of(sweep, "floors").at == pytest.approx(50)
    assert (sweep.points[3].device_ns, sweep.points[3].host_ns) == (1_280_000, HOST_NS)
    assert sweep.points[3].busy_ns is None
    assert len(sweep.caveats) == 1
    assert sweep.caveats[0].startswith("no profile counted batch 64, 128: the graph's step stands")


@pytest.mark.parametrize(
    "odd", [point(8, 120_000, graph_ns=[200_000]), point(8, 120_000, activities=NODES + 1)]
)
def test_nothing_stands_in_where_the_counted_points_do_not_bear_it_out(odd: Measured) -> None:
    sweep = swept(line(4), odd, bare(64))
    assert sweep.points[2].device_ns is None
    assert of(sweep, "floors").between == (8, 8)
    assert sweep.caveats == ["no profile counted batch 64: what needs the kernels is unknown there"]


def test_a_crossing_is_foreseen_from_the_first_point() -> None:
    # The roof grows by 20 µs for each of the axis, as the device floor of `line` does.
    grown = [msgspec.structs.replace(line(v), bytes=80_000_000 * v) for v in (4, 32, 64, 128)]
    found = swept(*grown).prediction
    assert found is not None
    assert found.device_ns == [20_000 * value for value in (4, 32, 64, 128)]
    assert found.at == pytest.approx(50)
    assert found.error_share == pytest.approx(0, abs=1e-9)


def test_a_miss_of_the_first_points_host_is_told_from_one_of_the_device() -> None:
    grown = [msgspec.structs.replace(line(v), bytes=80_000_000 * v) for v in (4, 16, 32, 64, 128)]
    # The host took half as long again for as long as the first point was measured.
    slow = msgspec.structs.replace(grown[0], eager_ns=[1_500_000])
    found = swept(slow, *grown[1:]).prediction
    assert found is not None
    assert found.at == pytest.approx(75)
    assert found.error_share == pytest.approx(0.5)
    assert found.first_host_share == pytest.approx(0.5)
    assert found.steady_at == pytest.approx(50)
    assert found.steady_error_share == pytest.approx(0, abs=1e-9)


def test_what_moves_more_than_the_least_is_foreseen_too_late() -> None:
    found = swept(*(line(value) for value in (4, 32, 64, 128))).prediction
    assert found is not None
    assert (found.at, found.error_share) == (None, None)
    # Bytes stay, and the FLOPs remain below them.
    assert set(found.device_ns) == {80_000}


def test_nothing_is_foreseen_from_a_point_that_waits_for_the_device() -> None:
    assert swept(line(128), line(256)).prediction is None
