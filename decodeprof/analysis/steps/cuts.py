"""What does a rule that finds steps return? Host times at which steps begin."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from decodeprof.model.trace import Trace

Phase = Literal["prefill", "decode", "other"]
Method = Literal["marks", "yields", "forwards", "graph", "sequence", "loop", "annotation", "none"]

_TRAINING = ("autograd::", "Optimizer.", "AccumulateGrad", "Backward0", "CompiledFunctionBackward")


@dataclass(frozen=True)
class Cut:
    """One step as a rule found it."""

    start_ns: int
    """Host time at which it begins."""
    phase: Phase
    query_length: int | None = None
    end_ns: int | None = None
    """Host time at which it ends; None: where the next one begins."""


@dataclass(frozen=True)
class Cuts:
    """All steps that one rule found, in order of time."""

    method: Method
    text: str
    """The rule, as a sentence."""
    cuts: tuple[Cut, ...]
    end_ns: int
    """Host time at which the last step ends."""
    thread: int | None = None
    """Steps hold the launches of this thread only; None: of all threads."""
    single: bool = False
    """One step alone is known: never steady."""


@dataclass(frozen=True)
class Period:
    """A repetition of device activities that nothing shows to be a step."""

    activities: int
    count: int


@dataclass(frozen=True)
class Context:
    """What a rule may know beside the trace."""

    new_tokens: int | None = None
    notes: list[str] = field(default_factory=list)
    """Rules add what they noticed."""


def is_training(trace: Trace) -> bool:
    """Whether autograd or an optimizer ran: its repetitions are no decode steps."""
    used = {int(i) for i in set(trace.ops.name.tolist()) | set(trace.annotations.name.tolist())}
    return any(mark in trace.names[i] for i in used for mark in _TRAINING)


def host_end(trace: Trace) -> int:
    """The last time at which a launching or blocking call of the trace began, plus one."""
    return int(trace.calls.start_ns.max()) + 1 if len(trace.calls) else 0
