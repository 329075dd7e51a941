"""Which syncs would a block of code make on a GPU, told on a machine that has none?"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from decodeprof.capture.places import Places
from decodeprof.lint.collect import Collector
from decodeprof.lint.pretend import pretended
from decodeprof.model.lint import PredictedCopy, PredictedSync


class Predicted:
    """What was predicted of a block; complete when the block has ended."""

    def __init__(self, collector: Collector, places: Places) -> None:
        self._collector = collector
        self._places = places

    @property
    def syncs(self) -> list[PredictedSync]:
        """Each place where the host would wait; `in_prefill` counts the waits of the block."""
        return self._collector.syncs(self._places, decode_steps=0)

    @property
    def copies(self) -> list[PredictedCopy]:
        """Each copy between host and device through pageable memory."""
        return self._collector.pageable(self._places, decode_steps=0)

    @property
    def count(self) -> int:
        """Waits of the whole block."""
        return sum(sync.in_prefill for sync in self.syncs)


@contextlib.contextmanager
def predict(*, script_folder: str | None = None) -> Iterator[Predicted]:
    """Run a block on the CPU as if there were a GPU, and predict its syncs.

    Inside, `torch.cuda.is_available()` is true, tensors that are made on or moved to ``cuda``
    answer that they live there, and every value is real. CUDA extensions, Triton kernels and
    threads that Python's `threading` did not start are not seen. torch is as it was when the block
    has ended.

    Args:
        script_folder: places are named relative to it; the current folder when not given.

    Raises:
        UsageError: another prediction is under way in this process.
    """
    collector = Collector()
    predicted = Predicted(collector, Places(script_folder or str(Path.cwd())))
    with pretended(collector):
        yield predicted
