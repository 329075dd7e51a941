"""A point runs what its settings say, and its bytes and FLOPs are those of its tensors."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from decodeprof.reference.cache import StaticKVCache
from decodeprof.reference.model import SHAPES, TINY, Model, random_model
from decodeprof.reference.sweep.memory import needed_bytes, parameters
from decodeprof.reference.sweep.spec import SweepSpec
from decodeprof.reference.sweep.subjects import Builder, decode_step, prompt_pass, toy

CPU = torch.device("cpu")
DECODE = SweepSpec(phase="decode", axis="batch", values=(1, 3))


def counted_flops(step: object) -> int:
    # Of attention the counter knows only what is spelled out.
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        step()  # type: ignore[operator]
    return counter.get_total_flops()


@pytest.mark.parametrize(("rows", "context"), [(1, 8), (5, 32)])
def test_the_flops_of_a_decode_step_are_those_that_torch_counts(rows: int, context: int) -> None:
    subject = decode_step(random_model(TINY), rows, context, fused=False)
    assert subject.flops == counted_flops(subject.step)
    assert subject.tokens == rows


def test_the_flops_of_a_prompt_pass_leave_out_what_the_mask_hides() -> None:
    length = 16
    subject = prompt_pass(random_model(TINY), length)
    attention = 4 * length * length * TINY.heads * TINY.head_dim * TINY.layers
    hidden = attention - attention * (length + 1) // (2 * length)
    assert subject.flops == counted_flops(subject.step) - hidden


def test_the_flops_of_the_toy_are_those_that_torch_counts() -> None:
    point = SweepSpec(phase="toy", axis="batch", values=(3,), layers=4, width=32).at(3)
    subject = toy(point, CPU, torch.float32)
    assert subject.flops == counted_flops(subject.step)
    assert subject.weight_bytes == 4 * 32 * 32 * 4


def test_the_bytes_are_those_of_the_valid_prefix() -> None:
    model = random_model(TINY)
    subject = decode_step(model, 2, 10, fused=False)
    cache = StaticKVCache.zeros(TINY, rows=2, capacity=10, device=CPU, dtype=torch.float32)
    assert subject.kv_bytes == sum(t.nbytes for t in (*cache.keys, *cache.values))
    weights = sum(p.nbytes for p in model.parameters())
    assert subject.weight_bytes == weights


@pytest.mark.parametrize("shape", ["tiny", "8b"])
def test_the_parameters_are_counted_without_a_model(shape: str) -> None:
    config = dataclasses.replace(SHAPES[shape], layers=2)
    model = Model(config, device=torch.device("meta"), dtype=torch.float32)
    assert parameters(config) == sum(p.numel() for p in model.parameters())


def test_a_point_needs_its_weights_and_its_cache() -> None:
    subject = decode_step(random_model(TINY), 3, 128, fused=False)
    logits = 3 * TINY.vocab_size * 4
    assert needed_bytes(DECODE.at(3), torch.float32) == (
        subject.weight_bytes + subject.kv_bytes + logits
    )


def test_a_step_can_be_repeated_for_ever() -> None:
    subject = decode_step(random_model(TINY), 2, 4, fused=False)
    for _ in range(10):
        subject.step()


def test_joined_projections_make_the_same_step() -> None:
    model = random_model(TINY)
    plain, fused = (decode_step(model, 2, 4, fused=wanted) for wanted in (False, True))
    assert plain.flops == fused.flops
    fused.step()


def test_a_model_is_kept_until_another_is_needed() -> None:
    builder = Builder(CPU)
    builder.build(DECODE.at(1))
    kept = builder._model
    builder.build(DECODE.at(3))
    assert builder._model is kept
    layers = SweepSpec(phase="decode", axis="layers", values=(1, 4))
    builder.build(layers.at(4))
    assert builder._model is not None
    assert builder._model.config == dataclasses.replace(TINY, layers=4)


def test_width_scales_heads_and_the_inner_width_alike() -> None:
    config = SweepSpec(phase="decode", axis="width", values=(128,)).at(128).config()
    assert (config.hidden_size, config.intermediate_size, config.heads, config.kv_heads) == (
        128, 256, 8, 4,
    )  # fmt: skip
    assert config.head_dim == TINY.head_dim


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"phase": "train", "axis": "batch"}, "no phase `train`"),
        ({"phase": "prefill", "axis": "batch"}, "`batch` is no axis of prefill"),
        ({"phase": "decode", "axis": "batch", "shape": "7b"}, "no shape `7b`"),
        ({"phase": "decode", "axis": "batch", "values": []}, "needs values"),
        ({"phase": "decode", "axis": "batch", "values": [0]}, "at least 1"),
        ({"phase": "decode", "axis": "width", "values": [64, 100]}, "nearest: 96 and 128"),
        ({"phase": "prefill", "axis": "width", "values": [1]}, "of 32, .*nearest: 32$"),
        ({"phase": "decode", "axis": "batch", "shape": "8b", "width": 513}, "512 and 1024"),
        ({"phase": "decode", "axis": "batch", "values": [2, 2]}, "twice"),
        ({"phase": "decode", "axis": "batch", "speed": 1}, "no `speed`"),
    ],
)
def test_a_sweep_that_makes_no_sense_is_refused(fields: dict[str, object], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        SweepSpec.from_json({"values": [1], **fields})
