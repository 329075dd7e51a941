"""What can tell, here, which operations block the host and how many launches there are?

`backend` is the one place that decides. On a machine with a CUDA device the device's own runtime
tells; elsewhere nothing does yet, and tests skip with the reason.
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


@dataclass
class Profiled:
    """Where the profile of a region lies once the region was left."""

    folder: Path
    traces: list[Path] = field(default_factory=list)


class Backend(Protocol):
    """Sees what a region of code does to the host."""

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
    if not torch.cuda.is_available():
        built = f"CUDA {torch.version.cuda}" if torch.version.cuda else "the CPU alone"
        raise CannotWatch(
            f"blocking calls and launches are seen on a CUDA device, and torch finds none "
            f"(torch {torch.__version__}, built for {built})"
        )
    from decodeprof.testing.cuda import CudaBackend

    return CudaBackend()
