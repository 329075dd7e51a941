"""How many launches does this piece of code make? Counted by torch.profiler, in all threads."""

from __future__ import annotations

import tempfile
from collections import Counter
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

import numpy as np

from decodeprof import mark, units
from decodeprof.analysis.nesting import nest
from decodeprof.errors import DecodeprofError
from decodeprof.ingest.read import read_trace
from decodeprof.model.calls import CallKind
from decodeprof.model.trace import I64, Trace
from decodeprof.testing.backend import Profiled, backend

_MOST_OPS = 5
"""Operators named in a failure: those that launch most."""
Step = int | Literal["each"] | None


class TooManyLaunches(AssertionError):
    """A piece of code launched more than it may."""


class CouldNotCount(DecodeprofError):
    """Launches could not be counted, which is not the same as few."""


@dataclass(frozen=True)
class Launches:
    """Launches within a range of time."""

    kernels: int
    graphs: int
    ops: tuple[tuple[str, int], ...]
    """The operators that made most of them."""

    @property
    def total(self) -> int:
        """Both kinds: each is one call of the host."""
        return self.kernels + self.graphs


class max_launches:
    """Fail when the code inside makes more launches than it may, as a context manager.

    Kernel launches and graph launches count alike; copies and sets do not. torch.profiler runs
    meanwhile, and its GPU library stays attached to the process afterwards: time nothing in the
    same process later.

    Args:
        limit: how many launches there may be.
        step: None: of all that is inside; "each": of each decode step that `decodeprof.step()`
            marks inside; a number: of that decode step, counted from 0.

    Raises:
        TooManyLaunches: on leaving, if there were more. An error raised inside goes first.
        CouldNotCount: on leaving, if the profiler saw no launch at all, or no such step is marked.
        CannotWatch: on entering, without a CUDA device; test runners take it for a skip.
    """

    def __init__(self, limit: int, *, step: Step = None) -> None:
        if type(limit) is not int or limit < 0:
            raise ValueError(f"the limit is a number of launches, not {limit!r}")
        if not (step is None or step == "each" or (type(step) is int and step >= 0)):
            raise ValueError(f'step is None, "each" or a number from 0, not {step!r}')
        self._limit = limit
        self._step = step
        self._profiling: AbstractContextManager[None] | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._profiled: Profiled | None = None

    def __enter__(self) -> Self:
        """Start the profiler."""
        __tracebackhide__ = True
        if self._profiling is not None:
            raise RuntimeError("this max_launches is open already; make one for each block")
        found = backend()
        folder = tempfile.TemporaryDirectory()
        profiled = Profiled(Path(folder.name))
        try:
            profiling = found.profiling(profiled)
            profiling.__enter__()
        except BaseException:  # Whatever it is goes on; the folder must not stay.
            folder.cleanup()
            raise
        self._profiling, self._folder, self._profiled = profiling, folder, profiled
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop the profiler, count, and fail if there was too much."""
        __tracebackhide__ = True
        assert self._profiling is not None
        assert self._folder is not None
        assert self._profiled is not None
        profiling, self._profiling = self._profiling, None
        with self._folder:
            profiling.__exit__(kind, error, trace)
            if kind is not None:
                return
            recorded = read_trace(self._profiled.traces[0])
        for what, launches in counted(recorded, step=self._step):
            if launches.total > self._limit:
                raise TooManyLaunches(_told(what, launches, limit=self._limit))


def counted(trace: Trace, *, step: Step) -> list[tuple[str, Launches]]:
    """The launches of the region, or of the steps in it that were asked for, each with its name.

    Raises:
        CouldNotCount: the profiler saw no launch at all, or there is no such step.
    """
    starts, ends = _ranges(trace, mark.THROWAWAY)
    if not len(starts) or not _within(trace, starts[0], ends[0]).total:
        raise CouldNotCount(
            "launches could not be counted",
            why="the profiler did not even see the one launch that was made to try it: its GPU "
            "library (CUPTI) did not deliver",
            hint="`decodeprof doctor` says whether it works here",
        )
    if step is None:
        [start], [end] = _ranges(trace, mark.CALL)
        return [("", _within(trace, start, end))]
    starts, ends = _ranges(trace, mark.STEP)
    wanted = range(len(starts)) if step == "each" else [int(step)]
    if not wanted or wanted[-1] >= len(starts):
        raise CouldNotCount(
            "launches of a step could not be counted" if step == "each" else f"no step {step}",
            why=f"{units.counted(len(starts), 'decode step is', 'decode steps are')} marked inside",
            hint="mark each step of the loop: `with decodeprof.step(): ...`",
        )
    return [(f" in decode step {i}", _within(trace, starts[i], ends[i])) for i in wanted]


def _ranges(trace: Trace, name: str) -> tuple[I64, I64]:
    """Starts and ends of the marks of a name, in order; of steps, the decode steps alone."""
    rows = []
    for row, text in enumerate(trace.annotations.name.tolist()):
        parsed = mark.parse(trace.names[text])
        if parsed is not None and parsed[0] == name and parsed[1].get("phase") != "prefill":
            rows.append(row)
    return trace.annotations.start_ns[rows], trace.annotations.end_ns[rows]


def _within(trace: Trace, start_ns: np.int64, end_ns: np.int64) -> Launches:
    calls = trace.calls
    inside = (calls.start_ns >= start_ns) & (calls.start_ns < end_ns)
    kernels = np.flatnonzero(inside & (calls.kind == CallKind.LAUNCH))
    graphs = int((inside & (calls.kind == CallKind.GRAPH_LAUNCH)).sum())
    nesting = nest(trace)
    ops = Counter(nesting.op_name(trace, row) or "outside of any op" for row in kernels.tolist())
    most = sorted(ops.items(), key=lambda each: (-each[1], each[0]))[:_MOST_OPS]
    return Launches(len(kernels), graphs, tuple(most))


def _told(what: str, launches: Launches, *, limit: int) -> str:
    kinds = (
        units.counted(launches.kernels, "kernel launch", "kernel launches"),
        units.counted(launches.graphs, "graph launch", "graph launches"),
    )
    total = units.counted(launches.total, "launch", "launches")
    text = [f"{total}{what}, {limit:,} allowed: {' and '.join(kinds)}"]
    return "\n".join([*text, *(f"  {n:,} by {op}" for op, n in launches.ops)])
