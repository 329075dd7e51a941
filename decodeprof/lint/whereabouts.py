"""Where does a tensor live, while we pretend?

The answer belongs to the storage, so that views, parameters and `.data` agree: torch keeps a
storage's Python object, with its attributes, for as long as the storage lives.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

HOST = torch.device("cpu")
_DEVICE = "decodeprof_device"
_PINNED = "decodeprof_pinned"
_FOLLOWS = "decodeprof_follows"
_real_device: Any = torch._C.TensorBase.device


def _notes(tensor: Tensor) -> dict[str, Any]:
    """What is noted of a storage; nothing can be of a tensor without one (sparse, nested)."""
    try:
        return tensor.untyped_storage().__dict__
    except (NotImplementedError, RuntimeError):
        # Inside of vmap and grad a tensor is wrapped; the one within has the storage.
        functorch: Any = torch._C._functorch
        if functorch.is_functorch_wrapped_tensor(tensor):
            return _notes(functorch.get_unwrapped(tensor))
        return {}


def device_of(tensor: Tensor) -> torch.device:
    """Where a tensor pretends to live; where it really does if it never said otherwise."""
    device: torch.device = _notes(tensor).get(_DEVICE) or _real_device.__get__(tensor)
    return device


def pretended_device(tensor: Tensor) -> torch.device | None:
    """The GPU that a tensor pretends to live on; None: it is on the host."""
    return _notes(tensor).get(_DEVICE)


def let_follow(tensor: Tensor) -> torch.UntypedStorage | None:
    """A tensor that torch's own code made: it is where the first one is that it is used with.

    On a GPU that code would have asked for the device of its arguments, which it sees as they are.

    Returns:
        Its storage; None: it has none.
    """
    try:
        storage = tensor.untyped_storage()
    except (NotImplementedError, RuntimeError):
        return None
    storage.__dict__[_FOLLOWS] = True
    return storage


def follows(tensor: Tensor) -> bool:
    """Whether it is still open where a tensor lives."""
    return _FOLLOWS in _notes(tensor)


def put(tensor: Tensor, device: torch.device) -> None:
    """From now on a tensor's storage lives there; the host is no place to pretend."""
    notes = _notes(tensor)
    notes.pop(_FOLLOWS, None)
    if device.type == "cuda":
        notes[_DEVICE] = device
    else:
        notes.pop(_DEVICE, None)


def put_storage(storage: torch.UntypedStorage, device: torch.device) -> None:
    """From now on a storage lives on this GPU."""
    storage.__dict__[_DEVICE] = device


def storage_device(storage: torch.UntypedStorage) -> torch.device | None:
    """The GPU that a storage pretends to live on; None: it is on the host."""
    return storage.__dict__.get(_DEVICE)


def pin(tensor: Tensor) -> None:
    """From now on a tensor's memory counts as page-locked."""
    _notes(tensor)[_PINNED] = True


def pinned(tensor: Tensor) -> bool:
    """Whether a tensor's memory counts as page-locked."""
    return bool(_notes(tensor).get(_PINNED))


def resolved(device: Any) -> torch.device:
    """A device as a person may write it, with its index, as a tensor there would answer."""
    found = torch.device("cuda", device) if isinstance(device, int) else torch.device(device)
    if found.type == "cuda" and found.index is None:
        return torch.device("cuda", torch.cuda.current_device())
    return found
