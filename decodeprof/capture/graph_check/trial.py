"""One call of the target in which its step is captured, replayed on two inputs, and replaced.

All of it happens inside the target's own loop, so that the step has its true state, inputs and
surroundings (no_grad, autocast, the current device). At one decode step the state is kept and the
step captured; its replay must leave what the step itself leaves. At the next step, with other
inputs and another state, it must again: a Python value that was baked in shows there. From then on
each step is replaced by a replay, and the loop is timed.
"""

from __future__ import annotations

import copy
import inspect
import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from decodeprof.capture.graph_check.capturing import (
    capturing,
    first_error,
    pool_bytes,
    sum_up,
    time_alone,
    time_replays,
)
from decodeprof.capture.graph_check.device_state import Saved, WriteWatch
from decodeprof.capture.graph_check.python_state import Snapshot, roots_of
from decodeprof.capture.graph_check.values import differences, kept, leaves, replaced
from decodeprof.capture.op_record import storage_number
from decodeprof.capture.places import Places
from decodeprof.capture.timing import new_event
from decodeprof.model.graph_check import Attempt, Difference, PythonChange

WARM_UP_STEPS = 3
"""As PyTorch's own notes ask for: libraries make handles and workspaces, kernels are compiled."""
_TIMES_ALONE = 10
_TIMES_REPLAYED = 20
_NS_PER_MS = 1_000_000
_NOT_REPEATABLE = (
    "the step run twice from the same state gave two results: it changes something that could not "
    "be put back (memory written by a kernel outside PyTorch's operators, an iterator, or a file)"
)

Step = Callable[..., Any]


class TrialOver(BaseException):
    """Ends a call of the target from inside: nothing more is to be learnt from it."""


@dataclass
class StepClock:
    """When each call of the step began, on the device."""

    events: list[Any] = field(default_factory=list)

    def stamp(self) -> None:
        """A call begins."""
        event = new_event()
        event.record()
        self.events.append(event)

    def between_ns(self, first: int) -> list[int]:
        """From each call's begin to the next one's, from the call `first` on; all have run."""
        events = self.events[first:]
        return [round(a.elapsed_time(b) * _NS_PER_MS) for a, b in itertools.pairwise(events)]


@dataclass
class _Ran:
    """What the step itself did from a state: its result, and what it left in memory."""

    output: dict[str, Any]
    state: dict[int, Tensor]
    changes: list[PythonChange]


@dataclass
class Trial:
    """Stands in for the step during one call of the target.

    Args:
        at: the call of the step, from 0, at which it is captured.
        places: names places.
        bucket: as it stands in the result.
        on_news: told of the result as it stands, after each thing that was learnt.
    """

    at: int
    places: Places
    bucket: str
    on_news: Callable[[Attempt], None]
    result: Attempt = field(init=False)
    clock: StepClock = field(default_factory=StepClock)
    calls: int = 0

    def __post_init__(self) -> None:
        self.result = Attempt(bucket=self.bucket)
        self._storages: dict[str, int] = {}
        self._buffers: dict[str, Tensor] = {}
        self._scalars: dict[str, Any] = {}
        self._graph: Any = None
        self._output: Any = None
        self._saved = Saved()
        self._names: dict[int, str] = {}

    def learn(self, **fields: Any) -> None:
        """Add to the result."""
        known = {name: getattr(self.result, name) for name in self.result.__struct_fields__}
        self.result = Attempt(**(known | fields))
        self.on_news(self.result)

    def __call__(self, step: Step, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The step is called."""
        index = self.calls
        self.calls += 1
        if index < self.at - 1:
            return step(*args, **kwargs)
        named = _named(step, args, kwargs)
        if index == self.at - 1:
            self._storages = _storages(named)
        elif index == self.at:
            self._capture(step, args, kwargs)
        elif index == self.at + 1:
            self._second_input(step, args, kwargs)
        elif self.result.matches:
            self.clock.stamp()
            return self._replay(named)
        return step(*args, **kwargs)

    def _replay(self, named: dict[str, Any]) -> Any:
        """The step as a graph: its inputs into their buffers, one launch."""
        self._fill(named)
        self._graph.replay()
        # The loop may take things out of a dict that it is given; tensors are never copied.
        return copy.copy(self._output) if isinstance(self._output, dict) else self._output

    def _fill(self, named: dict[str, Any]) -> None:
        if not self._buffers:
            return
        for name, value in leaves(named):
            buffer = self._buffers.get(name)
            if buffer is not None and isinstance(value, Tensor):
                buffer.copy_(value, non_blocking=True)

    def _capture(self, step: Step, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        named = _named(step, args, kwargs)
        self._set_buffers(named)
        snapshot = Snapshot.take(roots_of(step, named))
        first, again, repeats = self._learn_state(step, args, kwargs, snapshot)
        self.learn(python_changes=first.changes, state_bytes=self._saved.bytes)
        run = self._on_buffers(step, named, len(args))
        if not self._captured(run, snapshot):
            raise TrialOver
        if not repeats:
            self.learn(why_unknown=_NOT_REPEATABLE)
            raise TrialOver
        self._fill(named)
        wrong = self._compare(first, again, input_number=1)
        self._put_back(snapshot)
        self.learn(differences=wrong)
        self._time_alone(lambda: step(*args, **kwargs), snapshot)
        self._put_back(snapshot)

    def _set_buffers(self, named: dict[str, Any]) -> None:
        """Tensors that come at a new place each step get one that stays; plain values are noted."""
        now = _storages(named)
        for name, value in leaves(named):
            if not isinstance(value, Tensor):
                self._scalars[name] = value
            elif value.device.type == "cuda" and self._storages.get(name) != now[name]:
                self._buffers[name] = value.detach().clone()
        self.learn(
            static_inputs=list(self._buffers),
            static_input_bytes=sum(each.nbytes for each in self._buffers.values()),
        )

    def _on_buffers(self, step: Step, named: dict[str, Any], positional: int) -> Callable[[], Any]:
        given = replaced(named, self._buffers)
        # In the order in which they were given: the positional ones first.
        names = list(given)
        values = [given[name] for name in names[:positional]]
        rest = {name: given[name] for name in names[positional:]}
        return lambda: step(*values, **rest)

    def _learn_state(
        self, step: Step, args: tuple[Any, ...], kwargs: dict[str, Any], snapshot: Snapshot
    ) -> tuple[_Ran, _Ran, bool]:
        """Run the step twice from the same state; whether that gave the same twice.

        Where it did not, all tensors that can be reached are put back as well: a kernel that does
        not go through PyTorch's operators may write to one.
        """
        reached = snapshot.tensors()
        self._names = {storage_number(each): name for name, each in reached.items()}
        for extra in ([], list(reached.values())):
            with WriteWatch(extra) as watch:
                step(*args, **kwargs)
            self._saved = watch.saved
            self._put_back(snapshot)
            runs = [self._run(step, args, kwargs, snapshot) for _ in range(2)]
            wrong = self._wrong(runs[0], runs[1], runs[0], input_number=1)
            if not wrong:
                break
        return runs[0], runs[1], not wrong

    def _run(
        self, step: Step, args: tuple[Any, ...], kwargs: dict[str, Any], snapshot: Snapshot
    ) -> _Ran:
        """The step itself, and everything as it was again."""
        output = kept(step(*args, **kwargs))
        ran = _Ran(output, self._saved.now(), snapshot.changes())
        self._put_back(snapshot)
        return ran

    def _put_back(self, snapshot: Snapshot) -> None:
        self._saved.put_back()
        snapshot.put_back()

    def _captured(self, run: Callable[[], Any], snapshot: Snapshot) -> bool:
        """Warm up on a side stream, and capture; what was refused is in the result."""
        torch.cuda.synchronize()
        begin = time.perf_counter()
        phase = "warm-up"
        try:
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for _ in range(WARM_UP_STEPS):
                    run()
                    self._put_back(snapshot)
            torch.cuda.current_stream().wait_stream(side)
            phase = "capture"
            graph, pool = torch.cuda.CUDAGraph(), torch.cuda.graph_pool_handle()
            with capturing(graph, pool):
                self._output = run()
        # The user's step: it may raise anything, and the first of it is reported.
        except Exception as error:
            snapshot.put_back()
            told = first_error(error, phase=phase, places=self.places)
            self.learn(captured=False, error=told)
            return False
        torch.cuda.synchronize()
        seconds = round(time.perf_counter() - begin, 4)
        self._graph = graph
        snapshot.put_back()
        self.learn(captured=True, capture_seconds=seconds, pool_bytes=pool_bytes(pool))
        return True

    def _compare(self, first: _Ran, again: _Ran, *, input_number: int) -> list[Difference]:
        """Replay from the state that is kept, and see what it leaves."""
        self._graph.replay()
        torch.cuda.synchronize()
        got = _Ran(kept(self._output), self._saved.now(), [])
        return self._wrong(first, got, again, input_number=input_number)

    def _wrong(self, one: _Ran, two: _Ran, again: _Ran, *, input_number: int) -> list[Difference]:
        return [
            *differences(
                one.output,
                two.output,
                again.output,
                kind="output",
                input_number=input_number,
                name_of=lambda name: name or "the result",
            ),
            *differences(
                one.state,
                two.state,
                again.state,
                kind="state",
                input_number=input_number,
                name_of=lambda number: self._names.get(number, "a tensor that the step updates"),
            ),
        ]

    def _time_alone(self, run: Callable[[], Any], snapshot: Snapshot) -> None:
        def back() -> None:
            self._put_back(snapshot)

        alone = time_alone(run, between=back, times=_TIMES_ALONE)
        device, host = time_replays(self._graph, between=back, times=_TIMES_REPLAYED)
        self.learn(alone_before=sum_up(alone), graph_device=sum_up(device), graph_host=sum_up(host))

    def _second_input(self, step: Step, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        named = _named(step, args, kwargs)
        changed = self._changed_inputs(named)
        self.learn(changed_inputs=changed)
        snapshot = Snapshot.take(roots_of(step, named))
        # What the graph writes to stays what it was at the capture; the step may have moved on.
        captured_state = self._saved.again()
        with WriteWatch(captured_state.tensors.values()) as watch:
            step(*args, **kwargs)
        self._saved = watch.saved
        self._names |= {storage_number(t): name for name, t in snapshot.tensors().items()}
        self._put_back(snapshot)
        first, again = (self._run(step, args, kwargs, snapshot) for _ in range(2))
        try:
            self._fill(named)
            wrong = self._compare(first, again, input_number=2)
        except RuntimeError as error:
            told = first_error(error, phase="replay", places=self.places)
            self.learn(matches=False, error=told if not changed else None)
        else:
            wrong = [*self.result.differences, *wrong]
            self.learn(differences=wrong, matches=not wrong)
        self._put_back(snapshot)

    def _changed_inputs(self, named: dict[str, Any]) -> list[str]:
        found = []
        for name, value in leaves(named):
            buffer = self._buffers.get(name)
            if isinstance(value, Tensor):
                if buffer is not None and buffer.shape != value.shape:
                    shapes = tuple(buffer.shape), tuple(value.shape)
                    found.append(f"{name}: shape {shapes[0]} → {shapes[1]}")
            elif name in self._scalars and self._scalars[name] != value:
                found.append(f"{name}: {self._scalars[name]!r} → {value!r}")
        return found


def _named(step: Step, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments by name, the positional ones first."""
    try:
        kinds = inspect.Parameter
        names = [
            name
            for name, each in inspect.signature(step).parameters.items()
            if each.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)
        ]
    except (ValueError, TypeError):
        names = []
    names += [f"argument {index}" for index in range(len(names), len(args))]
    return dict(zip(names, args, strict=False)) | kwargs


def _storages(named: dict[str, Any]) -> dict[str, int]:
    return {
        name: storage_number(value) for name, value in leaves(named) if isinstance(value, Tensor)
    }
