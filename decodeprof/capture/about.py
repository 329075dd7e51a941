"""On what was it recorded: versions, machine, device, model and allocator?"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from torch import fx, nn
from torch.nn.parameter import is_lazy

from decodeprof import __version__
from decodeprof.recording import Allocator, Device, Environment, ModelInfo

_PACKAGES = ("transformers", "triton", "numpy", "flash_attn", "xformers", "vllm", "sglang")


def environment() -> Environment:
    """Versions of what runs the target, and the kind of machine; no names, no variables."""
    packages = {}
    for name in _PACKAGES:
        if name in sys.modules:
            try:
                packages[name] = importlib.metadata.version(name)
            except importlib.metadata.PackageNotFoundError:
                continue
    return Environment(
        python=platform.python_version(),
        torch=str(torch.__version__),
        decodeprof=__version__,
        cuda=torch.version.cuda,
        driver=_driver(),
        platform=f"{platform.system()} {platform.machine()}",
        cpu=_cpu(),
        cpu_count=len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count() or 0,
        packages=packages,
    )


def _driver() -> str | None:
    try:
        text = Path("/proc/driver/nvidia/version").read_text()
    except OSError:
        return None
    found = re.search(r"\b(\d{3}\.\d+(?:\.\d+)?)\b", text)
    return found[1] if found else None


def _cpu() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor()
    found = re.search(r"^model name\s*:\s*(.+)$", text, re.M)
    return found[1].strip() if found else platform.processor()


def device() -> Device:
    """The current CUDA device."""
    index = torch.cuda.current_device()
    properties: Any = torch.cuda.get_device_properties(index)
    return Device(
        name=properties.name,
        index=index,
        sm_count=properties.multi_processor_count,
        memory_bytes=properties.total_memory,
        compute_capability=f"{properties.major}.{properties.minor}",
        l2_bytes=getattr(properties, "L2_cache_size", None),
    )


def allocator_figures() -> dict[str, int]:
    """The caching allocator's counters as they stand."""
    return {name: int(value) for name, value in torch.cuda.memory_stats().items()}


def allocator(before: dict[str, int], after: dict[str, int]) -> Allocator:
    """What happened in the allocator between two readings; peaks since they were last reset."""

    def change(name: str) -> int:
        return after.get(name, 0) - before.get(name, 0)

    return Allocator(
        peak_allocated_bytes=after.get("allocated_bytes.all.peak", 0),
        peak_reserved_bytes=after.get("reserved_bytes.all.peak", 0),
        device_allocs=change("num_device_alloc"),
        device_frees=change("num_device_free"),
        alloc_retries=change("num_alloc_retries"),
        out_of_memory_errors=change("num_ooms"),
        inactive_split_bytes=after.get("inactive_split_bytes.all.current", 0),
    )


def model_info(modules: Iterable[nn.Module]) -> ModelInfo | None:
    """What the modules hold, each storage counted once; None: there are no modules.

    Embeddings count as such where no other kind of module shares their storage: a step reads
    them by row, and not whole.
    """
    roots = list(modules)
    if not roots:
        return None
    bytes_of: dict[tuple[Any, ...], int] = {}
    embeddings: set[tuple[Any, ...]] = set()
    others: set[tuple[Any, ...]] = set()
    dtypes: dict[str, int] = {}
    buffers: dict[tuple[Any, ...], int] = {}
    elements = 0
    for part in {id(part): part for root in roots for part in root.modules()}.values():
        for parameter in part.parameters(recurse=False):
            key = _storage(parameter)
            (embeddings if isinstance(part, nn.Embedding) else others).add(key)
            if key not in bytes_of:
                size = parameter.untyped_storage().nbytes()
                bytes_of[key] = size
                elements += parameter.numel()
                dtype = str(parameter.dtype).removeprefix("torch.")
                dtypes[dtype] = dtypes.get(dtype, 0) + size
        for buffer in part.buffers(recurse=False):
            buffers[_storage(buffer)] = buffer.untyped_storage().nbytes()
    largest = max(roots, key=lambda root: sum(each.numel() for each in root.parameters()))
    return ModelInfo(
        name=type(getattr(largest, "_orig_mod", largest)).__name__,
        parameter_bytes=sum(bytes_of.values()),
        buffer_bytes=sum(size for key, size in buffers.items() if key not in bytes_of),
        parameters=elements,
        embedding_bytes=sum(bytes_of[key] for key in embeddings - others),
        dtypes=dtypes,
    )


def largest_model(modules: Iterable[nn.Module], *, device_type: str) -> nn.Module | None:
    """Of modules that no other one holds, the one with most parameter bytes on a device.

    An engine may compute with a model's tensors and never call a module: what its steps read can
    then only be taken from what is alive. Only the largest counts, since others may be unused.

    Args:
        modules: all there are.
        device_type: ``cuda`` or ``cpu``.

    Returns:
        The module; None: none holds parameters there.
    """
    # A module that is still being made, or whose making failed, has no children yet.
    whole = [module for module in modules if getattr(module, "_modules", None) is not None]
    inside = {id(child) for module in whole for child in module.children()}
    # Compilers keep copies of a model as graphs: of two that hold the same, the user's own.
    sizes = {
        (_bytes_on(module, device_type), not isinstance(module, fx.GraphModule)): module
        for module in reversed(whole)
        if id(module) not in inside
    }
    largest = max(sizes, default=(0, False))
    return sizes[largest] if largest[0] else None


def _bytes_on(module: nn.Module, device_type: str) -> int:
    storages = {
        _storage(parameter): parameter.untyped_storage().nbytes()
        for parameter in module.parameters()
        if parameter.device.type == device_type and not is_lazy(parameter)
    }
    return sum(storages.values())


def _storage(tensor: torch.Tensor) -> tuple[Any, ...]:
    return (tensor.device.type, tensor.device.index, tensor.untyped_storage()._cdata)
