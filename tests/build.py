"""Synthetic recordings with exact times, and the truth about them, known by construction.

A `TraceBuilder` is a host program and a simple device. The program works, dispatches ops, launches
and waits; each host thread has its own clock. The device starts an activity when its launch has
arrived (launch call's start + latency) and its stream is free; a wait ends when the device has
drained. `build` gives a `Scenario`: events in ns from the first one, and the truth about them.
Writers (`tests.write_kineto`, `tests.write_nsys`) turn a scenario into a file; they are apart, so
that every format
tells the same story.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TypeVar

from tests.scenario import MAIN_STREAM, MAIN_THREAD, Activity, Call, Range, Scenario, Wait

LATENCY_NS = 5_000
NODE_GAP_NS = 416
_E = TypeVar("_E", Activity, Call, Range, Wait)


@dataclass
class TraceBuilder:
    """A host program, written call by call; see the module's text."""

    latency_ns: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(("kernel", "copy", "set", "graph"), LATENCY_NS)
    )
    queue_gap_ns: int = 0
    """Idle time between two activities of a stream where the second one was queued."""
    correlation: int = 100
    thread: str = MAIN_THREAD
    now_ns: dict[str, int] = field(default_factory=dict)
    free_ns: dict[tuple[int, int], int] = field(default_factory=dict)
    """When each (device, stream) has done all it was given."""
    waiting: set[tuple[int, int]] = field(default_factory=set)
    activities: list[Activity] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    ops: list[Range] = field(default_factory=list)
    annotations: list[Range] = field(default_factory=list)
    frames: list[Range] = field(default_factory=list)
    waits: list[Wait] = field(default_factory=list)
    pauses: list[tuple[int, int]] = field(default_factory=list)
    steps: list[tuple[str, int]] = field(default_factory=list)
    _states: dict[str, list[tuple[int, int, str]]] = field(default_factory=dict)
    _open_ops: dict[str, list[int]] = field(default_factory=dict)
    _last_op: int = 0

    @property
    def now(self) -> int:
        """The current thread's clock."""
        return self.now_ns.get(self.thread, 0)

    def _advance(self, ns: int, state: str) -> tuple[int, int]:
        start = self.now
        self.now_ns[self.thread] = start + ns
        self._states.setdefault(self.thread, []).append((start, start + ns, state))
        return start, start + ns

    def work(self, ns: int) -> None:
        """Run Python, or inside an op the framework."""
        self._advance(ns, "dispatch" if self._open_ops.get(self.thread) else "python")

    def on(self, thread: str) -> None:
        """Go on as another host thread."""
        self.thread = thread

    def _external(self) -> int:
        return (self._open_ops.get(self.thread) or [0])[-1]

    @contextmanager
    def op(
        self,
        name: str,
        *,
        before_ns: int = 1_000,
        after_ns: int = 500,
        shapes: tuple[tuple[int, ...], ...] | None = None,
    ) -> Iterator[None]:
        """Run an op: framework work before and after what is in the block."""
        self._last_op += 1
        start, ident = self.now, self._last_op
        stack = self._open_ops.setdefault(self.thread, [])
        stack.append(ident)
        self.work(before_ns)
        yield
        self.work(after_ns)
        stack.pop()
        self.ops.append(Range(start, self.now, name, self.thread, ident, shapes))

    @contextmanager
    def annotation(self, name: str) -> Iterator[None]:
        """Name a range, as record_function does."""
        start = self.now
        yield
        self.annotations.append(Range(start, self.now, name, self.thread))

    @contextmanager
    def frame(self, name: str) -> Iterator[None]:
        """Be inside a Python function."""
        start = self.now
        yield
        self.frames.append(Range(start, self.now, name, self.thread))

    def step(self, phase: str = "decode") -> None:
        """Note for the truth that a step begins; the recording does not show it."""
        self.steps.append((phase, self.now))

    def _call(self, name: str, ns: int, *, driver: bool = False, blocks: bool = False) -> Call:
        self.correlation += 1
        start, end = self._advance(ns, "sync" if blocks else "launch")
        call = Call(
            start, end, name, self.thread, self.correlation, self._external(), blocks, driver
        )
        self.calls.append(call)
        return call

    def call(self, name: str, ns: int = 1_000, *, blocks: bool = False) -> Call:
        """Call an API that puts nothing on the device."""
        return self._call(name, ns, blocks=blocks)

    def _run(self, what: Activity, ns: int, *, latency: str, late_ns: int = 0) -> Activity:
        """Put the first activity of a launch on its stream."""
        assert what.call is not None
        place = (what.device, what.stream)
        arrival = what.call.start_ns + self.latency_ns[latency]
        free = self.free_ns[place] + self.queue_gap_ns if place in self.free_ns else arrival
        start = max(arrival + late_ns, free)
        done = replace(
            what,
            start_ns=start,
            end_ns=start + ns,
            arrival_ns=arrival,
            waited=place in self.waiting,
            correlation=what.call.correlation,
            external=what.call.external,
        )
        self.waiting.discard(place)
        self.free_ns[place] = done.end_ns
        self.activities.append(done)
        return done

    def launch(
        self,
        name: str,
        ns: int,
        *,
        call_ns: int = 2_000,
        api: str = "cudaLaunchKernel",
        device: int = 0,
        stream: int = MAIN_STREAM,
        late_ns: int = 0,
    ) -> Activity:
        """Launch a kernel of `ns`; `late_ns` delays its start beyond the latency floor."""
        call = self._call(api, call_ns, driver=api.startswith("cu") and not api.startswith("cuda"))
        what = Activity(0, 0, name, device=device, stream=stream, call=call)
        return self._run(what, ns, latency="kernel", late_ns=late_ns)

    def set(self, ns: int, *, call_ns: int = 2_000, size: int = 4) -> Activity:
        """Set device memory."""
        call = self._call("cudaMemsetAsync", call_ns)
        what = Activity(0, 0, "Memset (Device)", kind="set", call=call, bytes=size)
        return self._run(what, ns, latency="set")

    def copy(
        self,
        ns: int,
        *,
        name: str = "Memcpy DtoH (Device -> Pinned)",
        api: str = "cudaMemcpyAsync",
        call_ns: int = 3_000,
        size: int = 8,
        waits: bool = False,
        return_ns: int = 1_500,
        stream: int = MAIN_STREAM,
    ) -> Activity:
        """Enqueue a copy; one that waits returns `return_ns` after the copy is done."""
        begin = self.now
        if waits:
            free = self.free_ns.get((0, stream), -self.queue_gap_ns) + self.queue_gap_ns
            start = max(begin + self.latency_ns["copy"], free)
            call_ns = start + ns + return_ns - begin
        call = self._call(api, call_ns, blocks=waits)
        what = Activity(0, 0, name, kind="copy", stream=stream, call=call, bytes=size)
        return self._run(what, ns, latency="copy")

    def graph(
        self,
        nodes: Sequence[tuple[str, int]],
        *,
        call_ns: int = 10_000,
        gap_ns: int = NODE_GAP_NS,
        api: str = "cudaGraphLaunch",
        stream: int = MAIN_STREAM,
    ) -> list[Activity]:
        """Launch a graph of (name, ns) nodes, one after another."""
        call = self._call(api, call_ns)
        (name, ns), *rest = nodes
        first = Activity(0, 0, name, stream=stream, call=call, node=0)
        done = [self._run(first, ns, latency="graph")]
        for node, (name, ns) in enumerate(rest, start=1):
            start = done[-1].end_ns + gap_ns
            later = replace(done[-1], start_ns=start, end_ns=start + ns, name=name, node=node)
            done.append(later)
        self.activities += done[1:]
        self.free_ns[(0, stream)] = done[-1].end_ns
        return done

    def sync(
        self,
        api: str = "cudaStreamSynchronize",
        *,
        stream: int | None = None,
        device: int = 0,
        return_ns: int = 8_000,
        recorded: bool = False,
    ) -> Call:
        """Wait until a stream (None: the device) is done, and `return_ns` more."""
        ends = [
            end for (on, of), end in self.free_ns.items() if on == device and stream in (None, of)
        ]
        done = max([self.now, *ends])
        call = self._call(api, done + return_ns - self.now, blocks=True)
        if recorded:
            kind = "Stream Sync" if "Stream" in api else "Context Sync"
            on = -1 if stream is None else stream
            self.waits.append(Wait(call.start_ns, done, kind, on, call.correlation))
        return call

    def stream_wait(self, *, waiting: int, on: int, recorded: bool = False) -> None:
        """Make one stream of device 0 wait for all that another was given."""
        self._call("cudaEventRecord", 500)
        call = self._call("cudaStreamWaitEvent", 600)
        place = (0, waiting)
        self.free_ns[place] = max(self.free_ns.get(place, 0), self.free_ns.get((0, on), 0))
        self.waiting.add(place)
        if recorded:
            self.waits.append(
                Wait(call.start_ns, call.end_ns, "Stream Wait Event", waiting, call.correlation)
            )

    def unlinked(self, name: str, *, start_ns: int, ns: int) -> None:
        """A kernel whose launch was not recorded."""
        self.activities.append(Activity(start_ns, start_ns + ns, name, correlation=9))

    def build(self) -> Scenario:
        """The scenario, shifted so that its first event is at 0."""
        ranges = (self.ops, self.annotations, self.frames)
        events = [*self.activities, *self.calls, *self.waits, *itertools.chain(*ranges)]
        shift = min(event.start_ns for event in events)
        moved = {id(c): _moved(c, shift) for c in self.calls}
        activities = (
            replace(
                _moved(a, shift),
                call=None if a.call is None else moved[id(a.call)],
                arrival_ns=None if a.arrival_ns is None else a.arrival_ns - shift,
            )
            for a in self.activities
        )
        ops, annotations, frames = (tuple(_moved(r, shift) for r in table) for table in ranges)
        return Scenario(
            activities=tuple(activities),
            calls=tuple(moved[id(c)] for c in self.calls),
            ops=ops,
            annotations=annotations,
            frames=frames,
            waits=tuple(_moved(w, shift) for w in self.waits),
            pauses=tuple((a - shift, b - shift) for a, b in self.pauses),
            states={
                thread: tuple((a - shift, b - shift, state) for a, b, state in states)
                for thread, states in self._states.items()
            },
            latency_ns=dict(self.latency_ns),
            steps=tuple((phase, at - shift) for phase, at in self.steps),
            shift_ns=shift,
        )


def _moved(event: _E, shift_ns: int) -> _E:
    return replace(event, start_ns=event.start_ns - shift_ns, end_ns=event.end_ns - shift_ns)
