"""What is a decode step, as the page's model has it: kernels, launches, waits, and their times?

A deliberately small model: every kernel takes a fixed least time plus what its bytes or its
operations take at the device's rate, every launch costs the host the same. It becomes a `Program`
of the same kind that a recording becomes, and replay plays it. The page computes the same in the
browser, from the same constants.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from decodeprof.analysis.replay.program import LAUNCH, Events, Program
from decodeprof.analysis.replay.waits import WAIT
from decodeprof.model.trace import NONE
from decodeprof.teach.templates import read


@dataclass(frozen=True)
class Settings:
    """What the page's controls set.

    Attributes:
        proportions: of the layer's matrices: "0.6b" or "8b".
        width: of the hidden state.
        context: tokens that each row attends to.
        launch_ns: host time of one launch.
        bandwidth_gb_s: of the device's memory.
        fused: few large kernels in a layer, not many small ones.
        graph: one launch a step.
        sync_every: steps between two waits of the host for the device; 0: it never waits.
    """

    proportions: str = "0.6b"
    layers: int = 28
    width: int = 1024
    batch: int = 1
    context: int = 128
    launch_ns: int = 13_000
    bandwidth_gb_s: int = 4_300
    fused: bool = False
    graph: bool = False
    sync_every: int = 0


@dataclass(frozen=True)
class Kernel:
    """One kernel of the step."""

    kind: str
    """small | matrix | attention | repeat."""
    bytes: int
    flops: int
    ns: int


@functools.cache
def constants() -> dict[str, Any]:
    """The numbers that the page and this module share."""
    found: dict[str, Any] = msgspec.json.decode(read("constants.json"))
    return found


def kernels(settings: Settings) -> list[Kernel]:
    """The step's kernels in order."""
    recipe = constants()["kernels"]["fused" if settings.fused else "unfused"]
    layer = [
        kernel for part in recipe["layer"] for kernel in [_kernel(settings, part)] * part["count"]
    ]
    end = [kernel for part in recipe["end"] for kernel in [_kernel(settings, part)] * part["count"]]
    return layer * settings.layers + end


def _kernel(settings: Settings, part: dict[str, Any]) -> Kernel:
    fixed = constants()
    proportions = fixed["proportions"][settings.proportions]
    size, width, rows = fixed["bytes_per_number"], settings.width, settings.batch
    query, keys = width * proportions["query"], width * proportions["keys"]
    cache = rows * settings.context * keys * size
    elements = 0
    if part["kind"] == "small":
        moved, flops = 3 * rows * width * size, 0
    elif part["kind"] == "repeat":
        # The keys (or values) of a group are read once and written for every query head. An address
        # has to be computed for each element that is written: it takes longer than the bytes do.
        elements = rows * settings.context * query
        moved, flops = cache + cache * query / keys, 0
    elif part["kind"] == "attention":
        moved = 2 * cache * (query / keys if part["repeated"] else 1)
        flops = 4 * rows * settings.context * query
    else:
        outputs = {
            "query": query,
            "keys": keys,
            "joined": query + 2 * keys,
            "inner": width * proportions["inner"],
            "pair": 2 * width * proportions["inner"],
            "vocabulary": fixed["vocabulary"],
        }[part["shape"]]
        moved = (width * outputs + rows * (width + outputs)) * size
        flops = 2 * rows * width * outputs
    needed = max(
        moved / settings.bandwidth_gb_s,
        flops / fixed["peak_flops_per_ns"],
        elements / fixed["expanded_elements_per_ns"],
    )
    return Kernel(
        kind=part["kind"],
        bytes=int(moved),
        flops=int(flops),
        ns=math.floor(fixed["smallest_kernel_ns"] + needed + 0.5),
    )


def floor_bytes(settings: Settings) -> int:
    """What a step must read at least: each weight once, the keys and values of every token."""
    fixed = constants()
    proportions, width = fixed["proportions"][settings.proportions], settings.width
    of_layer = 2 * proportions["query"] + 2 * proportions["keys"] + 3 * proportions["inner"]
    weights = settings.layers * width * width * of_layer + width * fixed["vocabulary"]
    tokens = settings.batch * settings.context
    cache = 2 * settings.layers * tokens * width * proportions["keys"]
    return int((weights + cache) * fixed["bytes_per_number"])


def program(settings: Settings) -> Program:
    """The step as a program for replay; several steps where the host waits every so many."""
    fixed = constants()
    durations = [kernel.ns for kernel in kernels(settings)]
    count = len(durations)
    steps = max(settings.sync_every, 1)
    launches = 1 if settings.graph else count
    nodes = count if settings.graph else 1
    cost = fixed["graph_launch_ns"] if settings.graph else settings.launch_ns
    one = np.full(launches, cost, np.int64)
    one[0] += fixed["step_python_ns"]
    work, op = np.tile(one, steps), np.full(launches * steps, LAUNCH, np.int8)
    if settings.sync_every:
        work = np.r_[work, fixed["wait_call_ns"]]
        op = np.r_[op, np.int8(WAIT)]
    launch = op == LAUNCH
    size = len(op)
    zeros = np.zeros(size, np.int64)
    first = np.where(launch, np.arange(size) * nodes, 0)
    return Program(
        events=Events(
            op=op,
            work_ns=work,
            python_ns=zeros,
            call=np.full(size, NONE, np.int64),
            stream=np.where(launch, 0, NONE).astype(np.int32),
            slot=np.full(size, NONE, np.int32),
            own_ns=zeros,
            submit_ns=zeros,
            lag_ns=np.where(launch, fixed["launch_lag_ns"], fixed["wait_return_ns"]),
            least_ns=np.where(launch, 0, fixed["wait_least_ns"]),
            queued_ns=np.where(launch, fixed["node_gap_ns"], 0),
            first=first,
            count=np.where(launch, nodes, 0),
            between_ns=np.where(launch, (nodes - 1) * fixed["node_gap_ns"], 0),
            step=np.where(launch, np.arange(size) // launches, steps - 1).astype(np.int32),
        ),
        tail_ns=0,
        tail_python_ns=0,
        duration_ns=np.tile(np.array(durations, np.int64), steps),
        activity=np.full(count * steps, NONE, np.int64),
        steps=steps,
        streams=1,
        slots=0,
        queue_depth=fixed["queue_depth"],
    )
