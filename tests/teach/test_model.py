"""The page's model, run by Node, and replay in Python give the same times for the same settings."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
from dataclasses import asdict, replace
from importlib.resources import files

import pytest

from decodeprof.analysis.replay.run import NEVER_NS, replay
from decodeprof.recording import read_recording
from decodeprof.teach.curves import packaged_curves
from decodeprof.teach.page import learn_page
from decodeprof.teach.steps import Settings, constants, floor_bytes, kernels, program
from tests.teach import make_curves

MODEL = files("decodeprof.teach.templates").joinpath("model.js")
NODE = shutil.which("node")
needs_node = pytest.mark.skipif(NODE is None, reason="Node is not installed")

PROGRAM = """
const fs = require("fs");
const Model = require(process.argv[1]);
const { constants, all } = JSON.parse(fs.readFileSync(0, "utf8"));
console.log(JSON.stringify(all.map((settings) => {
  const found = Model.replay(settings, constants);
  return {
    period: found.period, steps: found.steps, settled: found.settled,
    kernels: found.kernels.map((kernel) => [kernel.kind, kernel.bytes, kernel.flops, kernel.ns]),
    starts: found.before.starts, begin: found.before.starts[0],
    floors: Model.floors(settings, constants),
  };
})));
"""


def some_settings(count: int) -> list[Settings]:
    """Settings all over the page's sliders, the same in every run."""
    generator = random.Random(7)
    return [
        Settings(
            proportions=generator.choice(["0.6b", "8b"]),
            layers=generator.choice([1, 2, 4, 8, 28]),
            width=generator.choice([256, 1024, 4096]),
            batch=generator.choice([1, 3, 64, 1024]),
            context=generator.choice([16, 128, 4096, 32_768]),
            launch_ns=generator.choice([500, 2_000, 8_000, 20_000]),
            bandwidth_gb_s=generator.choice([500, 3_350, 4_300]),
            fused=generator.random() < 0.5,
            graph=generator.random() < 0.4,
            sync_every=generator.choice([0, 0, 1, 2, 4, 16]),
        )
        for _ in range(count)
    ]


@needs_node
def test_the_page_and_replay_agree_to_the_nanosecond() -> None:
    assert NODE is not None
    all_settings = [Settings(), *some_settings(80)]
    given = {"constants": constants(), "all": [asdict(settings) for settings in all_settings]}
    done = subprocess.run(
        [NODE, "-e", PROGRAM, str(MODEL)],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        check=True,
    )
    settled = 0
    for settings, page in zip(all_settings, json.loads(done.stdout), strict=True):
        own = [[k.kind, k.bytes, k.flops, k.ns] for k in kernels(settings)]
        assert page["kernels"] == own
        assert page["floors"]["bytes_read"] == floor_bytes(settings)
        found = replay(program(settings))
        assert (page["period"], page["settled"]) == (found.period_ns, found.converged), settings
        assert page["steps"] == max(settings.sync_every, 1)
        starts = [s - page["begin"] if s > NEVER_NS else NEVER_NS for s in page["starts"]]
        assert starts == found.starts_ns.tolist()
        settled += page["settled"]
    assert settled > 70


def test_the_least_that_is_read_is_what_the_real_shape_reads() -> None:
    # Weights of Qwen3-0.6B in bf16, without norms: 1.19 GB; a token's keys and values: 114,688 B.
    assert floor_bytes(Settings(context=1)) - 114_688 == 1_191_968_768
    assert floor_bytes(Settings(batch=2, context=100)) - 200 * 114_688 == 1_191_968_768


def test_a_slow_host_sets_the_pace() -> None:
    settings = Settings(launch_ns=20_000)
    count = len(kernels(settings))
    expected = count * 20_000 + constants()["step_python_ns"]
    assert replay(program(settings)).step_ns == expected


def test_a_fast_host_leaves_it_to_the_device() -> None:
    settings = Settings(launch_ns=500, batch=64)
    busy = sum(kernel.ns for kernel in kernels(settings))
    expected = busy + len(kernels(settings)) * constants()["node_gap_ns"]
    assert replay(program(settings)).step_ns == pytest.approx(expected, rel=1e-3)


def test_a_graph_takes_the_devices_own_time() -> None:
    settings = Settings(graph=True)
    busy = sum(kernel.ns for kernel in kernels(settings))
    expected = busy + len(kernels(settings)) * constants()["node_gap_ns"]
    assert replay(program(settings)).step_ns == expected


def test_a_wait_costs_a_graph_its_run_ahead_and_an_eager_step_next_to_nothing() -> None:
    def step(**changes: object) -> int:
        return replay(program(Settings(**changes))).step_ns  # type: ignore[arg-type]

    fixed = constants()
    lost = step(graph=True, sync_every=1) - step(graph=True)
    assert lost > fixed["wait_return_ns"] + fixed["graph_launch_ns"]
    assert step(sync_every=1) - step() < 0.01 * step()
    assert step(graph=True, sync_every=16) - step(graph=True) < lost / 10


def test_a_launched_step_is_far_from_the_measured_one_only_where_the_host_was_slow() -> None:
    for curve in packaged_curves():
        shape = Settings(**curve.settings)  # type: ignore[arg-type]
        for point in curve.points:
            assert point.eager_ns is not None
            step_ns = replay(program(replace(shape, batch=point.batch))).step_ns
            far = abs(point.eager_ns / step_ns - 1) > 0.2
            assert far == point.slow_host, (curve.name, point)


def test_the_page_tells_what_a_graphs_launch_took_on_the_hosts_measured() -> None:
    recordings = sorted(make_curves.FIXTURES.glob("*/recording.json"))
    if not recordings:
        pytest.skip("no recordings in this checkout")
    read = [read_recording(path.parent).ceilings for path in recordings]
    took = sorted(c.graph_launch_ns for c in read if c is not None and c.graph_launch_ns)
    page = " ".join(learn_page(packaged_curves()).split())
    assert f"take {took[0] / 1e3:.0f} to {took[-1] / 1e3:.0f} µs, by host" in page
    assert sum(ns < 20_000 for ns in took) > 0.8 * len(took)
    fixed = constants()
    model, python = fixed["graph_launch_ns"] // 1000, fixed["step_python_ns"] // 1000
    told = f"the model has {model} µs, and {python} µs for the Python around it in each step"
    assert f"{told}, which makes the {model + python} µs of its host" in page


def test_the_page_says_how_far_the_model_is_from_what_was_measured() -> None:
    worst = {}
    for curve in packaged_curves():
        shape = replace(Settings(**curve.settings), graph=True)  # type: ignore[arg-type]
        for point in curve.points:
            assert point.graph_ns is not None
            step_ns = replay(program(replace(shape, batch=point.batch))).step_ns
            off = abs(step_ns / point.graph_ns - 1)
            worst[curve.name] = max(worst.get(curve.name, 0), off)
    assert 0.21 < worst.pop("0.6B, fused kernels") < 0.22
    assert 0.09 < max(worst.values()) < 0.10
    page = " ".join(learn_page(packaged_curves()).split())
    assert "within 10 % of the measured ones up to batch 1,024, and within 22 % with fused" in page
