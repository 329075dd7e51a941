"""No step of ping-pong reads what another stream may still be writing, by torch's own rules.

The streams are stand-ins, since a CPU has none: they tell torch's stream sanitizer what real ones
would, and it judges every operation that the loop really runs. What the allocator does is not
played: every tensor is kept, so that no address is used twice.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.cuda._sanitizer import ArgumentHandler, EventHandler
from torch.utils._python_dispatch import TorchDispatchMode

from decodeprof.reference.hf_story import ping_pong, variants
from decodeprof.reference.hf_story.gpt2 import prompt, setup

CALLER = 0
NEW = 6


class Arguments(ArgumentHandler):
    """Takes note of CPU tensors, as the sanitizer does of CUDA tensors."""

    def _handle_argument(
        self,
        value: Any,
        is_write: bool,
        metadata_only: bool,
        name: str | None = None,
        is_output: bool = False,
    ) -> None:
        if not isinstance(value, torch.Tensor):
            return
        address = value.data_ptr() or id(value)
        self.tensor_aliases.setdefault(address, []).append(name or "output")
        if is_write:
            self.dataptrs_written.add(address)
        elif not metadata_only:
            self.dataptrs_read.add(address)
        if is_output:
            self.outputs.add(address)


class Machine(TorchDispatchMode):
    """Streams and events that only tell the sanitizer, and every operation told to it as well."""

    def __init__(self) -> None:
        super().__init__()
        self.judge = EventHandler()
        self.current = Stream(self, CALLER)
        self.numbers = itertools.count(1)
        self.on_host: set[int] = set()
        self.races: list[Any] = []
        self.operations: list[int] = []
        self._kept: list[Any] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        arguments = Arguments()
        arguments.parse_inputs(func._schema, args, kwargs or {}, is_factory=False)
        made = func(*args, **(kwargs or {}))
        arguments.parse_outputs(func._schema, made, is_factory=False)
        self._kept.append(made)
        self.operations.append(self.current.number)
        written = arguments.dataptrs_written - self.on_host
        self.races += self.judge._handle_kernel_launch(
            self.current.number,
            arguments.dataptrs_read - written - self.on_host,
            written,
            arguments.outputs,
            func._schema,
            arguments.tensor_aliases,
        )
        return made

    @contextlib.contextmanager
    def on(self, stream: Stream) -> Iterator[None]:
        before, self.current = self.current, stream
        yield
        self.current = before


class Event:
    def __init__(self, machine: Machine) -> None:
        self.machine, self.number = machine, next(machine.numbers)
        machine.judge._handle_event_creation(self.number)

    def record(self, stream: Stream | None = None) -> None:
        on = stream or self.machine.current
        self.machine.judge._handle_event_record(self.number, on.number)

    def synchronize(self) -> None:
        self.machine.judge._handle_event_synchronization(self.number)


class Stream:
    def __init__(self, machine: Machine, number: int) -> None:
        self.machine, self.number = machine, number
        machine.judge._handle_stream_creation(number)

    def wait_event(self, event: Event) -> None:
        self.machine.judge._handle_event_wait(event.number, self.number)

    def wait_stream(self, other: Stream) -> None:
        event = Event(self.machine)
        event.record(other)
        self.wait_event(event)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine()

    class Side(ping_pong._Side):
        def __init__(self, rows: int, device: torch.device) -> None:
            super().__init__(rows, device)
            machine.on_host.add(self.flags.data_ptr())

    monkeypatch.setattr(ping_pong, "_Side", Side)
    monkeypatch.setattr(ping_pong, "_has_streams", lambda _device: True)
    monkeypatch.setattr(torch.cuda, "Event", lambda: Event(machine))
    monkeypatch.setattr(torch.cuda, "Stream", lambda: Stream(machine, next(machine.numbers)))
    monkeypatch.setattr(torch.cuda, "stream", machine.on)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: machine.current)
    return machine


def made_by(machine: Machine) -> list[list[int]]:
    model = setup()
    with machine:
        rows = ping_pong.ping_pong(model, prompt(model, 2), NEW)
    return rows.tolist()


needs_cpu = pytest.mark.skipif(torch.cuda.is_available(), reason="the streams here are real ones")


@needs_cpu
def test_no_access_is_unordered(machine: Machine) -> None:
    expected = variants.no_cache(NEW, 2)
    assert made_by(machine) == expected
    assert machine.races == []
    steps = [number for number, _ in itertools.groupby(machine.operations)]
    sides = [number for number in steps if number != CALLER]
    assert len(set(sides)) == 2
    assert len(sides) >= NEW, "every step runs on a side"


@needs_cpu
@pytest.mark.parametrize("missing", ["wait_for_caller", "wait_for_step_of", "caller_waits"])
def test_each_wait_is_needed(
    missing: str, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ping_pong._Side, missing, lambda *_: None)
    made_by(machine)
    assert machine.races


@needs_cpu
def test_later_work_on_the_sides_runs_behind_the_last_reader(machine: Machine) -> None:
    made_by(machine)
    states = machine.judge.syncs.current_sync_states
    last = states[CALLER]
    for number in set(machine.operations):
        assert all(states[number][other] >= last[other] for other in set(machine.operations))
