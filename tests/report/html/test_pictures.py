"""What each picture shows, by hand: places are percentages of its width or height."""

from __future__ import annotations

import json
import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decodeprof.model import charts as c
from decodeprof.model import diagnosis as d
from decodeprof.report.html.memory import memory
from decodeprof.report.html.roofline import RoofPicture, RoofUnknown, roofline
from decodeprof.report.html.samples import samples
from decodeprof.report.html.scale import decades, log_share, percent, round_values
from decodeprof.report.html.timeline import COLUMNS, HEIGHT, timeline
from decodeprof.report.html.waterfall import floors_fall, gains_fall
from tests.report import diagnoses

MS = 1_000_000


def test_axes_have_round_values() -> None:
    assert round_values(23.4, 5) == [0, 5, 10, 15, 20]
    assert round_values(10, 5) == [0, 2, 4, 6, 8, 10]
    assert round_values(0, 5) == [0]
    assert decades(3, 250) == [1, 10, 100, 1000]
    assert log_share(10, 1, 100) == 0.5
    assert log_share(0.1, 1, 100) == 0
    assert percent(1 / 3) == "33.333%"
    assert percent(0) == "0%"


@given(st.floats(min_value=1e-9, max_value=1e18), st.integers(1, 12))
def test_ticks_are_few_ascend_and_stay_inside(largest: float, most: int) -> None:
    values = round_values(largest, most)
    assert len(values) <= most + 1
    assert values == sorted(values)
    assert values[-1] <= largest * (1 + 1e-6)


def test_the_floors_stand_under_todays_step() -> None:
    fall = floors_fall(diagnoses.full())
    assert fall is not None
    rows = {row.label: row for row in fall.rows}
    assert list(rows) == ["step now", "host floor", "device floor", "bandwidth floor"]
    # The host's floor is the longest, 58.3 ms: it is the scale.
    assert rows["host floor"].end == "100%"
    assert rows["step now"].end == percent(49.7 / 58.3)
    assert rows["step now"].value == "49.7 ms"
    assert rows["bandwidth floor"].note == "0.6 %"


def test_gains_fall_from_today_to_the_bandwidth_floor() -> None:
    fall = gains_fall(diagnoses.full())
    assert fall is not None
    assert [row.label for row in fall.rows] == [
        "today",
        "no blocking calls",
        "one CUDA graph a step",
        "device floor, same kernels",
        "bandwidth floor",
    ]
    graph = fall.rows[2]
    assert (graph.end, graph.saved) == (percent(5.55 / 49.7), percent(44.15 / 49.7))
    assert (graph.low, graph.high) == (percent(5.4 / 49.7), percent(5.7 / 49.7))
    assert graph.note == "saves 89 %"


def test_without_predictions_nothing_falls() -> None:
    assert gains_fall(diagnoses.foreign_trace()) is None
    assert floors_fall(diagnoses.foreign_trace()) is None


def test_a_histogram_counts_every_sample_once() -> None:
    runs = [[49 * MS + i * 10_000 for i in range(100)], [60 * MS]]
    picture = samples(diagnoses.full(), c.Charts(runs_step_ns=runs))
    assert picture is not None
    assert picture.count == 101
    counted = sum(int(bar.title.rpartition(": ")[2].replace(",", "")) for bar in picture.bars)
    assert counted == 101
    assert picture.beyond == 1
    assert len(picture.dots) == 101
    assert picture.runs == (percent(100 / 101),)
    assert [mark.kind for mark in picture.marks] == ["p10", "median", "p90"]


def test_equal_samples_and_too_few() -> None:
    same = samples(diagnoses.full(), c.Charts(runs_step_ns=[[5 * MS] * 9]))
    assert same is not None
    assert len(same.bars) == 1
    assert samples(diagnoses.full(), c.Charts(runs_step_ns=[[5 * MS] * 4])) is None
    assert samples(diagnoses.foreign_trace(), c.Charts(runs_step_ns=[[5 * MS] * 9])) is None


def point(name: str, **values: int) -> c.RoofPoint:
    base = c.RoofPoint(family="matrix", name=name, count=1, time_ns=1000, bytes=1000, flops=1000)
    return msgspec.structs.replace(base, **values)


def test_a_kernel_at_the_bandwidth_lies_on_the_roof() -> None:
    found = c.Roofline(
        # 4 GB a second × 1 µs, and a hundredth of it.
        points=[point("fast", bytes=4_000_000, flops=4_000_000), point("slow", bytes=40_000)],
        bandwidth_bytes_per_s=4e12,
        flops_per_s=8e14,
        known_time_share=0.5,
    )
    picture = roofline(c.Charts(roofline=found))
    assert isinstance(picture, RoofPicture)
    dots = {dot.title.partition(":")[0]: dot for dot in picture.dots}
    assert dots["fast"].y == picture.roof_y
    assert dots["fast"].title == "fast: 4 TB/s, 1 µs a step"
    shares = {row.name: row.share for row in picture.rows}
    assert shares == {"fast": "100 %", "slow": "1.0 %"}
    assert picture.slope is not None
    assert picture.slope[1] == picture.roof_y


def test_instances_of_one_template_are_one_point() -> None:
    found = c.Roofline(
        points=[point("void k<int>(int)"), point("void k<float>(int)", time_ns=3000)],
        bandwidth_bytes_per_s=4e12,
        flops_per_s=None,
        known_time_share=1.0,
    )
    picture = roofline(c.Charts(roofline=found))
    assert isinstance(picture, RoofPicture)
    assert [(row.name, row.count, row.time) for row in picture.rows] == [("k", "2", "4 µs")]
    assert picture.slope is None


def test_small_circles_lie_over_large_ones_and_each_of_the_longest_has_its_number() -> None:
    points = [point(f"k{i}", time_ns=1000 * (i + 1), bytes=4_000_000) for i in range(10)]
    found = c.Roofline(
        points=points, bandwidth_bytes_per_s=4e12, flops_per_s=None, known_time_share=1.0
    )
    picture = roofline(c.Charts(roofline=found))
    assert isinstance(picture, RoofPicture)
    radii = [float(dot.radius) for dot in picture.dots]
    assert radii == sorted(radii, reverse=True)
    # Area is proportional to time: the tenth takes a tenth of the first's.
    assert radii[-1] ** 2 / radii[0] ** 2 == pytest.approx(0.1, abs=0.01)
    assert [dot.number for dot in picture.dots] == [*range(1, 9), None, None]
    assert [dot.label is not None for dot in picture.dots] == [True] * 8 + [False] * 2


def test_bytes_that_are_hardly_known_are_said_to_be_unknown() -> None:
    found = c.Roofline(
        points=[point("Memset")],
        bandwidth_bytes_per_s=4e12,
        flops_per_s=None,
        known_time_share=0.014,
    )
    told = "unknown: the bytes of 99 % of the step's kernel time are not known"
    assert roofline(c.Charts(roofline=found)) == RoofUnknown(told)
    nothing = roofline(c.Charts(timeline=drawn()))
    assert isinstance(nothing, RoofUnknown)
    assert nothing.text.startswith("unknown: it takes the bytes of a step's kernels")
    assert roofline(c.Charts()) is None


def test_memory_is_parts_of_what_was_reserved() -> None:
    found = c.Memory(
        device_bytes=1000,
        reserved_bytes=100,
        allocated_bytes=80,
        parameter_bytes=60,
        buffer_bytes=0,
    )
    picture = memory(c.Charts(memory=found))
    assert picture is not None
    assert [(part.kind, part.x, part.width) for part in picture.parts] == [
        ("parameters", "0%", "60%"),
        ("other", "60%", "20%"),
        ("reserved", "80%", "20%"),
    ]
    assert picture.caption.endswith("10 % of the device's 1 kB")
    assert memory(c.Charts()) is None


def track(*spans: tuple[int, int]) -> c.DeviceTrack:
    return c.DeviceTrack(
        device=0,
        stream=7,
        depth=0,
        start_ns=[a for a, _ in spans],
        length_ns=[n for _, n in spans],
        name=[0] * len(spans),
        latency_ns=[-1] * len(spans),
        op=[-1] * len(spans),
    )


def drawn(**changes: object) -> c.Timeline:
    """Busy in the first half; idle in the second, a quarter for Python and three for launches."""
    base = c.Timeline(
        length_ns=4800,
        caption="a stretch",
        names=[c.Named(text="k", family="matrix")],
        steps=[c.StepSpan(index=3, phase="decode", steady=True, start_ns=0, end_ns=4800)],
        device=[track((0, 2400))],
        host=[],
        gaps=c.GapTrack(
            start_ns=[2400],
            length_ns=[2400],
            parts=[[(d.IDLE_CAUSES.index("launch"), 1800), (d.IDLE_CAUSES.index("python"), 600)]],
        ),
        syncs=[c.SyncMark(start_ns=1200, length_ns=10, name=0, site=1)],
        idle_known=True,
    )
    return msgspec.structs.replace(base, **changes)


def areas(path: str) -> float:
    """The area that a lane's path covers, as a share of the lane."""
    heights = re.findall(r"M\d+ [\d.]+h1v([\d.]+)h-1z", path)
    return sum(float(height) for height in heights) / (COLUMNS * HEIGHT)


def test_a_lane_without_script_shows_each_parts_share() -> None:
    picture = timeline(c.Charts(timeline=drawn()), decode_sites=2)
    assert picture is not None
    device = {area.kind: areas(area.path) for area in picture.lanes[0].areas}
    assert device == pytest.approx({"busy": 0.5, "launch": 0.375, "python": 0.125}, abs=0.003)
    assert picture.steps[0].label == "decode 3: 4.80 µs"
    assert (picture.syncs[0].x, picture.syncs[0].number) == ("25%", 2)


def test_short_activities_fill_their_share_of_a_column() -> None:
    # One in four nanoseconds, everywhere: a quarter of each column.
    gaps = c.GapTrack(
        start_ns=[4 * i + 1 for i in range(1200)],
        length_ns=[3] * 1200,
        parts=[[(d.IDLE_CAUSES.index("device"), 3)]] * 1200,
    )
    picture = timeline(c.Charts(timeline=drawn(gaps=gaps)), decode_sites=0)
    assert picture is not None
    device = {area.kind: areas(area.path) for area in picture.lanes[0].areas}
    assert device == pytest.approx({"busy": 0.25, "device": 0.75}, abs=0.003)
    assert picture.syncs[0].number is None


def test_what_the_host_did_in_an_op_is_what_no_call_covers() -> None:
    def host(kind: str, *spans: tuple[int, int]) -> c.HostTrack:
        sort = "op" if kind == "op" else "launch"
        return c.HostTrack(
            thread="1",
            kind=kind,  # type: ignore[arg-type]
            depth=0,
            start_ns=[a for a, _ in spans],
            length_ns=[n for _, n in spans],
            name=[0] * len(spans),
            call_kind=[sort] * len(spans),  # type: ignore[list-item]
        )

    tracks = [host("op", (0, 2400), (2400, 1200)), host("api", (600, 600), (2400, 600))]
    picture = timeline(c.Charts(timeline=drawn(host=tracks)), decode_sites=0)
    assert picture is not None
    found = {area.kind: areas(area.path) for area in picture.lanes[1].areas}
    assert found == pytest.approx({"launch": 0.25, "op": 0.5}, abs=0.003)


def test_the_scripts_data_gives_every_time_back() -> None:
    device = [track((5, 10), (20, 5), (700, 100))]
    picture = timeline(c.Charts(timeline=drawn(device=device)), decode_sites=2)
    assert picture is not None
    data = json.loads(picture.data)
    assert data["device"][0]["start"] == [5, 15, 680]
    assert data["device"][0]["length"] == [10, 5, 100]
    assert data["gaps"] == {"start": [2400], "parts": [[1, 1800, 3, 600]]}
    assert data["syncs"] == [[1200, 10, 0, 2]]
    assert data["causes"][1] == ["launch", "L"]


def test_the_legend_names_what_is_drawn() -> None:
    names = [
        c.Named(text="gemm", family="matrix"),
        c.Named(text="kv", family="gather and scatter"),
        c.Named(text="mine", family="other"),
        c.Named(text="not launched", family="norm"),
    ]
    one = msgspec.structs.replace(track((0, 10), (10, 10), (20, 10)), name=[0, 1, 2])
    picture = timeline(c.Charts(timeline=drawn(names=names, device=[one])), decode_sites=0)
    assert picture is not None
    assert [(one.style, one.label) for one in picture.legend] == [
        ("c-busy", "device busy"),
        ("c-launch", "idle: launch"),
        ("c-python", "idle: python"),
    ]
    assert [(one.style, one.key) for one in picture.families] == [
        ("f-gather-and-scatter", "g"),
        ("f-matrix", "m"),
    ]
    data = json.loads(picture.data)
    # Kernels that are "other" have nothing in common: the script tells them apart by name.
    assert [data["families"][i] for i in data["by_name"]] == ["other"]


def test_without_steps_one_band_says_so() -> None:
    picture = timeline(c.Charts(timeline=drawn(steps=[])), decode_sites=0)
    assert picture is not None
    assert [(s.x, s.width, s.label) for s in picture.steps] == [("0%", "100%", "no steps: 4.80 µs")]


def test_nothing_to_draw_is_no_timeline() -> None:
    assert timeline(c.Charts(), decode_sites=0) is None
    assert timeline(c.Charts(timeline=drawn(length_ns=0)), decode_sites=0) is None
