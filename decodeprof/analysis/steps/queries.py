"""How many tokens of each sequence did a forward process? Read off the embedding's index shape."""

from __future__ import annotations

import numpy as np

from decodeprof.model.trace import NONE, Trace


class QueryLengths:
    """Looks up query lengths by host time."""

    def __init__(self, trace: Trace) -> None:
        wanted = {i for i, name in enumerate(trace.names) if name == "aten::embedding"}
        rows = np.flatnonzero(np.isin(trace.ops.name, list(wanted)))
        rows = rows[trace.ops.detail[rows] != NONE]
        self._starts = trace.ops.start_ns[rows]
        self._lengths = [self._length(trace, int(d)) for d in trace.ops.detail[rows]]

    @staticmethod
    def _length(trace: Trace, detail: int) -> int | None:
        shapes = trace.op_details[detail].shapes
        # aten::embedding(weight, indices): indices are (batch, query) or (query,).
        indices = shapes[1] if len(shapes) > 1 else None
        return indices[-1] if indices else None

    def within(self, start_ns: int, end_ns: int) -> int | None:
        """The first embedding's query length in [start, end); None: none was recorded there."""
        at = int(np.searchsorted(self._starts, start_ns))
        if at < len(self._starts) and self._starts[at] < end_ns:
            return self._lengths[at]
        return None
