"""What does `torch.cuda` answer while we pretend that there is one GPU?

What a decode loop asks for is answered: devices, streams, events, graphs, memory figures, random
state, autocast. What only a GPU can do still fails, in torch's own words.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch

from decodeprof.capture.waiting import Wait
from decodeprof.lint.graphs import PretendCapture, graph_class_for
from decodeprof.lint.mode import PretendMode
from decodeprof.lint.patches import Patches
from decodeprof.lint.streams import EXPLICIT, classes_for
from decodeprof.lint.whereabouts import HOST, put, resolved

NAME = "pretended GPU"
_CAPABILITY = (9, 0)
"""Of a recent data-centre GPU, so that a program takes the branch that it takes there."""
_MEMORY_BYTES = 80 * 1024**3
_MULTIPROCESSORS = 132


def patch_namespace(patches: Patches, mode: PretendMode) -> None:
    """Replace what `torch.cuda`, `torch.accelerator` and autocast answer."""
    cuda: Any = torch.cuda
    for name, value in {**_identity(), **_memory(), **_random()}.items():
        patches.set(cuda, name, value)
    _patch_streams(patches, mode)
    _patch_waits(patches, mode)
    _patch_generator(patches)
    _patch_autocast(patches)
    _patch_compile(patches, mode)
    _patch_load(patches, mode)
    nvtx: Any = torch.cuda.nvtx
    for name, value in {
        "range_push": lambda _text: 0,
        "range_pop": lambda: 0,
        "range_start": lambda _text: 0,
        "range_end": lambda _id: None,
        "mark": lambda _text: None,
        "range": lambda *_args, **_kwargs: contextlib.nullcontext(),
    }.items():
        patches.set(nvtx, name, value)


def _identity() -> dict[str, Any]:
    properties = SimpleNamespace(
        name=NAME,
        major=_CAPABILITY[0],
        minor=_CAPABILITY[1],
        total_memory=_MEMORY_BYTES,
        multi_processor_count=_MULTIPROCESSORS,
        warp_size=32,
        max_threads_per_multi_processor=2048,
        L2_cache_size=50 * 1024**2,
        is_integrated=0,
        gcnArchName="",
    )
    return {
        "_lazy_init": lambda: None,
        "init": lambda: None,
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "is_bf16_supported": lambda *_args, **_kwargs: True,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "set_device": lambda _device: None,
        "get_device_name": lambda _device=None: NAME,
        "get_device_capability": lambda _device=None: _CAPABILITY,
        "get_device_properties": lambda _device=None: properties,
        "get_arch_list": lambda: [f"sm_{_CAPABILITY[0]}{_CAPABILITY[1]}"],
        "device": _device_context,
        "device_of": _device_context,
    }


@contextlib.contextmanager
def _device_context(_device: Any = None) -> Any:
    yield


def _memory() -> dict[str, Any]:
    zeros: Callable[..., int] = lambda *_args, **_kwargs: 0  # noqa: E731
    names = (
        "memory_allocated",
        "max_memory_allocated",
        "memory_reserved",
        "max_memory_reserved",
    )
    nothing = {
        name: lambda *_args, **_kwargs: None
        for name in (
            "empty_cache",
            "reset_peak_memory_stats",
            "reset_max_memory_allocated",
            "ipc_collect",
            "set_per_process_memory_fraction",
            "set_sync_debug_mode",
        )
    }
    return {
        **dict.fromkeys(names, zeros),
        **nothing,
        "memory_stats": lambda *_args, **_kwargs: {},
        "memory_snapshot": lambda *_args, **_kwargs: [],
        "mem_get_info": lambda _device=None: (_MEMORY_BYTES, _MEMORY_BYTES),
        "get_sync_debug_mode": lambda: 0,
    }


def _random() -> dict[str, Any]:
    """The GPU's generator is the CPU's: numbers are those of a run on the CPU."""
    return {
        "manual_seed": torch.default_generator.manual_seed,
        # Called by torch.manual_seed as well, with the same seed.
        "manual_seed_all": torch.default_generator.manual_seed,
        "get_rng_state": lambda _device=None: torch.random.get_rng_state(),
        "set_rng_state": lambda state, _device=None: torch.random.set_rng_state(state),
        "get_rng_state_all": lambda: [torch.random.get_rng_state()],
        "set_rng_state_all": lambda states: torch.random.set_rng_state(states[0]),
        "initial_seed": torch.random.initial_seed,
        "default_generators": (torch.default_generator,),
    }


def _patch_streams(patches: Patches, mode: PretendMode) -> None:
    stream_class, event_class = classes_for(mode)
    current = [stream_class()]
    default = current[0]

    def set_stream(stream: Any) -> None:
        current[0] = stream

    def stream(chosen: Any) -> Any:
        return contextlib.nullcontext() if chosen is None else chosen

    for name, value in {
        "Stream": stream_class,
        "ExternalStream": stream_class,
        "Event": event_class,
        "current_stream": lambda _device=None: current[0],
        "default_stream": lambda _device=None: default,
        "set_stream": set_stream,
        "stream": stream,
        "StreamContext": stream,
        "CUDAGraph": graph_class_for(mode),
        "graph": PretendCapture,
        "graph_pool_handle": lambda: (0, 1),
        "is_current_stream_capturing": lambda: mode.tape is not None,
        "make_graphed_callables": lambda callables, *_args, **_kwargs: callables,
    }.items():
        patches.set(torch.cuda, name, value)


def _patch_waits(patches: Patches, mode: PretendMode) -> None:
    def synchronize(_device: Any = None) -> None:
        mode.waited("torch.cuda.synchronize", Wait(EXPLICIT))

    patches.set(torch.cuda, "synchronize", synchronize)
    accelerator: Any = getattr(torch, "accelerator", None)
    if accelerator is None:
        return
    answers = {
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "current_accelerator": lambda check_available=False: torch.device("cuda"),  # noqa: ARG005
        "current_device_index": lambda: 0,
        "current_device_idx": lambda: 0,
        "synchronize": synchronize,
        "current_stream": lambda _device=None: torch.cuda.current_stream(),
    }
    for name, value in answers.items():
        if hasattr(accelerator, name):
            patches.set(accelerator, name, value)


def _patch_generator(patches: Patches) -> None:
    real: Any = torch.Generator

    class Generator(real):  # type: ignore[misc]
        """A CPU generator that answers with the device it was asked for."""

        def __new__(cls, device: Any = "cpu") -> Any:
            made = real.__new__(cls, HOST)
            made.asked = torch.device(device)
            return made

        @property
        def device(self) -> torch.device:
            return resolved(self.asked)

    Generator.__name__ = Generator.__qualname__ = "Generator"
    patches.set(torch, "Generator", Generator)


def _patch_autocast(patches: Patches) -> None:
    """Autocast for the GPU is the CPU's, with the GPU's own dtype."""
    autocast: Any = torch.amp.autocast_mode.autocast
    real_init = autocast.__init__
    real_enabled: Any = torch.is_autocast_enabled
    real_dtype: Any = torch.get_autocast_dtype

    @functools.wraps(real_init)
    def init(
        self: Any,
        device_type: str,
        dtype: Any = None,
        enabled: bool = True,
        cache_enabled: Any = None,
    ) -> None:
        if device_type == "cuda":
            dtype = dtype or real_dtype("cuda")
            device_type = "cpu"
        real_init(self, device_type, dtype, enabled, cache_enabled)

    def is_enabled(device_type: str = "cuda") -> Any:
        return real_enabled("cpu" if device_type == "cuda" else device_type)

    def dtype_of(device_type: str) -> Any:
        on = device_type == "cuda" and real_enabled("cpu")
        return real_dtype("cpu" if on else device_type)

    patches.set(autocast, "__init__", init)
    patches.set(torch, "is_autocast_enabled", is_enabled)
    patches.set(torch, "get_autocast_dtype", dtype_of)


def _patch_compile(patches: Patches, mode: PretendMode) -> None:
    """Compiled code runs as it was written: its operations are what is looked at."""

    def compile_nothing(model: Any = None, **_options: Any) -> Any:
        mode.compiled = True
        return (lambda function: function) if model is None else model

    patches.set(torch, "compile", compile_nothing)


def _patch_load(patches: Patches, mode: PretendMode) -> None:
    real: Any = torch.load

    @functools.wraps(real)
    def load(file: Any, map_location: Any = None, **rest: Any) -> Any:
        if not isinstance(map_location, str | torch.device):
            return real(file, map_location=map_location, **rest)
        where = torch.device(map_location)
        if where.type != "cuda":
            return real(file, map_location=map_location, **rest)
        found = real(file, map_location=HOST, **rest)
        _put_all(found, torch.device("cuda", where.index or 0))
        mode.on_device = True
        return found

    patches.set(torch, "load", load)


def _put_all(value: Any, device: torch.device) -> None:
    """Put every tensor of a loaded checkpoint on a GPU."""
    if isinstance(value, torch.Tensor):
        put(value, device)
    elif isinstance(value, dict):
        for each in value.values():
            _put_all(each, device)
    elif isinstance(value, list | tuple):
        for each in value:
            _put_all(each, device)
    elif isinstance(value, torch.nn.Module):
        for each in (*value.parameters(), *value.buffers()):
            put(each, device)
