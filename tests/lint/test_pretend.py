"""A program that uses torch.cuda runs, and torch is as it was afterwards."""

from __future__ import annotations

import dataclasses
import threading
import time
import warnings
from typing import Any

import pytest
import torch
import torch._dynamo
from torch import nn
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack
from torch.utils._device import _device_constructors
from torch.utils._python_dispatch import (
    TorchDispatchMode,
    _get_current_dispatch_mode_stack,
)

from decodeprof.errors import UsageError
from decodeprof.lint import predict


# torch._dynamo is imported above because torch replaces names of its own when it first is.
def state() -> dict[str, Any]:
    """All names of torch that might be replaced, and what a program might have switched."""
    owners = [
        torch,
        torch.Tensor,
        torch.cuda,
        torch.cuda.nvtx,
        torch.accelerator,
        torch.nn.functional,
        torch.amp.autocast_mode.autocast,
        torch._tensor_str,
    ]
    # What torch itself imports when it is first asked for is no trace of ours.
    names = {
        f"{getattr(owner, '__name__', owner)}.{name}": value
        for owner in owners
        for name, value in list(vars(owner).items())
        if not isinstance(value, type(torch)) and not name.startswith("__")
    }
    return names | {
        "dtype": torch.get_default_dtype(),
        "device": torch.get_default_device(),
        "grad": torch.is_grad_enabled(),
        "function modes": _get_current_function_mode_stack(),
        "dispatch modes": _get_current_dispatch_mode_stack(),
        "constructors": _device_constructors(),
        "available": torch.cuda.is_available(),
        "autocast": torch.is_autocast_enabled("cpu"),
        "precision": torch.get_float32_matmul_precision(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "anomaly": torch.is_anomaly_enabled(),
        "tf32": torch.backends.cudnn.allow_tf32,
        "print options": dataclasses.replace(torch._tensor_str.PRINT_OPTS),
        "autocast cache": torch.is_autocast_cache_enabled(),
        "checked distributions": torch.distributions.Distribution._validate_args,
        "benchmark": torch.backends.cudnn.benchmark,
        "flash": torch.backends.cuda.flash_sdp_enabled(),
        "start of threads": threading.Thread.start,
    }


def changed(before: dict[str, Any]) -> list[str]:
    after = state()
    return [name for name in before if after.get(name, "gone") is not before[name]] and [
        name
        for name in before
        if name not in after
        or (after[name] is not before[name] and repr(after[name]) != repr(before[name]))
    ]


class EveryFunction(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


class EveryOperation(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def test_nothing_is_left_behind() -> None:
    before = state()
    tensor = torch.ones(2)
    with predict():
        assert torch.cuda.is_available()
        torch.set_default_device("cuda")
        torch.set_default_dtype(torch.float64)
        torch.set_grad_enabled(False)
        torch.set_float32_matmul_precision("medium")
        torch.use_deterministic_algorithms(True)
        torch.set_anomaly_enabled(True)
        torch.set_autocast_enabled("cpu", True)
        torch.backends.cudnn.benchmark = True
        torch.backends.cuda.enable_flash_sdp(False)
        torch.backends.cudnn.allow_tf32 = not torch.backends.cudnn.allow_tf32
        torch.set_num_threads(torch.get_num_threads())
        torch.set_printoptions(precision=2)
        torch.set_autocast_cache_enabled(False)
        torch.distributions.Distribution.set_default_validate_args(False)
        EveryFunction().__enter__()
        EveryOperation().__enter__()
        kept = torch.ones(2)
        assert kept.is_cuda
        assert not tensor.is_cuda
    assert changed(before) == []
    assert set(state()) == set(before)
    assert kept.device.type == "cpu"
    assert kept.tolist() == [1.0, 1.0]


def failing() -> None:
    torch.set_default_device("cuda")
    raise ZeroDivisionError


def test_nothing_is_left_behind_by_a_program_that_fails() -> None:
    before = state()
    with pytest.raises(ZeroDivisionError), predict():
        failing()
    assert changed(before) == []


def test_one_prediction_at_a_time() -> None:
    with predict():
        with pytest.raises(UsageError, match="already under way"), predict():
            pass
        assert torch.ones(1, device="cuda").is_cuda


def test_tensors_answer_where_they_live() -> None:
    with predict():
        x = torch.ones(2, 3, device="cuda")
        layer = nn.Linear(3, 3).to("cuda")
        assert x.device == torch.device("cuda:0")
        assert x[0].view(3, 1).device == x.device
        assert x.get_device() == 0
        assert not x.is_cpu
        assert torch.zeros_like(x).is_cuda
        assert x.new_ones(3).is_cuda
        assert torch.ones(3).to(x).is_cuda
        assert layer.weight.is_cuda
        assert isinstance(layer.weight, nn.Parameter)
        assert layer(x).data.is_cuda
        assert x.cpu().device.type == "cpu"
        assert torch.empty_like(x, device="cpu").device.type == "cpu"
        assert torch.ones(2, pin_memory=True).is_pinned()
        assert "device='cuda:0'" in repr(x)
        with torch.device("cuda"):
            assert torch.tensor([1, 2]).is_cuda
            assert torch.arange(3).is_cuda
        with pytest.raises(TypeError, match="can't convert cuda:0 device type tensor to numpy"):
            x.numpy()


def test_streams_and_events() -> None:
    with predict() as found:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            assert torch.cuda.current_stream() is side
            x = torch.ones(2, device="cuda")
            begin = torch.cuda.Event(enable_timing=True)
            begin.record()
        assert torch.cuda.current_stream() is torch.cuda.default_stream()
        end = torch.cuda.current_stream().record_event(torch.cuda.Event(enable_timing=True))
        torch.cuda.current_stream().wait_event(begin)
        x.record_stream(side)
        end.synchronize()
        assert end.query()
        assert begin.elapsed_time(end) >= 0
    assert [sync.op for sync in found.syncs] == ["torch.cuda.Event.synchronize"]


def test_names_of_the_modules_below_torch_cuda_and_old_types() -> None:
    with predict() as found:
        event = torch.cuda.streams.Stream().record_event()
        assert isinstance(event, torch.cuda.Event)
        event.synchronize()
        graph = torch.cuda.graphs.CUDAGraph()
        x = torch.cuda.FloatTensor(2, 3).fill_(1)
        assert isinstance(x, torch.cuda.FloatTensor)
        assert not isinstance(torch.ones(1), torch.cuda.FloatTensor)
        with torch.cuda.graphs.graph(graph, pool=torch.cuda.graphs.graph_pool_handle()):
            assert torch.cuda.graphs.is_current_stream_capturing()
            x.add_(1)
        graph.replay()
        assert x.tolist() == [[2.0] * 3] * 2
        assert torch.cuda.LongTensor([3]).is_cuda
    assert [sync.op for sync in found.syncs] == [
        "torch.cuda.Event.synchronize",
        "Tensor.tolist",
        "aten::_to_copy",
    ]


def test_what_only_a_gpu_has_a_kernel_for_runs_in_a_wider_type() -> None:
    chosen = torch.tensor([0, 2, 2, 3], dtype=torch.int32)
    with pytest.raises(NotImplementedError):
        torch.histc(chosen, 4, 0, 3)
    with predict() as found:
        counts = torch.histc(chosen.to("cuda"), 4, 0, 3)
        assert (counts.is_cuda, counts.dtype) == (True, torch.int32)
        with pytest.raises(NotImplementedError):
            torch.histc(chosen, 4, 0, 3)
    assert counts.tolist() == [1, 0, 2, 1]
    assert found.count == 1  # The move alone.


def test_random_numbers_are_those_of_the_cpu() -> None:
    torch.manual_seed(3)
    expected = torch.rand(4)
    own = torch.Generator().manual_seed(5)
    drawn = torch.multinomial(expected, 3, generator=own)
    with predict():
        torch.manual_seed(3)
        assert torch.equal(torch.rand(4, device="cuda").cpu(), expected)
        generator = torch.Generator(device="cuda").manual_seed(5)
        assert generator.device.type == "cuda"
        assert isinstance(generator, torch.Generator)
        again = torch.multinomial(expected.to("cuda"), 3, generator=generator)
        assert torch.equal(again.cpu(), drawn)


def test_autocast_for_the_gpu_works() -> None:
    layer = nn.Linear(4, 4)
    with predict():
        on_gpu = layer.to("cuda")
        with torch.autocast("cuda", dtype=torch.bfloat16):
            assert torch.is_autocast_enabled("cuda")
            assert torch.get_autocast_dtype("cuda") == torch.bfloat16
            assert on_gpu(torch.ones(1, 4, device="cuda")).dtype == torch.bfloat16
        with torch.amp.autocast("cuda"):
            assert on_gpu(torch.ones(1, 4, device="cuda")).dtype == torch.float16
        assert not torch.is_autocast_enabled("cuda")


def test_a_graph_replays_what_it_captured() -> None:
    with predict() as found:
        state_tensor = torch.zeros(3, device="cuda")
        step = 1
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            assert torch.cuda.is_current_stream_capturing()
            state_tensor += step
            doubled = state_tensor * 2
        before = state_tensor.clone()
        step = 10
        graph.replay()
        graph.replay()
        values = state_tensor.cpu(), doubled.cpu(), before.cpu()
    # A capture runs nothing, a replay reads the tensors as they are and the number as it was.
    assert [value[0].item() for value in values] == [2.0, 4.0, 0.0]
    assert found.count == 3


def test_compile_is_left_out() -> None:
    with predict():
        doubled = torch.compile(lambda x: x * 2, mode="reduce-overhead")
        layer = torch.compile(nn.Linear(2, 2).to("cuda"))

        @torch.compile
        def halved(x: torch.Tensor) -> torch.Tensor:
            return x / 2

        x = torch.ones(2, device="cuda")
        assert torch.equal(halved(doubled(x)), x)
        assert layer(x).shape == (2,)


def test_a_thread_of_the_program_pretends_too() -> None:
    drawn: list[float] = []
    go_on = threading.Event()

    def work() -> None:
        with torch.cuda.stream(torch.cuda.Stream()):
            drawn.append(torch.ones(3, device="cuda").sum().item())
        go_on.wait()
        drawn.append(torch.ones(3).sum().item())

    with predict() as found:
        thread = threading.Thread(target=work)
        thread.start()
        while not drawn:
            time.sleep(0.001)
        assert torch.cuda.current_stream() is torch.cuda.default_stream()
    go_on.set()
    thread.join()
    # What it does when the prediction is over is an ordinary run's.
    assert drawn == [3.0, 3.0]
    assert [(sync.place.function, sync.in_prefill) for sync in found.syncs] == [
        (work.__qualname__, 1)
    ]


def test_what_programs_ask_torch_cuda_for() -> None:
    with predict() as found:
        with torch.cuda.device(0), torch.random.fork_rng(devices=[0]):
            x = torch.ones(2, 2, device="cuda")
        assert x.type() == "torch.cuda.FloatTensor"
        assert x.type("torch.FloatTensor").device.type == "cpu"
        assert x.type(torch.float16).is_cuda
        assert torch.cuda.memory_summary() == ""
        assert torch.cuda.memory.memory_allocated(0) == 0
        torch.cuda.memory._record_memory_history()
        torch.cuda.profiler.start()
        torch.cuda.seed()
        torch.cuda.ExternalStream(1234, device=0).synchronize()
        stream, event = torch.Stream(device="cuda"), torch.Event("cuda", enable_timing=True)
        assert isinstance(torch.cuda.Stream(), torch.Stream)
        event.record(stream)
        event.synchronize()
        scaler = torch.amp.GradScaler("cuda")
        assert scaler.is_enabled()
    assert [sync.op for sync in found.syncs] == [
        "aten::_to_copy",
        "torch.cuda.Stream.synchronize",
        "torch.cuda.Event.synchronize",
    ]


def test_a_higher_order_operator_stays_on_the_gpu() -> None:
    flex = pytest.importorskip("torch.nn.attention.flex_attention")
    with predict():
        query = torch.ones(1, 1, 128, 16, device="cuda")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # It asks to be compiled.
            assert flex.flex_attention(query, query, query).is_cuda


def test_inside_of_vmap_tensors_answer_as_outside() -> None:
    def doubled(x: torch.Tensor) -> torch.Tensor:
        assert x.is_cuda
        return x + torch.ones(3, device=x.device)

    with predict() as found:
        assert torch.vmap(doubled)(torch.ones(2, 3, device="cuda")).is_cuda
    assert found.syncs == []
