"""The stages from the plain loop to the fast one: what does each remove, and what is it worth?

Each stage is the one before with one change. `run` measures one on this machine, and each is also a
target of its own: ``decodeprof diagnose decodeprof.reference.stages:graph``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import torch

from decodeprof.reference import demo
from decodeprof.reference.compiled import graphs_skipped
from decodeprof.reference.decoder import FastDecoder
from decodeprof.reference.jobs import KernelOptions, why_no_triton
from decodeprof.reference.lessons import LESSONS
from decodeprof.reference.measure import KernelRow, step_counts, step_ns
from decodeprof.reference.model import Model, step_weight_bytes
from decodeprof.reference.plain import generate as plain_generate

CAPACITY = 512
"""Tokens a row: some prompt, and texts long enough to time."""
COMPARED_TOKENS = 32
"""Tokens of each stage set against the plain loop's."""


@dataclass(frozen=True)
class Stage:
    """One way to decode.

    Attributes:
        lesson: what it changes, and what that removes, in one sentence.
        build: makes the decoder; none for the plain loop, which has no state.
        needs_cuda: it is made of graphs.
    """

    name: str
    lesson: str
    build: Callable[[Model], FastDecoder] | None
    needs_cuda: bool = False


@dataclass(frozen=True)
class StageResult:
    """What a stage does on this machine; per decode step at batch 1. None: not known.

    Attributes:
        kernels_per_layer: kernels ÷ layers, those outside the layers included.
        mbu_share: weight bytes ÷ step time ÷ bandwidth; the cache's bytes are not counted.
        same_tokens: leading tokens that equal the plain loop's, of `compared_tokens`.
        capture_seconds: of the decode graph alone, warm-up included.
        pool_bytes: that the decode graph keeps for itself.
        graphs_skipped: compiled functions that fell back to no graph.
        rows: kernels by time.
    """

    name: str
    lesson: str
    tokens_per_s: float
    step_ns: int
    kernels: float | None
    kernels_per_layer: float | None
    launches: float | None
    graph_launches: float | None
    syncs: float | None
    mbu_share: float | None
    same_tokens: int
    compared_tokens: int
    capture_seconds: float | None
    pool_bytes: int | None
    graphs_skipped: int
    rows: tuple[KernelRow, ...]


_NORM = KernelOptions(norm=True)
_PLACE = KernelOptions(norm=True, place=True)
_ATTEND = KernelOptions(norm=True, place=True, attend=True)
_GATE = KernelOptions(norm=True, place=True, attend=True, gate=True)
_MATVEC = KernelOptions(norm=True, place=True, attend=True, gate=True, matvec=True)
_OVERLAP = KernelOptions(norm=True, place=True, attend=True, gate=True, matvec=True, overlap=True)


def _graph(kernels: KernelOptions | None = None) -> Callable[[Model], FastDecoder]:
    """A graph over joined projections, with these kernels."""

    def build(model: Model) -> FastDecoder:
        return FastDecoder(
            model, CAPACITY, mode="graph", joined=True, kernels=kernels, prefill_buckets=True
        )

    return build


_BUILDS: dict[str, Callable[[Model], FastDecoder] | None] = {
    "plain": None,
    "eager": lambda model: FastDecoder(model, CAPACITY),
    "graph": lambda model: FastDecoder(model, CAPACITY, mode="graph", prefill_buckets=True),
    "fused": _graph(),
    "norm": _graph(_NORM),
    "place": _graph(_PLACE),
    "attend": _graph(_ATTEND),
    "gate": _graph(_GATE),
    "matvec": _graph(_MATVEC),
    "overlap": _graph(_OVERLAP),
    "pipelined": lambda model: FastDecoder(
        model,
        CAPACITY,
        mode="graph",
        joined=True,
        kernels=_OVERLAP,
        prefill_buckets=True,
        pipelined=True,
    ),
    "compiled": lambda model: FastDecoder(model, CAPACITY, mode="compile", joined=True),
}
_WITHOUT_GRAPHS = ("plain", "eager", "compiled")

STAGES = {
    name: Stage(name, lesson, _BUILDS[name], needs_cuda=name not in _WITHOUT_GRAPHS)
    for name, lesson in LESSONS.items()
}
"""In the order in which they are told."""


def why_not(stage: Stage, device: torch.device) -> str | None:
    """Why a stage cannot run on this device; none when it can."""
    if stage.needs_cuda and device.type != "cuda":
        return f"graphs need a CUDA device; the model is on {device.type}"
    if stage.needs_cuda and stage.name not in ("graph", "fused"):
        return why_no_triton(device)
    return None


@dataclass(frozen=True)
class Running:
    """A stage that is warmed up and ready to be measured.

    Attributes:
        generate: continues the demo's prompt by so many tokens.
        decoder: none for the plain loop.
        tokens: the first `COMPARED_TOKENS` that it makes.
    """

    stage: Stage
    model: Model
    generate: Callable[[int], list[int]]
    decoder: FastDecoder | None
    tokens: list[int]
    graphs_skipped: int


def start(name: str, model: Model) -> Running:
    """Build a stage and warm it up.

    Raises:
        KeyError: there is no such stage.
        ValueError: it cannot run on the model's device.
    """
    stage = STAGES[name]
    skipped_before = graphs_skipped()
    generate, decoder = _generate(stage, model)
    # A graph is captured in the first call; compiled code is warmed up, recorded and replayed in
    # one step each, and a prompt's length is compiled for when it is met again.
    tokens = [generate(COMPARED_TOKENS) for _ in range(1 if decoder is None else 3)][-1]
    return Running(
        stage=stage,
        model=model,
        generate=generate,
        decoder=decoder,
        tokens=tokens,
        graphs_skipped=graphs_skipped() - skipped_before,
    )


def measure(
    running: Running,
    *,
    expected: list[int],
    bandwidth_bytes_per_s: float | None = None,
    profile: bool = True,
) -> StageResult:
    """Measure a stage at batch 1.

    Args:
        running: from `start`.
        expected: the plain loop's first `COMPARED_TOKENS`.
        bandwidth_bytes_per_s: what the device can read; for the share of it that is used.
        profile: count kernels, launches and syncs in profiled runs after the timed ones. A
            profiler stays attached: what is timed later in this process runs some 10 % slower on
            the host.
    """
    model, decoder = running.model, running.decoder
    most_tokens = CAPACITY - demo.PROMPT_LENGTH
    time_ns = step_ns(running.generate, most_tokens=most_tokens)
    on_cuda = model.embedding.device.type == "cuda"
    counts = step_counts(running.generate) if profile and on_cuda else None
    graph = decoder.graphs.get(1) if decoder is not None else None
    mbu = None
    if bandwidth_bytes_per_s is not None:
        mbu = step_weight_bytes(model) / (time_ns / 1e9) / bandwidth_bytes_per_s
    return StageResult(
        name=running.stage.name,
        lesson=running.stage.lesson,
        tokens_per_s=1e9 / time_ns,
        step_ns=time_ns,
        kernels=counts.kernels if counts else None,
        kernels_per_layer=counts.kernels / model.config.layers if counts else None,
        launches=counts.launches if counts else None,
        graph_launches=counts.graph_launches if counts else None,
        syncs=counts.syncs if counts else None,
        mbu_share=mbu,
        same_tokens=_common(running.tokens, expected),
        compared_tokens=COMPARED_TOKENS,
        capture_seconds=graph.seconds if graph else None,
        pool_bytes=graph.pool_bytes if graph else None,
        graphs_skipped=running.graphs_skipped,
        rows=counts.rows if counts else (),
    )


def run(
    name: str,
    *,
    model: Model | None = None,
    bandwidth_bytes_per_s: float | None = None,
    profile: bool = True,
) -> StageResult:
    """Build one stage, measure it, and set its tokens against the plain loop's.

    Args:
        name: one of `STAGES`.
        model: the demo's when absent.
        bandwidth_bytes_per_s: as for `measure`.
        profile: as for `measure`.

    Raises:
        KeyError: there is no such stage.
        ValueError: it cannot run on the model's device.
    """
    model = demo.setup() if model is None else model
    running = start(name, model)
    return measure(
        running,
        expected=plain_generate(model, demo.prompt(model), COMPARED_TOKENS),
        bandwidth_bytes_per_s=bandwidth_bytes_per_s,
        profile=profile,
    )


def _generate(stage: Stage, model: Model) -> tuple[Callable[[int], list[int]], FastDecoder | None]:
    """A stage's function of the number of new tokens, on the fixed prompt."""
    reason = why_not(stage, model.embedding.device)
    if reason is not None:
        raise ValueError(f"the stage `{stage.name}` cannot run here: {reason}")
    prompt = demo.prompt(model)
    if stage.build is None:
        return lambda new_tokens: plain_generate(model, prompt, new_tokens), None
    decoder = stage.build(model)
    return lambda new_tokens: decoder.generate(prompt, new_tokens), decoder


def _common(tokens: list[int], expected: list[int]) -> int:
    same = 0
    for ours, theirs in zip(tokens, expected, strict=True):
        if ours != theirs:
            break
        same += 1
    return same


@functools.cache
def _target(name: str) -> Callable[[int], list[int]]:
    return _generate(STAGES[name], demo.setup())[0]


# Each stage as a target to diagnose: the model and the decoder are made at the first call.


def plain(new_tokens: int = 32) -> list[int]:
    """The stage `plain`: the plain loop."""
    return _target("plain")(new_tokens)


def eager(new_tokens: int = 32) -> list[int]:
    """The stage `eager`: state on the device, launched kernel by kernel."""
    return _target("eager")(new_tokens)


def graph(new_tokens: int = 32) -> list[int]:
    """The stage `graph`: one graph launch a step."""
    return _target("graph")(new_tokens)


def fused(new_tokens: int = 32) -> list[int]:
    """The stage `fused`: a graph over joined projections."""
    return _target("fused")(new_tokens)


def norm(new_tokens: int = 32) -> list[int]:
    """The stage `norm`: the add and norm kernel."""
    return _target("norm")(new_tokens)


def place(new_tokens: int = 32) -> list[int]:
    """The stage `place`: the kernel that places heads."""
    return _target("place")(new_tokens)


def attend(new_tokens: int = 32) -> list[int]:
    """The stage `attend`: the attention kernel."""
    return _target("attend")(new_tokens)


def gate(new_tokens: int = 32) -> list[int]:
    """The stage `gate`: the activation kernel."""
    return _target("gate")(new_tokens)


def matvec(new_tokens: int = 32) -> list[int]:
    """The stage `matvec`: matrix-vector kernels."""
    return _target("matvec")(new_tokens)


def overlap(new_tokens: int = 32) -> list[int]:
    """The stage `overlap`: kernels that begin early."""
    return _target("overlap")(new_tokens)


def pipelined(new_tokens: int = 32) -> list[int]:
    """The stage `pipelined`: the pipelined stop check."""
    return _target("pipelined")(new_tokens)


def compiled(new_tokens: int = 32) -> list[int]:
    """The stage `compiled`: torch.compile with graphs of its own."""
    return _target("compiled")(new_tokens)
