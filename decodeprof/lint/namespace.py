"""What does `torch.cuda` answer while we pretend that there is one GPU?

What a decode loop asks for is answered: devices, streams, events, graphs, memory figures, random
state, autocast. What only a GPU can do still fails, in torch's own words.
"""

from __future__ import annotations

import contextlib
import functools
import threading
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
    for name, value in {**_identity(), **_memory(), **_random(mode)}.items():
        _set(patches, name, value)
    for name in ("start", "stop"):
        patches.set(cuda.profiler, name, _zero)
    _patch_streams(patches, mode)
    _patch_waits(patches, mode)
    _patch_generator(patches, mode)
    _patch_autocast(patches)
    _patch_compile(patches, mode)
    _patch_legacy_types(patches)
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


def _set(patches: Patches, name: str, value: Any) -> None:
    """Replace a name of `torch.cuda`, also in the module of its that it comes from."""
    cuda: Any = torch.cuda
    for owner in (cuda, cuda.graphs, cuda.memory, cuda.random, cuda.streams):
        if owner is cuda or name in vars(owner):
            patches.set(owner, name, value)


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
        "device": _DeviceContext,
        "device_of": _DeviceContext,
        "cudart": lambda: SimpleNamespace(cudaProfilerStart=_zero, cudaProfilerStop=_zero),
        "check_error": lambda _result: None,
        "_sleep": lambda _cycles: None,
    }


def _zero(*_args: Any, **_kwargs: Any) -> int:
    return 0


class _DeviceContext:
    """Stands for `torch.cuda.device`; a class, since torch asks whether something is one."""

    def __init__(self, device: Any = None) -> None:
        self.idx = 0
        self.prev_idx = 0
        del device  # There is one GPU.

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass


def _memory() -> dict[str, Any]:
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
            "_record_memory_history",
        )
    }
    return {
        **dict.fromkeys(names, _zero),
        **nothing,
        "memory_stats": lambda *_args, **_kwargs: {},
        "memory_snapshot": lambda *_args, **_kwargs: [],
        "memory_summary": lambda *_args, **_kwargs: "",
        "mem_get_info": lambda _device=None: (_MEMORY_BYTES, _MEMORY_BYTES),
        "get_sync_debug_mode": lambda: 0,
    }


def _random(mode: PretendMode) -> dict[str, Any]:
    """The GPU's generator is the CPU's: numbers are those of a run on the CPU."""

    def seeding(name: str, set_it: Any) -> Any:
        def call(*args: Any) -> Any:
            mode.seeded(f"torch.cuda.{name}")
            return set_it(*args)

        return call

    seed = torch.default_generator.manual_seed
    setters = {
        "manual_seed": seed,
        # Called by torch.manual_seed as well, with the same seed.
        "manual_seed_all": seed,
        "set_rng_state": lambda state, _device=None: torch.random.set_rng_state(state),
        "set_rng_state_all": lambda states: torch.random.set_rng_state(states[0]),
        "seed": torch.default_generator.seed,
        "seed_all": torch.default_generator.seed,
    }
    return {
        **{name: seeding(name, set_it) for name, set_it in setters.items()},
        "get_rng_state": lambda _device=None: torch.random.get_rng_state(),
        "get_rng_state_all": lambda: [torch.random.get_rng_state()],
        "initial_seed": torch.random.initial_seed,
        "default_generators": (torch.default_generator,),
    }


def _patch_streams(patches: Patches, mode: PretendMode) -> None:
    classes = classes_for(mode)
    default = classes.stream()
    current = threading.local()

    def set_stream(stream: Any) -> None:
        current.stream = stream

    def current_stream(_device: Any = None) -> Any:
        return getattr(current, "stream", default)

    def stream(chosen: Any) -> Any:
        return contextlib.nullcontext() if chosen is None else chosen

    for name, value in {
        "Stream": classes.stream,
        "ExternalStream": classes.external,
        "Event": classes.event,
        "current_stream": current_stream,
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
        _set(patches, name, value)
    patches.set(torch, "Stream", classes.any_stream)
    patches.set(torch, "Event", classes.any_event)


def _patch_waits(patches: Patches, mode: PretendMode) -> None:
    def synchronize(_device: Any = None) -> None:
        mode.waited("torch.cuda.synchronize", Wait(EXPLICIT))

    _set(patches, "synchronize", synchronize)
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
        **_memory(),
    }
    for name, value in answers.items():
        if hasattr(accelerator, name):
            patches.set(accelerator, name, value)


def _patch_generator(patches: Patches, mode: PretendMode) -> None:
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

        def manual_seed(self, seed: int) -> Any:
            """Draw from a new beginning."""
            if self.asked.type == "cuda":
                mode.seeded("torch.Generator.manual_seed")
            return real.manual_seed(self, seed)

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


class _LegacyType(type):
    """The class of `torch.cuda.FloatTensor` and its kin: constructors, and types to ask for."""

    name: str

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        made = getattr(torch, cls.name)(*args, **kwargs)
        if all(isinstance(each, int) for each in args):
            put(made, resolved("cuda"))  # Sizes alone: there are no values to copy.
            return made
        return made.cuda()

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, torch.Tensor) and instance.type() == f"torch.cuda.{cls.name}"


def _patch_legacy_types(patches: Patches) -> None:
    for name in list(vars(torch.cuda)):
        if name.endswith("Tensor") and hasattr(torch, name):
            patches.set(torch.cuda, name, _LegacyType(name, (), {"name": name}))
