"""What can tell, here, which operations block the host and how many launches there are?

`backend` is the one place that decides. On a machine with a CUDA device the device's own runtime
tells. Elsewhere blocking calls are predicted, and launches are not counted: tests that count them
skip with the reason.
"""

from __future__ import annotations

import unittest
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from decodeprof.capture.places import Frame


@dataclass(frozen=True)
class Blocked:
    """One time that the host was blocked, or would be."""

    why: str
    """Ends a sentence that begins with the op: ``waits for a stream``."""
    op: str | None
    """The innermost operator; None: it was called outside of any."""
    stack: tuple[Frame, ...]
    """Python frames, innermost first."""
    predicted: bool = False
    """It would happen on a GPU; here there is none."""


@dataclass
class Profiled:
    """Where the profile of a region lies once the region was left."""

    folder: Path
    traces: list[Path] = field(default_factory=list)


class Backend(Protocol):
    """Sees what a region of code does to the host."""

    predicts: bool
    """Nothing is seen to block: it is told what would."""
    why_uncounted: str
    """Why launches cannot be counted; empty: they can."""

    def surroundings(self) -> AbstractContextManager[None]:
        """What must be up from where the first tensor is made that a region uses."""

    def watching(self, note: Callable[[Blocked], None]) -> AbstractContextManager[None]:
        """Tell `note` of each time that this thread is blocked while the context is open."""

    def profiling(self, into: Profiled) -> AbstractContextManager[None]:
        """Profile all threads while the context is open, and write the trace."""


class CannotWatch(unittest.SkipTest):
    """Nothing here can tell, for the reason that it states. Test runners take it for a skip."""


def backend() -> Backend:
    """The backend that this machine allows.

    Raises:
        CannotWatch: there is none.
    """
    try:
        import torch
    except ImportError as error:
        raise CannotWatch(f"torch cannot be imported: {error}") from None
    # What `torch.cuda.is_available` asks; itself it answers yes while a device is only pretended.
    devices = getattr(torch._C, "_cuda_getDeviceCount", int)()
    if not devices:
        from decodeprof.testing.predicted import PredictedBackend

        return PredictedBackend()
    from decodeprof.testing.cuda import CudaBackend

    return CudaBackend()
