"""Streams and events of a GPU that is not there: they order nothing, and waits are told of."""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch

from decodeprof.capture.waiting import Wait
from decodeprof.lint.mode import PretendMode
from decodeprof.lint.whereabouts import resolved

EXPLICIT = "the program asks to wait"
_ASKS = "the program asks whether the device is done"


class PretendStream:
    """Stands for `torch.cuda.Stream`: everything runs in program order anyway."""

    mode: ClassVar[PretendMode]
    _ids: ClassVar[Any] = itertools.count(1)

    def __init__(self, device: Any = None, priority: int = 0, **_rest: Any) -> None:
        self.device = torch.device("cuda", 0) if device is None else resolved(device)
        self.priority = priority
        self.stream_id = self.cuda_stream = next(self._ids)
        self._before: list[PretendStream] = []

    def synchronize(self) -> None:
        """Wait for what was launched on this stream."""
        self.mode.waited("torch.cuda.Stream.synchronize", Wait(EXPLICIT))

    def query(self) -> bool:
        """Whether all work is done: it always is."""
        self.mode.refused("torch.cuda.Stream.query", _ASKS)
        return True

    def wait_stream(self, stream: Any) -> None:
        """Let this stream wait for another one: the host does not."""

    def wait_event(self, event: Any) -> None:
        """Let this stream wait for an event: the host does not."""

    def record_event(self, event: Any = None) -> Any:
        """Record an event here."""
        event = type(self).event_class()() if event is None else event
        event.record(self)
        return event

    @classmethod
    def event_class(cls) -> Any:
        """The class of events that belongs to this class of streams."""
        return torch.cuda.Event

    def __enter__(self) -> Self:
        self._before.append(torch.cuda.current_stream())  # type: ignore[arg-type]
        torch.cuda.set_stream(self)  # type: ignore[arg-type]
        return self

    def __exit__(self, *_: object) -> None:
        torch.cuda.set_stream(self._before.pop())  # type: ignore[arg-type]


class PretendEvent:
    """Stands for `torch.cuda.Event`."""

    mode: ClassVar[PretendMode]

    def __init__(self, enable_timing: bool = False, *_rest: Any, **_more: Any) -> None:
        self.device = torch.device("cuda", 0)
        self.cuda_event = id(self)
        self._timed = enable_timing
        self._at = 0.0
        self._recorded = False

    def record(self, _stream: Any = None) -> None:
        """Note the time."""
        self._at = time.perf_counter()
        self._recorded = True

    def wait(self, stream: Any = None) -> None:
        """Let a stream wait: the host does not."""

    def query(self) -> bool:
        """Whether it came: it always did."""
        self.mode.refused("torch.cuda.Event.query", _ASKS)
        return True

    def synchronize(self) -> None:
        """Wait for it."""
        self.mode.waited("torch.cuda.Event.synchronize", Wait(EXPLICIT))

    def elapsed_time(self, end_event: PretendEvent) -> float:
        """Milliseconds between two events, by the host's clock."""
        if not (self._timed and end_event._timed):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        return (end_event._at - self._at) * 1e3


@dataclass(frozen=True)
class Classes:
    """Classes of streams and events, as torch names them."""

    stream: Any
    """`torch.cuda.Stream`; an `any_stream`, as there."""
    external: Any
    """`torch.cuda.ExternalStream`"""
    event: Any
    """`torch.cuda.Event`"""
    any_stream: Any
    """`torch.Stream`"""
    any_event: Any
    """`torch.Event`, which is given a device first."""


def classes_for(mode: PretendMode) -> Classes:
    """Classes whose waits are told to `mode`, and to no other run's."""
    any_stream: Any = type("Stream", (PretendStream,), {"mode": mode})
    stream = type("Stream", (any_stream,), {})
    event: Any = type("Event", (PretendEvent,), {"mode": mode})

    def external(self: Any, _pointer: int, device: Any = None, **_rest: Any) -> None:
        any_stream.__init__(self, device)

    def on_device(self: Any, _device: Any = None, **rest: Any) -> None:
        event.__init__(self, **rest)

    return Classes(
        stream=stream,
        external=type("ExternalStream", (stream,), {"__init__": external}),
        event=event,
        any_stream=any_stream,
        any_event=type("Event", (event,), {"__init__": on_device}),
    )
