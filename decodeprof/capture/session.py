"""What do the passes of one recording share?"""

from __future__ import annotations

import contextlib
import time
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import torch

from decodeprof.capture.calibration import GapProbe
from decodeprof.capture.channel import Channel
from decodeprof.capture.compiled import CompileWatch
from decodeprof.capture.failure import explain
from decodeprof.capture.hooks import ModuleHooks, ProfilerWatch
from decodeprof.capture.invoke import Caller
from decodeprof.capture.job import Job
from decodeprof.capture.load import Target, UserCodeFailed
from decodeprof.capture.places import Places
from decodeprof.capture.timing import Stamps
from decodeprof.capture.tokens import Returned
from decodeprof.capture.watch import Listener, Watch
from decodeprof.recording import PassReport, Recording, write_recording

_NS_PER_S = 1_000_000_000
SETTLE_SECONDS = 1.5
"""Of work before what is timed or profiled: after 0.5 s of matrix products the clocks of an H200
were 10 % below their first ones, and after 1.5 s they fell no further."""
PHASES = ("import", "setup", "call")


@dataclass
class Watches:
    """All that is connected to torch before the script is imported."""

    steps: Watch
    modules: ModuleHooks
    profilers: ProfilerWatch
    compiled: CompileWatch
    captured_in: list[str] = field(default_factory=list)
    """The phase of each capture of a CUDA graph: import | setup | call."""
    phase: str = "import"


@dataclass(frozen=True)
class Called:
    """One call of the target."""

    returned: Returned
    values: dict[str, Any]
    """Its arguments."""
    elapsed_ns: int
    """Until the device had run everything."""
    began_at: tuple[int, Any]
    """Host time, and an event on the device."""
    returned_at: tuple[int, Any]
    """The same when it returned."""
    drained_ns: int
    """Host time at which the device had run everything."""


@dataclass
class Session:
    """The recording that grows from pass to pass, and what it takes to call the target."""

    job: Job
    out: Path
    channel: Channel
    places: Places
    watches: Watches
    caller: Caller
    target: Target
    recording: Recording
    on_device: bool = False
    calls: int = 0
    last_call_seconds: float = 0.0
    steps: int = 0
    """Boundaries of one whole call."""
    other_threads: bool = False
    """Boundaries came from a thread that is not the caller's."""
    token_parameter: str | None = None
    """The argument that says how many tokens to make, where it was found."""
    varies: bool = False
    """Fewer tokens gave as many steps fewer: the parameter may be varied."""
    graphs_captured_in: str | None = None
    """import | setup | call: the earliest phase in which the target captured a CUDA graph."""
    gap_probe: GapProbe | None = None
    """Tells how the node gap changes from pass to pass, once the ceilings are measured."""
    replays: int = 0
    """Of CUDA graphs, in the target's calls; the ceilings' own graphs are none of its."""
    no_gpu_activity: bool = False
    """A GPU was set up, and the profiled call launched nothing on it."""
    loop_after_prefill: bool = False
    """Steps are a loop's iterations or marks, and the prefill comes before the first of them."""
    first_forward_gives_token: bool = False
    """Every outermost call begins a step, so that the first one's end is the first token."""

    def call(
        self,
        listener: Listener | None = None,
        *,
        keep_items: bool = False,
        override: dict[str, Any] | None = None,
        around: AbstractContextManager[None] | None = None,
    ) -> Called:
        """Call the target once, to its end.

        Args:
            listener: told of each boundary.
            keep_items: keep what a generator yields.
            override: arguments that replace the given ones.
            around: entered for the target's own time alone, without the waits before and after.

        Raises:
            UserCodeFailed: the target raised, or exited, or was interrupted.
        """
        values = self.target.arguments.build(override=override)
        watch = self.watches.steps
        self.drain()
        self.calls += 1
        watch.reset()
        watch.listener = listener
        if self.loop_after_prefill:
            watch.loop()
        replays = watch.replays
        clock = Stamps(self.on_device)
        began_at = clock.now()
        try:
            with around or contextlib.nullcontext():
                returned = self.caller.call(
                    lambda: self.target.arguments.call(self.target.function, values),
                    keep_items=keep_items,
                )
            returned_at = clock.now()
            self.drain()
        # User code: it may raise or exit in any way, and all of it is reported.
        except BaseException as error:
            raise UserCodeFailed(error, during=f"in call {self.calls}") from error
        finally:
            watch.listener = None
            self.replays += watch.replays - replays
        drained_ns = time.perf_counter_ns()
        elapsed_ns = drained_ns - began_at[0]
        self.last_call_seconds = elapsed_ns / _NS_PER_S
        return Called(returned, values, elapsed_ns, began_at, returned_at, drained_ns)

    def settle(self, *, override: dict[str, Any] | None = None) -> None:
        """Keep the device at work until its clocks are those that it holds.

        An idle device begins at higher clocks than its power limit allows for long: on an H200 a
        large matrix product took 1.36 ms in a call of 40 ms, and 1.63 ms when run for seconds.

        Raises:
            UserCodeFailed: the target failed.
        """
        begin = time.monotonic()
        while time.monotonic() - begin < SETTLE_SECONDS:
            self.call(override=override)

    def drain(self) -> None:
        """Wait until the device has run everything."""
        if self.on_device:
            torch.cuda.synchronize()

    def change(self, **fields: Any) -> None:
        """Put results into the recording."""
        self.recording = msgspec.structs.replace(self.recording, **fields)

    def caveat(self, text: str) -> None:
        """Add something that a reader of the report should know, once."""
        if text not in self.recording.caveats:
            self.change(caveats=[*self.recording.caveats, text])

    def report(self, report: PassReport) -> None:
        """Note how a pass went, and write the recording as it now stands."""
        self.change(passes=[*self.recording.passes, report], sources=self.places.sources)
        write_recording(self.out, self.recording)

    def reason(self, failed: UserCodeFailed) -> str:
        """Why the user's code failed, in one text."""
        told = explain(failed.error, during=failed.during, places=self.places)
        return f"{told.what}\n{told.why}".strip()
