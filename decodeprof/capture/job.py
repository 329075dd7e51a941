"""What is asked of a recording, and what does the recording process say while it works?

These types pass between the process that the user started, which never imports torch, and the
child that runs the target. They travel as JSON, one message a line.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from decodeprof.errors import TargetError


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """One recording, as the user asked for it."""

    target: str
    """``script.py:name``, ``package.module:name``, or either with ``Class.method``."""
    args: list[str] = []
    """``name=JSON`` or ``name=@attribute_of_the_script`` each."""
    setup: str | None = None
    """A function of the script, run once and untimed, that makes arguments or the instance."""
    new_tokens: int | None = None
    """Tokens of one call for each sequence, where the target does not show it."""
    timeout_s: float = 900.0
    """The whole recording is stopped after so long: a target may never return."""
    budget_s: float = 20.0
    """Time for the unprofiled timing, after which it stops even if the samples still spread."""
    device: str | None = None
    """None: as the target chooses; ``cpu`` hides the GPUs; ``cuda:1`` shows that one alone."""
    profile_steps: int | None = None
    """Decode steps under torch.profiler; None: chosen from the step's length."""
    nsys: bool = False
    """Once more under `nsys profile`, in a process of its own."""
    graph_check: bool = False
    """Capture the decode step as a CUDA graph as well, in a process of its own."""
    step: str | None = None
    """For graph-check: the function that is the step; None: the decode forward."""
    buckets: list[str] = []
    """For graph-check: ``argument=1,2,4``, values that are captured for, one after the other."""
    varied: str | None = None
    """For a sweep: the argument that is its axis; no pass gives it another value."""


class Progress(msgspec.Struct, frozen=True, kw_only=True, tag="progress"):
    """Where a recording stands."""

    pass_name: str
    """As in `decodeprof.recording.PassReport`, or ``load`` before the first pass."""
    text: str
    fraction: float | None = None
    """Of this pass, 0 to 1; None: cannot be told."""


class Failed(msgspec.Struct, frozen=True, kw_only=True, tag="failed"):
    """The child gave up."""

    what: str
    why: str = ""
    hint: str = ""
    asked_wrongly: bool = False
    message: str = ""
    """What was raised, in its own words; part of `why`."""


class Finished(msgspec.Struct, frozen=True, kw_only=True, tag="finished"):
    """All passes were tried."""

    graphs_captured_in: str | None = None
    """import | setup | call: the earliest phase in which a CUDA graph was captured."""
    no_gpu_activity: bool = False
    """A GPU is there, and this process ran nothing on it."""


Message = Progress | Failed | Finished


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """What the parent writes to the child's stdin."""

    job: Job
    out: str
    mode: str = "record"
    """record | first_call: all passes, or the first call alone under the profiler."""
    profile_from: str = "call"
    """For first_call: import | setup | call, where the profiler starts."""
    default_device: str | None = None
    """For lint: where what names no device is made; None: as the target says."""


class RecordingStopped(TargetError):
    """A recording that ended early.

    Attributes:
        directory: holds what had been recorded; none: nothing was.
        message: what the target raised, in its own words, of one or more lines; may be empty.
    """

    def __init__(
        self,
        what: str,
        *,
        why: str = "",
        hint: str = "",
        directory: Path | None = None,
        message: str = "",
    ) -> None:
        super().__init__(what, why=why, hint=hint)
        self.directory = directory
        self.message = message
