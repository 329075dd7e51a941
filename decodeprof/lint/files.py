"""How are tensors of a pretended GPU written to files and read from them?

Whatever pickles a tensor comes through `torch.save`, and a blocking copy of each of its storages
with it.
"""

from __future__ import annotations

import functools
import threading
from typing import Any

import torch
from torch.storage import _StorageBase

from decodeprof.capture.waiting import FROM_HOST, TO_HOST, Wait
from decodeprof.lint.mode import Copied, PretendMode
from decodeprof.lint.patches import Patches
from decodeprof.lint.whereabouts import HOST, put, put_storage, resolved, storage_device


def patch_files(patches: Patches, mode: PretendMode) -> None:
    """Replace what saves and loads tensors."""
    _patch_save(patches, mode)
    _patch_load(patches, mode)
    _patch_load_script(patches, mode)


class _Saving(threading.local):
    storages: dict[int, int] | None = None
    """Bytes of each storage on the GPU that this thread's `torch.save` has met."""


def _patch_save(patches: Patches, mode: PretendMode) -> None:
    saving = _Saving()
    real_tag: Any = torch.serialization.location_tag
    real_save: Any = torch.save
    real_cpu: Any = _StorageBase.cpu

    def location_tag(storage: Any) -> str:
        device = storage_device(storage)
        if device is None:
            return str(real_tag(storage))
        if saving.storages is not None:
            saving.storages[storage._cdata] = storage.nbytes()
        return str(device)

    @functools.wraps(real_save)
    def save(*args: Any, **kwargs: Any) -> None:
        """Save, and tell of the copies that a GPU would make for it."""
        # An object that is pickled may itself save others.
        around, saving.storages = saving.storages, {}
        try:
            real_save(*args, **kwargs)
            for size in filter(None, saving.storages.values()):
                _tell(mode, "torch.save", to_device=False, size=size)
        finally:
            saving.storages = around

    def cpu(storage: Any) -> Any:
        if storage_device(storage) is None:
            return real_cpu(storage)
        # The operation that this is made of tells of the wait.
        return torch.UntypedStorage(storage.nbytes()).copy_(storage)

    patches.set(torch.serialization, "location_tag", location_tag)
    for owner in (torch, torch.serialization):
        patches.set(owner, "save", save)
    patches.set(_StorageBase, "cpu", cpu)


def _tell(mode: PretendMode, op: str, *, to_device: bool, size: int) -> None:
    mode.waited(op, Wait(FROM_HOST if to_device else TO_HOST))
    mode.sink.copied(op, Copied(to_device, False, False, size))


def _patch_load(patches: Patches, mode: PretendMode) -> None:
    real: Any = torch.load

    @functools.wraps(real)
    def load(file: Any, map_location: Any = None, **rest: Any) -> Any:
        """Load onto the host, and note of each storage where it was to go."""

        def place(storage: Any, location: str) -> Any:
            where = _mapped(map_location, storage, location)
            if isinstance(where, torch.UntypedStorage):
                return where
            if where.type == "cuda":
                put_storage(storage, where)
                mode.on_device = True
                if storage.nbytes():
                    _tell(mode, "torch.load", to_device=True, size=storage.nbytes())
            return storage

        return real(file, map_location=place, **rest)

    patches.set(torch, "load", load)


def _patch_load_script(patches: Patches, mode: PretendMode) -> None:
    real: Any = torch.jit.load

    @functools.wraps(real)
    def load_script(file: Any, map_location: Any = None, *args: Any, **rest: Any) -> Any:
        """Load onto the host, and note where the module's tensors were to go."""
        module = real(file, HOST, *args, **rest)
        where = HOST if map_location is None else resolved(map_location)
        if where.type == "cuda":
            mode.on_device = True
            for tensor in (*module.parameters(), *module.buffers()):
                put(tensor, where)
        return module

    patches.set(torch.jit, "load", load_script)


def _mapped(map_location: Any, storage: Any, location: str) -> Any:
    """A device, or the storage that a function of the program's own made of one."""
    if map_location is None:
        return resolved(location)
    if isinstance(map_location, dict):
        return resolved(map_location.get(location, location))
    if isinstance(map_location, str | torch.device):
        return resolved(map_location)
    found = map_location(storage, location)
    return resolved(location) if found is None else found
