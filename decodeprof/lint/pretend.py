"""How is the pretence put up and taken down?"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils import _device as default_devices

from decodeprof.errors import UsageError
from decodeprof.lint.mode import PretendMode, Sink
from decodeprof.lint.namespace import patch_namespace
from decodeprof.lint.patches import Patches
from decodeprof.lint.tensors import patch_tensors

_lock = threading.Lock()


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
    patches = Patches()
    mode = PretendMode(sink)
    before = _state()
    # Its cache must hold torch's own functions, not ours.
    default_devices._device_constructors()
    try:
        patch_tensors(patches, mode)
        patch_namespace(patches, mode)
        _follow_threads(patches, mode)
        with mode:
            try:
                yield mode
            finally:
                _restore(before)
    finally:
        mode.over = True
        patches.undo()
        _lock.release()


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


def _state() -> dict[str, Any]:
    return {
        "dtype": torch.get_default_dtype(),
        "grad": torch.is_grad_enabled(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "threads": torch.get_num_threads(),
        "matmul": torch.get_float32_matmul_precision(),
        "device": default_devices.CURRENT_DEVICE,
    }


def _restore(before: dict[str, Any]) -> None:
    """Put back what the target may have changed for good."""
    torch.set_default_dtype(before["dtype"])
    torch.set_grad_enabled(before["grad"])
    torch.use_deterministic_algorithms(before["deterministic"])
    torch.set_num_threads(before["threads"])
    torch.set_float32_matmul_precision(before["matmul"])
    if before["device"] != default_devices.CURRENT_DEVICE:
        torch.set_default_device(before["device"])
