"""How is the pretence put up and taken down?"""

from __future__ import annotations

import contextlib
import importlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import overrides
from torch.utils import _device as default_devices
from torch.utils import _python_dispatch as dispatch_modes

from decodeprof.errors import UsageError
from decodeprof.lint.files import patch_files
from decodeprof.lint.mode import PretendMode, Sink
from decodeprof.lint.namespace import patch_namespace
from decodeprof.lint.patches import Patches
from decodeprof.lint.tensors import patch_tensors

_lock = threading.Lock()
_PRINT_OPTIONS = ("precision", "threshold", "edgeitems", "linewidth", "sci_mode")


@contextlib.contextmanager
def pretended(sink: Sink) -> Iterator[PretendMode]:
    """Pretend, in this process and for this thread's operations, that there is one GPU.

    Everything of torch that is replaced, and what the code inside may have left switched on
    (default device and dtype, gradient mode, sync-debug mode), is put back at the end.

    Args:
        sink: told of each wait and each copy, in the frame where it would happen.

    Raises:
        UsageError: it is already pretended, here or in another thread.
    """
    if not _lock.acquire(blocking=False):
        raise UsageError(
            "a prediction is already under way in this process",
            why="torch's answers can be replaced once at a time",
            hint="predict one block after the other",
        )
    # Any mode has torch import its compiler, whose tables must hold torch's own functions.
    importlib.import_module("torch._dynamo")
    patches = Patches()
    mode = PretendMode(sink)
    before = _state()
    # Its cache must hold torch's own functions, not ours.
    default_devices._device_constructors()
    try:
        patch_tensors(patches, mode)
        patch_namespace(patches, mode)
        patch_files(patches, mode)
        _follow_threads(patches, mode)
        with mode:
            try:
                yield mode
            finally:
                _leave_modes_above(mode)
                _restore(before)
    finally:
        mode.over = True
        patches.undo()
        _lock.release()


def _leave_modes_above(mode: PretendMode) -> None:
    """End what the code inside switched on and never off: only the innermost mode can be left."""
    while mode in (stack := dispatch_modes._get_current_dispatch_mode_stack()):
        if stack[-1] is mode:
            return
        dispatch_modes._pop_mode()


def _function_modes() -> int:
    return torch._C._len_torch_function_stack()


def _leave_function_modes(before: int) -> None:
    while _function_modes() > before:
        overrides._pop_mode()


def _follow_threads(patches: Patches, mode: PretendMode) -> None:
    """Let threads pretend that are started meanwhile: modes belong to one thread each."""
    start = threading.Thread.start

    def started(thread: threading.Thread) -> None:
        run = thread.run

        def run_in_mode() -> None:
            with mode:
                run()

        thread.run = run_in_mode  # type: ignore[method-assign]
        start(thread)

    patches.set(threading.Thread, "start", started)


def _cpu_autocast() -> tuple[bool, torch.dtype]:
    return torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")


def _set_cpu_autocast(before: tuple[bool, torch.dtype]) -> None:
    torch.set_autocast_enabled("cpu", before[0])
    torch.set_autocast_dtype("cpu", before[1])


def _default_device() -> Any:
    return default_devices.CURRENT_DEVICE


def _set_default_device(before: Any) -> None:
    if before != default_devices.CURRENT_DEVICE:
        torch.set_default_device(before)


def _print_options() -> dict[str, Any]:
    return {name: getattr(torch._tensor_str.PRINT_OPTS, name) for name in _PRINT_OPTIONS}


def _set_print_options(before: dict[str, Any]) -> None:
    for name, value in before.items():
        setattr(torch._tensor_str.PRINT_OPTS, name, value)


def _flag(owner: Any, name: str) -> tuple[Callable[[], Any], Callable[[Any], Any]]:
    return (lambda: getattr(owner, name)), (lambda before: setattr(owner, name, before))


_backends: Any = torch.backends
_SWITCHES: tuple[tuple[Callable[[], Any], Callable[[Any], Any]], ...] = (
    (torch.get_default_dtype, torch.set_default_dtype),
    (torch.is_grad_enabled, torch.set_grad_enabled),
    (torch.are_deterministic_algorithms_enabled, torch.use_deterministic_algorithms),
    (torch.get_num_threads, torch.set_num_threads),
    (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
    (torch.is_anomaly_enabled, torch.set_anomaly_enabled),
    (torch.is_warn_always_enabled, torch.set_warn_always),
    (_cpu_autocast, _set_cpu_autocast),
    _flag(_backends.cudnn, "enabled"),
    _flag(_backends.cudnn, "benchmark"),
    _flag(_backends.cudnn, "deterministic"),
    _flag(_backends.cudnn, "allow_tf32"),
    _flag(_backends.cuda.matmul, "allow_fp16_reduced_precision_reduction"),
    _flag(_backends.cuda.matmul, "allow_bf16_reduced_precision_reduction"),
    _flag(torch.utils.deterministic, "fill_uninitialized_memory"),
    _flag(torch.distributions.Distribution, "_validate_args"),
    (torch.is_autocast_cache_enabled, torch.set_autocast_cache_enabled),
    (_print_options, _set_print_options),
    (_backends.cuda.flash_sdp_enabled, _backends.cuda.enable_flash_sdp),
    (_backends.cuda.mem_efficient_sdp_enabled, _backends.cuda.enable_mem_efficient_sdp),
    (_backends.cuda.math_sdp_enabled, _backends.cuda.enable_math_sdp),
    (_default_device, _set_default_device),
    # A default device is a function mode: these come after it.
    (_function_modes, _leave_function_modes),
)
"""What a program may switch for good in its process: how each is asked for, and set."""


def _state() -> list[Any]:
    return [asked() for asked, _ in _SWITCHES]


def _restore(before: list[Any]) -> None:
    """Put back what the target may have changed for good."""
    for (asked, put_back), value in zip(_SWITCHES, before, strict=True):
        if asked() != value:
            put_back(value)
