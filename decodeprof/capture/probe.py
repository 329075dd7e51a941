"""What do torch and its GPU do on this machine? Really tried, one thing after the other.

Run as a process of its own (``python -m decodeprof.capture.probe``): a driver that crashes then
takes nothing else with it. One JSON object a line goes to stdout: ``{"check", "value"}``, or
``{"check", "error"}`` for what was tried and failed. What a crash left untried has no line.
"""

from __future__ import annotations

import json
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

_LAUNCHES = 3


def probe() -> None:
    """Try each thing in turn; what CUDA it needs comes after it is known to be there."""
    _try("torch", _torch_version)
    if not _try("cuda", _cuda):
        return
    _try("profiler", _profiled_kernels)
    _try("sync_debug", _sync_debug)
    _try("gpu_trace", _gpu_trace)


def _try(check: str, what: Callable[[], Any]) -> Any:
    try:
        value = what()
    # Whatever an installation can throw is the answer here, and is reported as such.
    except Exception as error:
        _say({"check": check, "error": f"{type(error).__name__}: {error}"})
        return None
    _say({"check": check, "value": value})
    return value


def _say(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def _torch_version() -> dict[str, str | None]:
    import torch

    return {
        "version": torch.__version__,
        "cuda": torch.version.cuda,
        "hip": getattr(torch.version, "hip", None),
    }


def _cuda() -> dict[str, Any] | None:
    """Devices and driver; None where torch finds no GPU."""
    import torch

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        available = torch.cuda.is_available()
    if not available:
        if caught:
            raise RuntimeError(str(caught[0].message))
        return None
    count = torch.cuda.device_count()
    torch.ones(1, device="cuda").add_(1).item()
    return {
        "devices": [torch.cuda.get_device_name(index) for index in range(count)],
        "driver": _driver_version(),
    }


def _driver_version() -> str | None:
    try:
        text = Path("/proc/driver/nvidia/version").read_text()
    except OSError:
        return None
    words = text.split("Kernel Module", 1)[-1].split()
    # "for x86_64" precedes the number in the open module's text.
    return next((word for word in words if word[:1].isdigit()), None)


def _profiled_kernels() -> dict[str, int]:
    """Launches made and kernels that the profiler saw: CUPTI works when they agree."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    values = torch.ones(64, device="cuda")
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
        for _ in range(_LAUNCHES):
            values.add_(1)
        torch.cuda.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(path))
        events = json.loads(path.read_text())["traceEvents"]
    kernels = sum(event.get("cat") == "kernel" for event in events)
    return {"launches": _LAUNCHES, "kernels": kernels}


def _sync_debug() -> int:
    """Warnings that one `.item()` gives under sync-debug mode."""
    import torch

    value = torch.ones(1, device="cuda")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        value.item()
        torch.cuda.set_sync_debug_mode("default")
    return sum("synchronizing CUDA operation" in str(warning.message) for warning in caught)


def _gpu_trace() -> int:
    """Callbacks that one stream synchronisation gives through torch's gpu_trace hooks."""
    import torch
    from torch.cuda import _gpu_trace

    seen: list[int] = []
    _gpu_trace.register_callback_for_stream_synchronization(seen.append)
    torch._C._activate_gpu_trace()
    torch.cuda.current_stream().synchronize()
    torch.ones(1, device="cuda").item()
    return len(seen)


if __name__ == "__main__":
    probe()
