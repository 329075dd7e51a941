"""What only a GPU can show: graphs, kernels, streams, and that the host waits for nothing."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch

from decodeprof.reference import demo, plain, stages
from decodeprof.reference.compiled import graphs_skipped
from decodeprof.reference.decoder import FastDecoder
from decodeprof.reference.jobs import KernelOptions
from decodeprof.reference.model import TINY, Model, random_model
from decodeprof.reference.sampling import Sampling

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]

CAPACITY = 96
PROMPT = [5, 77, 30, 12, 9]
NEW = 40
MATVEC = KernelOptions(norm=True, place=True, attend=True, gate=True, matvec=True)
OVERLAP = KernelOptions(norm=True, place=True, attend=True, gate=True, matvec=True, overlap=True)
OPTIONS: dict[str, dict[str, Any]] = {
    "eager": {},
    "graph": {"mode": "graph"},
    "compile": {"mode": "compile"},
    "joined graph": {"mode": "graph", "joined": True},
    "joined compile": {"mode": "compile", "joined": True},
    "norm": {"mode": "graph", "joined": True, "kernels": KernelOptions(norm=True)},
    "place": {"mode": "graph", "joined": True, "kernels": KernelOptions(place=True)},
    "attend": {"mode": "graph", "joined": True, "kernels": KernelOptions(attend=True)},
    "gate": {"mode": "graph", "joined": True, "kernels": KernelOptions(gate=True)},
    "matvec eager": {"joined": True, "kernels": MATVEC},
    "matvec": {"mode": "graph", "joined": True, "kernels": MATVEC},
    "overlap": {"mode": "graph", "joined": True, "kernels": OVERLAP},
    "prefill graphs": {"mode": "graph", "prefill_buckets": True},
    "pipelined": {"mode": "graph", "pipelined": True},
}
every_option = pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)


def fresh_model() -> Model:
    return random_model(TINY, seed=5, device="cuda")


@functools.cache
def model() -> Model:
    return fresh_model()


@functools.cache
def expected() -> list[int]:
    return plain.generate(model(), PROMPT, NEW)


@contextmanager
def a_sync_is_an_error() -> Iterator[None]:
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


@every_option
def test_greedy_tokens_equal_the_plain_loops(options: dict[str, Any]) -> None:
    assert len(set(expected())) > 8, "a text that repeats itself would prove little"
    decoder = FastDecoder(fresh_model(), CAPACITY, **options)
    for _ in range(3):  # captured or compiled, recorded, replayed
        assert decoder.generate(PROMPT, NEW) == expected()
    assert list(decoder.stream(PROMPT, NEW)) == expected()


@every_option
def test_a_stop_token_ends_the_text(options: dict[str, Any]) -> None:
    stop = {expected()[9], 511}
    decoder = FastDecoder(fresh_model(), CAPACITY, **options)
    cut = plain.generate(model(), PROMPT, NEW, stop=stop)
    for _ in range(2):
        assert decoder.generate(PROMPT, NEW, stop=stop) == cut
    assert decoder.generate(PROMPT, NEW) == expected()


@every_option
def test_a_batch_of_three(options: dict[str, Any]) -> None:
    prompts = [PROMPT, demo.prompt(model(), 31), [8]]
    decoder = FastDecoder(fresh_model(), CAPACITY, rows=3, **options)
    texts = [plain.generate(model(), prompt, NEW) for prompt in prompts]
    for _ in range(3):
        assert decoder.generate_batch(prompts, NEW) == texts
    if decoder.mode == "graph":
        assert set(decoder.graphs) == {4}


def test_capture_puts_back_what_it_changed() -> None:
    decoder = FastDecoder(
        model(), CAPACITY, rows=2, mode="graph", sampling=Sampling(temperature=1.0)
    )
    decoder.generate_batch([PROMPT, PROMPT[:3]], 9, seed=4)
    state, cache = decoder.state, decoder.cache
    tensors = [state.token, state.position, state.made, state.stopped, *cache.keys, *cache.values]
    before = [tensor.clone() for tensor in tensors]
    random = decoder._generator.get_state()
    decoder.warm_up(rows=1)
    assert set(decoder.graphs) == {1, 2}
    assert all(torch.equal(a, b) for a, b in zip(tensors, before, strict=True))
    assert torch.equal(decoder._generator.get_state(), random)


def test_capture_is_measured() -> None:
    decoder = FastDecoder(model(), CAPACITY, rows=16, mode="graph", prefill_buckets=True)
    for rows in (16, 8, 4, 2, 1):
        decoder.warm_up(rows)
    assert set(decoder.graphs) == {1, 2, 4, 8, 16}
    assert all(graph.seconds > 0 for graph in decoder.graphs.values())
    assert sum(graph.pool_bytes for graph in decoder.graphs.values()) > 0
    # The largest came first: the smaller ones fit into what it left in the shared pool.
    assert decoder.graphs[1].pool_bytes <= decoder.graphs[16].pool_bytes


def test_sampling_in_a_graph_draws_anew_and_is_seeded() -> None:
    sampling = Sampling(temperature=1.0, top_k=200, top_p=0.95, min_p=0.001)
    decoder = FastDecoder(model(), CAPACITY, mode="graph", sampling=sampling)
    first = decoder.generate(PROMPT, NEW, seed=1)
    assert len(set(first)) > 8
    assert decoder.generate(PROMPT, NEW, seed=1) == first
    assert decoder.generate(PROMPT, NEW, seed=2) != first


@pytest.mark.parametrize("name", ["eager", "graph", "matvec", "overlap", "prefill graphs"])
def test_the_host_waits_for_nothing_between_two_looks(name: str) -> None:
    decoder = FastDecoder(fresh_model(), CAPACITY, check_every=1000, **OPTIONS[name])
    decoder.generate(PROMPT, NEW)
    with torch.no_grad(), a_sync_is_an_error():
        looks = list(decoder._run([PROMPT], NEW, stop=(), seed=0))
    assert looks == [NEW]


def test_compiled_steps_are_graphs() -> None:
    before = graphs_skipped()
    decoder = FastDecoder(fresh_model(), CAPACITY, mode="compile", joined=True)
    for _ in range(3):
        decoder.generate(PROMPT, NEW)
    assert graphs_skipped() == before
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profiler:
        decoder.generate(PROMPT, NEW)
        torch.cuda.synchronize()
    launches = [e for e in profiler.events() if e.name == "cudaGraphLaunch"]
    assert len(launches) == NEW - 1


@pytest.mark.parametrize("name", ["graph", "norm", "overlap"])
def test_a_stage_is_measured(name: str) -> None:
    result = stages.run(name, model=fresh_model())
    assert result.same_tokens == result.compared_tokens
    assert result.graph_launches == 1
    assert result.launches == pytest.approx(1 / 16, abs=0.2), "only the look at the flags launches"
    assert result.syncs is not None
    assert result.syncs < 0.5
    assert result.kernels is not None
    assert result.kernels > 8
    assert result.capture_seconds is not None
