"""Costs of nodes are found again, and explain what real graphs took."""

import json
import statistics
from dataclasses import astuple
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decodeprof.ingest.read import read_trace
from decodeprof.model.families import family
from decodeprof.model.graph_nodes import (
    Mixture,
    NodeCosts,
    costs_ns,
    fitted,
    mixture,
    whole_gap,
)
from decodeprof.model.trace import ActivityKind

KERNEL, COPY, SET = ActivityKind.KERNEL, ActivityKind.COPY, ActivityKind.SET
GRAPHS: dict[str, Any] = json.loads(
    (Path(__file__).parents[2] / "fixtures/node_costs/graphs.json").read_text()
)
CALIBRATION = ("layers1", "layers512", "expanded", "sets", "copies")
START_NS = 4_700
"""Of a queued graph, before its first node."""
BOUND_BY_MEMORY = ("medium",)
"""Its kernels move bytes as fast as the device can."""


def mixed(*rows: tuple[ActivityKind, int, bool]) -> Mixture:
    kinds, blocks, matrix = zip(*rows, strict=True)
    return mixture(
        kind=np.array(kinds, np.int8),
        blocks=np.array(blocks, np.int64),
        whole=np.array(matrix, bool),
    )


def test_each_kind_has_its_field() -> None:
    costs = NodeCosts(few_ns=300, many_ns=100, set_ns=2000, copy_ns=200, block_ns=0.05)
    rows = mixed(
        (KERNEL, 1, False),
        (KERNEL, 16, False),
        (KERNEL, 512, False),
        (KERNEL, 100_000, False),
        (KERNEL, 600, True),
        (SET, 0, False),
        (COPY, 0, False),
        (KERNEL, -1, False),
        (ActivityKind.GRAPH, -1, False),
    )
    found = costs_ns(costs, rows).tolist()
    assert found == pytest.approx(
        [300 - 0.05, 300 - 0.8, 100 - 25.6, 100 - 5000, 300 - 30, 2000, 200, 300, 300]
    )


def test_the_gap_falls_with_the_logarithm_of_the_blocks() -> None:
    costs = NodeCosts(few_ns=400, many_ns=100, set_ns=0, copy_ns=0, block_ns=0)
    blocks = [2**power for power in range(12)]
    gaps = costs_ns(costs, mixed(*((KERNEL, each, False) for each in blocks))).tolist()
    assert gaps == sorted(gaps, reverse=True)
    steps = np.diff(gaps[4:10])
    assert steps == pytest.approx([-60] * 5)


def test_a_kernel_that_waits_for_memory_hides_what_the_profiler_adds() -> None:
    kind, blocks = np.zeros(2, np.int8), np.array([1000, 1000])
    found = mixture(
        kind=kind, blocks=blocks, whole=np.zeros(2, bool), hidden=np.array([True, False])
    )
    assert found[:, -1].tolist() == [0, -1000]


positive = st.floats(0, 5000)


@given(st.tuples(*[positive] * 4, st.floats(0, 0.1), positive))
def test_known_costs_are_found_again(fields: tuple[float, ...]) -> None:
    costs = NodeCosts(*fields)
    mixtures = [
        mixed(*[(KERNEL, 1, False)] * few, *[(KERNEL, blocks, False)] * many)
        for few, many, blocks in ((11, 0, 0), (3, 20, 900), (0, 4, 131_072), (1, 0, 0))
    ]
    mixtures += [mixed(*[(KERNEL, 4, False), (kind, 0, False)] * 9) for kind in (SET, COPY)]
    beside = [costs_ns(costs, each).sum() + costs.start_ns for each in mixtures]
    found = fitted([each.sum(axis=0) for each in mixtures], beside)
    assert found is not None
    assert astuple(found) == pytest.approx(astuple(costs), rel=1e-6, abs=1e-3)


def test_graphs_that_tell_nothing_apart_give_one_gap() -> None:
    alike = mixed(*[(KERNEL, 1, False)] * 11, *[(KERNEL, 900, False)] * 2).sum(axis=0)
    found = fitted([alike, alike], [13 * 400, 13 * 400])
    assert found == NodeCosts(400, 400, 400, 400, 0, 0)


def test_no_nodes_cost_nothing_known() -> None:
    assert fitted([], []) is None
    assert fitted([np.zeros(5)], [3000]) is None


def real(name: str) -> tuple[Mixture, int]:
    """The sum of a step's rows, and its profiled busy time."""
    rows = GRAPHS[name]["launched"]
    kinds = {"kernel": KERNEL, "set": SET, "copy": COPY}
    each = mixture(
        kind=np.array([kinds[row["kind"]] for row in rows], np.int8),
        blocks=np.array([row["blocks"] for row in rows]),
        whole=whole_gap([row["name"] for row in rows]),
        hidden=np.full(len(rows), name in BOUND_BY_MEMORY),
    )
    counts = np.array([row["count"] for row in rows])
    return each.T @ counts, sum(row["ns"] for row in rows)


def test_the_calibration_explains_what_real_steps_took_as_graphs() -> None:
    """Measured on an H200, of which the calibration holds no kernel."""
    known = [(*real(name), GRAPHS[name]["graph_ns"]) for name in CALIBRATION]
    costs = fitted(
        [np.zeros(5), *(each for each, _, _ in known)],
        [START_NS, *(graph - busy for _, busy, graph in known)],
    )
    assert costs is not None
    assert 0.03 < costs.block_ns < 0.05
    assert 350 < costs.few_ns < 450
    assert 80 < costs.many_ns < 180
    assert costs.copy_ns < costs.few_ns < costs.set_ns
    errors = {}
    for name in GRAPHS.keys() - {*CALIBRATION}:
        each, busy = real(name)
        predicted = busy + costs_ns(costs, each).sum() + costs.start_ns
        errors[name] = abs(predicted / GRAPHS[name]["graph_ns"] - 1)
    assert len(errors) == 9
    assert statistics.median(errors.values()) < 0.007
    # hf_static's matrix-vector kernels were 62 µs slower launched than as nodes, for their inputs
    # lay elsewhere.
    assert max(errors, key=errors.__getitem__) == "hf_static"
    assert max(errors.values()) < 0.025


def test_what_a_profiler_adds_to_many_blocks_is_no_gap() -> None:
    graph_ns, (row,) = GRAPHS["expanded"]["graph_ns"], GRAPHS["expanded"]["launched"]
    assert row["ns"] > 1.03 * graph_ns


@pytest.mark.parametrize("stage", ["stage_norm", "stage_fused"])
def test_what_a_kernel_waits_behind_a_memset_depends_on_the_kernel(stage: str) -> None:
    # Why one cost for all memsets comes out short for steps with attention behind each.
    trace = read_trace(Path(__file__).parents[2] / "fixtures" / stage / "trace.json.gz")
    device = trace.device
    order = np.argsort(device.start_ns, kind="stable")
    gaps: dict[str, list[int]] = {"attention": [], "matrix": []}
    for before, row in pairwise(order):
        behind = family(trace.names[device.name[row]])
        if device.kind[before] == SET and behind in gaps:
            gaps[behind].append(int(device.start_ns[row] - device.end_ns[before]))
    assert len(gaps["attention"]) > 200
    assert 4_000 < statistics.median(gaps["attention"]) < 6_000
    assert 1_000 < statistics.median(gaps["matrix"]) < 2_000
