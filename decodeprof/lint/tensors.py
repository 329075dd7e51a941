"""How do tensors answer and move as if there were a GPU?

Only what names a device is replaced: where a tensor is, moving it, making one from Python values.
Everything else reaches the dispatch mode by itself.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.overrides import _get_current_function_mode_stack
from torch.storage import _StorageBase
from torch.utils import _device as default_devices
from torch.utils._device import DeviceContext
from torch.utils._python_dispatch import _disable_current_modes

from decodeprof.capture.op_record import tensors_in
from decodeprof.capture.waiting import FROM_HOST, READS_VALUE, TO_HOST, Wait
from decodeprof.lint.mode import Copied, PretendMode
from decodeprof.lint.patches import Patches
from decodeprof.lint.whereabouts import (
    HOST,
    device_of,
    pin,
    pinned,
    pretended_device,
    put,
    put_storage,
    resolved,
    storage_device,
)

_known = {each.__name__ for each in default_devices._device_constructors()}
_MAKERS = (
    *((torch, name) for name in sorted(_known - {"tensor", "as_tensor"}) if hasattr(torch, name)),
    (torch, "normal"),
    (torch.fft, "fftfreq"),
    (torch.fft, "rfftfreq"),
)
"""Functions of Python's that make tensors from nothing."""
# On a CPU these look at their values, which they leave to the kernel on a GPU.
_CHECKED_ON_CPU = ("quantile", "nanquantile")


def patch_tensors(patches: Patches, mode: PretendMode) -> None:
    """Replace the methods of `torch.Tensor` and the functions of torch that name a device."""
    _patch_answers(patches)
    _patch_moves(patches, mode)
    _patch_reads(patches, mode)
    _patch_makers(patches, mode)
    _patch_checks(patches, mode)
    _patch_storages(patches)


def _patch_answers(patches: Patches) -> None:
    def get_device(tensor: Tensor) -> int:
        device = device_of(tensor)
        return device.index if device.type == "cuda" else -1

    answers: dict[str, Callable[[Tensor], Any]] = {
        "device": device_of,
        "is_cuda": lambda tensor: device_of(tensor).type == "cuda",
        "is_cpu": lambda tensor: device_of(tensor).type == "cpu",
    }
    for name, answer in answers.items():
        patches.set(Tensor, name, property(answer))
    patches.set(Tensor, "get_device", get_device)
    patches.set(Tensor, "is_pinned", lambda tensor, _device=None: pinned(tensor))
    patches.set(Tensor, "record_stream", lambda _tensor, _stream: None)
    real_share: Any = Tensor.share_memory_

    def share_memory_(tensor: Tensor) -> Tensor:
        # What is on a GPU is shared as it is.
        shared: Tensor = real_share(tensor) if pretended_device(tensor) is None else tensor
        return shared

    patches.set(Tensor, "share_memory_", share_memory_)


def _patch_moves(patches: Patches, mode: PretendMode) -> None:
    real_to: Any = torch._C.TensorBase.to
    real_pin: Any = torch._C.TensorBase.clone

    def to(tensor: Tensor, *args: Any, **kwargs: Any) -> Any:
        """Move and convert, as `Tensor.to` does."""
        asked, rest = _split_device(args, dict(kwargs))
        here = device_of(tensor)
        target = here if asked is None else resolved(asked)
        if target == here or "meta" in (target.type, here.type):
            if target.type == "meta":
                rest["device"] = target
            rest.setdefault("dtype", tensor.dtype)
            return real_to(tensor, **rest)
        with mode.moving(target, non_blocking=bool(rest.get("non_blocking"))):
            rest.update(copy=True, dtype=rest.get("dtype") or tensor.dtype, non_blocking=False)
            return real_to(tensor, **rest)

    def cuda(
        tensor: Tensor,
        device: Any = None,
        non_blocking: bool = False,
        memory_format: Any = torch.preserve_format,
    ) -> Any:
        where = torch.device("cuda") if device is None else device
        return to(tensor, where, non_blocking=non_blocking, memory_format=memory_format)

    def cpu(tensor: Tensor, memory_format: Any = torch.preserve_format) -> Any:
        return to(tensor, HOST, memory_format=memory_format)

    def pin_memory(tensor: Tensor, _device: Any = None) -> Any:
        if pretended_device(tensor) is not None:
            raise RuntimeError(f"cannot pin '{tensor.type()}' only dense CPU tensors can be pinned")
        if pinned(tensor):
            return tensor
        out = real_pin(tensor)
        pin(out)
        return out

    patches.set(Tensor, "to", to)
    patches.set(Tensor, "cuda", cuda)
    patches.set(Tensor, "cpu", cpu)
    patches.set(Tensor, "pin_memory", pin_memory)
    real_type: Any = torch._C.TensorBase.type

    def type_(tensor: Tensor, dtype: Any = None, non_blocking: bool = False, **rest: Any) -> Any:
        if dtype is None:
            name = str(real_type(tensor))
            on_gpu = pretended_device(tensor) is not None
            return name.replace("torch.", "torch.cuda.", 1) if on_gpu else name
        if isinstance(dtype, str):
            where = torch.device("cuda") if dtype.startswith("torch.cuda.") else HOST
            tensor = to(tensor, where, non_blocking=non_blocking)
            dtype = dtype.replace("torch.cuda.", "torch.")
        return real_type(tensor, dtype, **rest)

    patches.set(Tensor, "type", type_)
    patches.set(Tensor, "type_as", lambda tensor, other: to(tensor, other))


def _split_device(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The device that `Tensor.to` was given, None for none, and the other arguments by name."""
    device = kwargs.pop("device", None)
    other = kwargs.pop("other", None)
    names = ["dtype", "non_blocking", "copy"]
    if args and isinstance(args[0], Tensor):
        other, args = args[0], args[1:]
        names = names[1:]
    elif args and (args[0] is None or isinstance(args[0], str | int | torch.device)):
        device, args = args[0], args[1:]
    rest = {**dict(zip(names, args, strict=False)), **kwargs}
    if other is not None:
        device = device_of(other)
        rest["dtype"] = other.dtype
    return device, {name: value for name, value in rest.items() if value is not None}


def _patch_reads(patches: Patches, mode: PretendMode) -> None:
    real_tolist: Any = torch._C.TensorBase.tolist
    real_numpy: Any = torch._C.TensorBase.numpy

    def tolist(tensor: Tensor) -> Any:
        if pretended_device(tensor) is not None:
            mode.waited("Tensor.tolist", Wait(TO_HOST))
        return real_tolist(tensor)

    def numpy(tensor: Tensor, *, force: bool = False) -> Any:
        device = pretended_device(tensor)
        if device is not None and not force:
            raise TypeError(
                f"can't convert {device} device type tensor to numpy. Use Tensor.cpu() to copy "
                "the tensor to host memory first."
            )
        return real_numpy(tensor.cpu() if device is not None else tensor, force=force)

    real_text: Any = torch._tensor_str._str_intern

    def text(*args: Any, **kwargs: Any) -> Any:
        # torch switches all modes off to print, but a GPU is read from all the same.
        with mode:
            return real_text(*args, **kwargs)

    patches.set(torch._tensor_str, "_str_intern", text)
    patches.set(Tensor, "tolist", tolist)
    patches.set(Tensor, "numpy", numpy)


def _patch_makers(patches: Patches, mode: PretendMode) -> None:
    real_tensor: Any = torch.tensor
    real_new: Any = torch._C.TensorBase.new_tensor

    def tensor(
        data: Any,
        *,
        dtype: Any = None,
        device: Any = None,
        requires_grad: bool = False,
        pin_memory: bool = False,
    ) -> Any:
        where = _asked_device(device, data)
        with_meta = where if where.type == "meta" else HOST
        if isinstance(data, Tensor):
            out = data.detach().clone().to(where, dtype or data.dtype)
            return out.requires_grad_(requires_grad)
        out = real_tensor(data, dtype=dtype, device=with_meta, requires_grad=requires_grad)
        if pin_memory:
            pin(out)
        return _placed(mode, out, data, where, "torch.tensor")

    def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Any:
        if isinstance(data, Tensor):
            return data.to(data.device if device is None else device, dtype or data.dtype)
        where = _asked_device(device, data)
        out = torch._C._VariableFunctions.as_tensor(data, dtype=dtype, device=HOST)
        own = out if where.type == "cpu" else out.clone()
        return _placed(mode, own, data, where, "torch.as_tensor")

    def new_tensor(
        this: Tensor, data: Any, *, dtype: Any = None, device: Any = None, **rest: Any
    ) -> Any:
        where = device_of(this) if device is None else resolved(device)
        out = real_new(this, data, dtype=dtype or this.dtype, device=HOST, **rest)
        return _placed(mode, out, data, where, "Tensor.new_tensor")

    asarray = _asarray_for(mode)
    for owner, name in _MAKERS:
        patches.set(owner, name, _stating(getattr(owner, name), mode))
    patches.set(torch, "tensor", functools.wraps(real_tensor)(tensor))
    patches.set(torch, "as_tensor", functools.wraps(torch.as_tensor)(as_tensor))
    patches.set(torch, "asarray", asarray)
    patches.set(Tensor, "new_tensor", new_tensor)


def _placed(mode: PretendMode, out: Any, data: Any, device: torch.device, op: str) -> Any:
    """Put a tensor that was made from Python values where it was asked for."""
    values = [each for each in tensors_in(data) if pretended_device(each) is not None]
    if values:
        mode.waited(op, Wait(READS_VALUE, len(values)))
    if device.type == "cuda":
        put(out, device)
        mode.on_device = True
        if out.numel() and not isinstance(data, Tensor):
            mode.waited(op, Wait(FROM_HOST))
            size = out.numel() * out.element_size()
            mode.sink.copied(op, Copied(True, False, False, size))
    return out


def _asarray_for(mode: PretendMode) -> Any:
    real_asarray: Any = torch.asarray

    @functools.wraps(real_asarray)
    def asarray(
        obj: Any, *, dtype: Any = None, device: Any = None, copy: Any = None, **rest: Any
    ) -> Any:
        if isinstance(obj, Tensor):
            where = device_of(obj) if device is None else resolved(device)
            out = obj.to(where, dtype or obj.dtype)
            return real_asarray(out.clone() if copy and out is obj else out, **rest)
        where = _asked_device(device, obj)
        on_gpu = where.type == "cuda"
        out = real_asarray(
            obj,
            dtype=dtype,
            device=HOST if on_gpu else where,
            copy=True if on_gpu else copy,
            **rest,
        )
        return _placed(mode, out, obj, where, "torch.asarray")

    return asarray


def _stating(real: Any, mode: PretendMode) -> Any:
    """A function that makes tensors: where it is asked for none, they are on the host."""

    @functools.wraps(real)
    def make(*args: Any, **kwargs: Any) -> Any:
        with mode.stated():
            return real(*args, **kwargs)

    return make


def _asked_device(device: Any, data: Any) -> torch.device:
    if device is not None:
        return resolved(device)
    if isinstance(data, Tensor):
        return device_of(data)
    # A default device is a mode, and modes are rare: a plain call must stay cheap.
    if torch._C._len_torch_function_stack():
        for each in reversed(_get_current_function_mode_stack()):
            if isinstance(each, DeviceContext):
                return resolved(each.device)
    return HOST


def _patch_checks(patches: Patches, mode: PretendMode) -> None:
    real_one_hot: Any = torch.nn.functional.one_hot

    def one_hot(tensor: Tensor, num_classes: int = -1) -> Any:
        if num_classes == -1 and pretended_device(tensor) is not None:
            mode.waited("aten::one_hot", Wait(READS_VALUE))
        with mode.quiet():
            return real_one_hot(tensor, num_classes)

    patches.set(torch.nn.functional, "one_hot", one_hot)
    for name in _CHECKED_ON_CPU:
        for owner in (torch, Tensor):
            patches.set(owner, name, _unchecked(getattr(owner, name), mode))


def _unchecked(real: Any, mode: PretendMode) -> Any:
    @functools.wraps(real)
    def call(*args: Any, **kwargs: Any) -> Any:
        with mode.quiet():
            return real(*args, **kwargs)

    return call


def _patch_storages(patches: Patches) -> None:
    """Copies of whole storages, which `copy.deepcopy` makes."""
    real_clone: Any = _StorageBase.clone

    def clone(storage: Any) -> Any:
        device = storage_device(storage)
        if device is None:
            return real_clone(storage)
        with _disable_current_modes():
            out = real_clone(storage)
        put_storage(out, device)
        return out

    patches.set(_StorageBase, "clone", clone)
