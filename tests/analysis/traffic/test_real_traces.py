"""Real traces: weights, FLOPs and bandwidths that are known from the model and the device."""

from functools import cache

import numpy as np
import pytest

from decodeprof import hardware
from decodeprof.analysis.traffic import (
    Source,
    kernel_traffic,
    name_rates,
    peak_share,
    step_floor,
    step_rates,
)
from decodeprof.ingest.read import read_trace
from tests.reading import steps_of
from tests.traces import folder, intact, needs_traces

pytestmark = [pytest.mark.traces, needs_traces]

# The Qwen3-0.6B shape in bfloat16; the token embedding is also the head.
WEIGHTS = 1_192_099_840
LAYERS, WIDTH, HEADS, KV_HEADS, HEAD, VOCABULARY, CAPACITY = 28, 1024, 16, 8, 128, 151_936, 256
# Of each layer two norms over the width and two over a head, and the last one: not in any product.
NORMS = 2 * (LAYERS * (2 * WIDTH + 2 * HEAD) + WIDTH)
ENTRY = LAYERS * 2 * KV_HEADS * HEAD * 2
PROMPT = 16


@cache
def _trace(name):
    return read_trace(folder() / "h200" / f"{name}.json.gz")


@cache
def _counted(name, reference=None):
    trace = _trace(name)
    steps = steps_of(trace)
    references = [_trace(reference)] if reference else []
    return trace, steps, kernel_traffic(trace, steps, references=references)


@pytest.mark.parametrize("name", ["qwen3_0p6b_eager", "qwen3_0p6b_naive"])
def test_every_kernel_of_an_eager_run_is_counted(name):
    trace, _, traffic = _counted(name)
    assert traffic.known.all()
    assert (traffic.bytes >= 0).all()
    assert set(traffic.source.tolist()) == {Source.SHAPES, Source.PROFILER}
    assert len(traffic.bytes) == len(trace.device)


@pytest.mark.parametrize("name", ["qwen3_0p6b_eager", "qwen3_0p6b_naive", "qwen3_0p6b_compile"])
def test_the_weights_read_are_the_models_but_for_the_norms(name):
    trace, steps, traffic = _counted(name)
    for step in range(steps.count):
        floor = step_floor(trace, steps, traffic, step=step)
        assert floor.weight_bytes == WEIGHTS - NORMS
        assert floor.weights_from == "shapes"
        assert floor.notes == ()


@pytest.mark.parametrize("name", ["qwen3_0p6b_eager", "qwen3_0p6b_naive", "qwen3_0p6b_compile"])
def test_the_valid_prefix_grows_by_a_token_a_step_whatever_the_capacity(name):
    trace, steps, traffic = _counted(name)
    floors = [step_floor(trace, steps, traffic, step=step) for step in range(steps.count)]
    assert [floor.kv_bytes for floor in floors] == [
        (PROMPT + step) * ENTRY for step in range(steps.count)
    ]
    assert {floor.output_bytes for floor in floors[1:]} == {ENTRY + 8}


def test_flops_are_two_a_parameter_and_attention_over_the_capacity():
    trace, steps, traffic = _counted("qwen3_0p6b_eager")
    floor = step_floor(trace, steps, traffic, step=2)
    attention = LAYERS * 4 * HEADS * HEAD * CAPACITY
    assert floor.flops == (WEIGHTS - NORMS) + attention
    assert floor.dtype == "c10::BFloat16"


def test_bandwidths_are_below_the_datasheet_and_the_head_is_near_the_measured_ceiling():
    trace, steps, traffic = _counted("qwen3_0p6b_eager")
    spec = hardware.lookup(trace.devices[0].name)
    rows = np.flatnonzero(steps.activity_step == 2)
    rates = name_rates(trace, traffic, rows)
    known = [rate for rate in rates if rate.achieved_bytes_per_s is not None]
    assert max(rate.achieved_bytes_per_s for rate in known) < spec.bandwidth_bytes_per_s
    head = max(known, key=lambda rate: rate.bytes / rate.count)
    assert head.bytes == VOCABULARY * (WIDTH + 1) * 2 + WIDTH * 2
    assert 0.9 < head.achieved_bytes_per_s / spec.measured.read_bytes_per_s < 1.0


def test_a_step_that_launches_decide_uses_little_of_the_device():
    trace, steps, traffic = _counted("qwen3_0p6b_eager")
    spec = hardware.lookup(trace.devices[0].name)
    rates = step_rates(trace, steps, traffic, step=2)
    assert rates.known_time_share == 1.0
    floor = step_floor(trace, steps, traffic, step=2)
    # Kernels move what they must and what unfused activations add.
    assert floor.bytes < rates.bytes < 1.05 * floor.bytes
    mbu = peak_share(floor.bytes, time_ns=rates.wall_ns, peak_per_s=spec.bandwidth_bytes_per_s)
    assert 0.001 < mbu < 0.02
    mfu = peak_share(floor.flops, time_ns=rates.busy_ns, peak_per_s=spec.peak_flops(floor.dtype))
    assert 0 < mfu < 0.001


def test_graph_replays_are_counted_by_an_eager_run_of_the_same_program():
    trace, steps, alone = _counted("qwen3_0p6b_graph")
    rows = np.flatnonzero(steps.activity_step == 2)
    assert not alone.known[rows].all()
    assert step_floor(trace, steps, alone, step=2).bytes is None
    _, _, traffic = _counted("qwen3_0p6b_graph", "qwen3_0p6b_eager")
    eager_trace, eager_steps, eager = _counted("qwen3_0p6b_eager")
    assert traffic.known.all()
    for step in range(1, steps.count):
        same = step_floor(eager_trace, eager_steps, eager, step=step)
        assert step_floor(trace, steps, traffic, step=step) == same


def test_compiled_kernels_are_counted_by_their_arguments():
    _, steps, traffic = _counted("qwen3_0p6b_compile")
    _, eager_steps, eager = _counted("qwen3_0p6b_eager")
    compiled = traffic.source == Source.COMPILED
    assert compiled.sum() == 4 * 296
    step = traffic.bytes[(steps.activity_step == 2) & traffic.known].sum()
    # Fusion takes traffic away, and cannot take the weights away.
    assert WEIGHTS - NORMS < step < eager.bytes[eager_steps.activity_step == 2].sum()


def test_a_step_whose_products_have_no_shapes_has_no_floor():
    trace, steps, traffic = _counted("hf_gpt2_static")
    assert step_floor(trace, steps, traffic, step=2).bytes is None


@pytest.mark.parametrize("path", ["torch", "h200"])
def test_no_trace_breaks_it_and_no_count_is_negative(path):
    for file in filter(intact, sorted((folder() / path).glob("*.json.gz"))):
        traffic = kernel_traffic(read_trace(file))
        for column in (traffic.read_bytes, traffic.written_bytes, traffic.flops):
            assert (column >= -1).all(), file.name
            assert ((column == -1) == ~traffic.known).all(), file.name
