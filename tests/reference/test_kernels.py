"""Each Triton kernel computes what PyTorch computes: on a GPU, or in Triton's interpreter."""

from __future__ import annotations

import dataclasses
import importlib.util
import os

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from decodeprof.reference import fused, plain
from decodeprof.reference.cache import StaticKVCache
from decodeprof.reference.decoder import FastDecoder
from decodeprof.reference.fused import Jobs, JoinedModel
from decodeprof.reference.jobs import ALL_KERNELS, choose_jobs, why_no_triton
from decodeprof.reference.matvec import Weigh, matvec_torch, matvec_triton
from decodeprof.reference.model import TINY, ModelConfig, random_model
from decodeprof.reference.state import State

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
CONFIG = ModelConfig(
    vocab_size=500, hidden_size=96, intermediate_size=160, layers=2, heads=6, kv_heads=2,
    head_dim=32, tied=True,
)  # fmt: skip
CAPACITY = 512
ROWS = 3
TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 3e-2}

needs_triton = pytest.mark.skipif(
    why_no_triton(DEVICE) is not None,
    reason=f"{why_no_triton(DEVICE)}; with TRITON_INTERPRET=1 the kernels run on a CPU",
)


def test_why_triton_cannot_run_is_said() -> None:
    if importlib.util.find_spec("triton") is None:
        assert why_no_triton(torch.device("cuda")) == "Triton is not installed"
    elif os.environ.get("TRITON_INTERPRET") != "1":
        assert why_no_triton(torch.device("cpu")) == "Triton does not run on cpu"
    if why_no_triton(DEVICE) is not None:
        assert choose_jobs(ALL_KERNELS, DEVICE) == fused.TORCH


def jobs() -> Jobs:
    # The interpreter runs one kernel after another: it has no instruction to begin early.
    options = dataclasses.replace(ALL_KERNELS, overlap=torch.cuda.is_available())
    return choose_jobs(options, DEVICE)


def random(*shape: int, dtype: torch.dtype, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator).to(DEVICE, dtype)


def close(ours: Tensor, theirs: Tensor) -> None:
    tolerance = TOLERANCE[theirs.dtype]
    torch.testing.assert_close(ours, theirs, atol=tolerance, rtol=tolerance)


@pytest.fixture(params=[torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
def dtype(request: pytest.FixtureRequest) -> torch.dtype:
    chosen = request.param
    assert isinstance(chosen, torch.dtype)
    return chosen


@needs_triton
@pytest.mark.parametrize("has_delta", [False, True])
def test_add_norm(dtype: torch.dtype, has_delta: bool) -> None:
    residual, weight = random(ROWS, 96, dtype=dtype), random(96, dtype=dtype, seed=1)
    delta = random(ROWS, 96, dtype=dtype, seed=2) if has_delta else None
    ours = jobs().add_norm(residual, delta, weight, 1e-6)
    theirs = fused.add_norm(residual, delta, weight, 1e-6)
    close(ours[0], theirs[0])
    close(ours[1], theirs[1])


@needs_triton
def test_gate(dtype: torch.dtype) -> None:
    gate_up = random(ROWS, 2 * 1500, dtype=dtype)
    close(jobs().gate(gate_up), fused.gate(gate_up))


def joined(dtype: torch.dtype) -> JoinedModel:
    model = random_model(CONFIG, dtype=dtype, device=DEVICE)
    for index, layer in enumerate(model.layers):
        for norm in (layer.attention.q_norm, layer.attention.k_norm):
            norm.weight.data.copy_(random(CONFIG.head_dim, dtype=dtype, seed=index))
    return JoinedModel(model, CAPACITY)


def filled_cache(dtype: torch.dtype) -> StaticKVCache:
    cache = StaticKVCache.zeros(CONFIG, rows=ROWS, capacity=CAPACITY, device=DEVICE, dtype=dtype)
    for index, tensor in enumerate((*cache.keys, *cache.values)):
        tensor.copy_(random(*tensor.shape, dtype=dtype, seed=index))
    return cache


@needs_triton
def test_place(dtype: torch.dtype) -> None:
    model = joined(dtype)
    ours, theirs = filled_cache(dtype), filled_cache(dtype)
    positions = torch.tensor([0, 130, CAPACITY - 1], device=DEVICE)
    qkv = random(ROWS, 10 * CONFIG.head_dim, dtype=dtype)
    weights = model.layers[1]
    expected = fused.place(qkv, weights, 1, model.turn(positions, theirs))
    got = jobs().place(qkv, weights, 1, model.turn(positions, ours))
    close(got, expected)
    close(ours.keys[1], theirs.keys[1])
    assert torch.equal(ours.values[1], theirs.values[1])
    assert torch.equal(ours.keys[0], theirs.keys[0])


@needs_triton
@pytest.mark.parametrize("positions", [[0, 1, 31], [32, 33, 64], [200, 400, CAPACITY - 1]])
def test_attend(dtype: torch.dtype, positions: list[int]) -> None:
    if dtype == torch.bfloat16 and os.environ.get("TRITON_INTERPRET") == "1":
        pytest.skip("the interpreter's matrix product takes bfloat16 for integers")
    cache = filled_cache(dtype)
    turn = joined(dtype).turn(torch.tensor(positions, device=DEVICE), cache)
    q = random(ROWS, CONFIG.heads, CONFIG.head_dim, dtype=dtype)
    close(jobs().attend(q, 1, turn), fused.attend(q, 1, turn))


@needs_triton
def test_attend_reads_nothing_beyond_the_position() -> None:
    cache = filled_cache(torch.float32)
    positions = torch.tensor([40, 7, 100], device=DEVICE)
    turn = joined(torch.float32).turn(positions, cache)
    q = random(ROWS, CONFIG.heads, CONFIG.head_dim, dtype=torch.float32)
    attend = jobs().attend
    before = attend(q, 0, turn)
    for row, position in enumerate(positions.tolist()):
        cache.keys[0][row, :, position + 1 :] = torch.nan
        cache.values[0][row, :, position + 1 :] = torch.nan
    assert torch.equal(attend(q, 0, turn), before)


@needs_triton
@pytest.mark.parametrize("has_norm", [False, True])
@pytest.mark.parametrize("adds", [False, True])
@pytest.mark.parametrize("gated", [False, True])
def test_matvec(dtype: torch.dtype, has_norm: bool, adds: bool, gated: bool) -> None:
    rows, size = 70, 384
    weight = random(rows * (2 if gated else 1), size, dtype=dtype) / size**0.5
    norm = random(size, dtype=dtype, seed=1) if has_norm else None
    job = Weigh(weight, norm=norm, gated=gated)
    x = random(1, size, dtype=dtype, seed=2)
    residual = random(1, rows, dtype=dtype, seed=3)
    theirs = matvec_torch(job, x, residual=residual.clone() if adds else None, eps=1e-6)
    ours = matvec_triton(job, x, residual=residual if adds else None, eps=1e-6)
    close(ours, theirs)
    assert not adds or ours is residual


@needs_triton
@pytest.mark.parametrize("ends", [False, True])
def test_take_best(dtype: torch.dtype, ends: bool) -> None:
    from decodeprof.reference.kernels.head import take_best

    rows, size = 1203, 128
    weight, norm = random(rows, size, dtype=dtype), random(size, dtype=dtype, seed=1)
    x = random(1, size, dtype=dtype, seed=2)
    _, normed = fused.add_norm(x.float(), None, norm.float(), 1e-6)
    logits = functional.linear(normed, weight.float())[0]
    best = int(logits.argmax())
    # The same row once more: the first of equals must win, as torch.argmax has it.
    weight[rows - 1] = weight[best]
    state = State.empty(rows=1, capacity=20, device=DEVICE)
    state.position.fill_(6)
    state.set_stops([3, best] if ends else [3])
    take_best(
        weight, x, norm, token=state.token, position=state.position, made=state.made,
        stopped=state.stopped, stops=state.stops, eps=1e-6, blocks=(16, 64, 4), overlap=False,
    )  # fmt: skip
    assert int(state.token) == best
    assert int(state.position) == 7
    assert state.made[0].nonzero().tolist() == [[7]]
    assert int(state.made[0, 7]) == best
    assert bool(state.stopped) is ends


@needs_triton
@pytest.mark.parametrize("rows", [1, 2])
def test_a_decode_of_kernels_makes_the_plain_loops_tokens(rows: int) -> None:
    options = dataclasses.replace(ALL_KERNELS, overlap=torch.cuda.is_available())
    own = random_model(TINY, seed=5, device=DEVICE)
    prompts = [[5, 77, 30, 12, 9], [8, 1]][:rows]
    expected = [plain.generate(own, prompt, 8) for prompt in prompts]
    decoder = FastDecoder(own, 32, rows=2, joined=True, kernels=options)
    assert decoder.generate_batch(prompts, 8) == expected
