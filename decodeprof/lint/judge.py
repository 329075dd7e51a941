"""What would this target do on a GPU? Its real code is called twice, and watched.

The first call finds where its steps begin, as a recording does; the second is the one that is
judged: waits by step, copies, and the operations of two consecutive steps.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch

from decodeprof import mark, units
from decodeprof.capture.arguments import fingerprint
from decodeprof.capture.channel import Channel
from decodeprof.capture.find_steps import StepFinder
from decodeprof.capture.hooks import ModuleHooks, watch_graphs
from decodeprof.capture.invoke import Caller
from decodeprof.capture.job import Job
from decodeprof.capture.load import load
from decodeprof.capture.op_record import OpRecorder, place_of
from decodeprof.capture.places import Places
from decodeprof.capture.record_ops import StepRecorder, first_to_record
from decodeprof.capture.session import Called, Session, Watches
from decodeprof.capture.target import Spec
from decodeprof.capture.tokens import count
from decodeprof.capture.watch import Boundary, Counter, Watch
from decodeprof.lint.collect import Collector, target_stack
from decodeprof.lint.mode import PretendMode
from decodeprof.lint.pretend import pretended
from decodeprof.lint.whereabouts import device_of
from decodeprof.model.lint import LintRun
from decodeprof.recording import Environment, Recording, Target

_ENDS = 2
"""Steps of a call that are no whole decode steps: the prefill, and the last one, whose end only
the call's end shows."""
_SHOWN_REFUSED = 3
"""Lines that a GPU would refuse; one forgotten `.cuda()` makes many, and the first tells which."""
_PHASE_TEXTS = {"import": "importing the script", "setup": "setting up", "call": "ready to call"}


class _StepReplays(StepRecorder):
    """Notes as well how many replays there had been when each step began."""

    def __init__(self, recorder: OpRecorder, watch: Watch, *, first: int) -> None:
        super().__init__(recorder, first=first)
        self._watch = watch
        self._replays: list[int] = []

    def start(self, boundary: Boundary) -> None:
        """A step begins."""
        super().start(boundary)
        self._replays.append(self._watch.replays)

    def per_step(self, decode_steps: int) -> float | None:
        """Replays in each of so many whole decode steps; None: there were none to look at."""
        if not decode_steps:
            return None
        return (self._replays[decode_steps + 1] - self._replays[1]) / decode_steps


class Judging:
    """One target's run; what was gathered can be read at any time, however it ended."""

    def __init__(self, job: Job, spec: Spec, *, places: Places, channel: Channel) -> None:
        self._job = job
        self._spec = spec
        self._places = places
        self._channel = channel
        self._collector = Collector(active=False)
        self._recorder = OpRecorder(device_of, stack_of=target_stack)
        self._session: Session | None = None
        self._listener: _StepReplays | None = None
        self._finished = False
        self._cut = False
        """The run ended in the middle of the two steps to compare."""
        self._on_device = False
        self._compiled = False
        self._refused: dict[str, None] = {}

    def run(self, *, default_device: str | None = None) -> LintRun:
        """Load the target, call it twice, and say what was seen.

        Args:
            default_device: where what names no device is made; None: as the target says.

        Raises:
            UsageError: a name or an argument is wrong.
            UserCodeFailed: the target raised; `gathered` holds what was seen by then.
        """
        with pretended(self._collector) as mode:
            if default_device is not None:
                torch.set_default_device(default_device)
            mode.on_refused = self._note_refused
            try:
                self._calls(mode)
            finally:
                mark.observe(None)
                self._recorder_off(mode)
                self._on_device = mode.on_device
                self._compiled = mode.compiled
        return self.gathered()

    def _note_refused(self, op: str, why: str) -> None:
        place = place_of(self._places, target_stack(sys._getframe(1)))
        self._refused[
            f"a GPU would refuse {op.removeprefix('aten::')} at {place.file}:{place.line}: {why}, "
            "so the target would raise there"
        ] = None

    def _recorder_off(self, mode: PretendMode) -> None:
        if self._recorder.recording:
            self._cut = not self._finished
            self._recorder.stop()
        mode.recorder = None
        self._collector.active = False
        if self._session is not None:
            self._session.watches.modules.remove()

    def _calls(self, mode: PretendMode) -> None:
        session = self._session = self._loaded()
        before = fingerprint(session.target.arguments.build())
        finder = StepFinder(session)
        self._channel.progress("lint", "first call: finding steps")
        self._collector.active = True
        called = finder.watched_call()
        self._collector.active = False
        tokens = self._tokens(called)
        expected = finder.install(called, tokens=tokens)
        if before != fingerprint(called.values):
            session.caveat("the target changes its own arguments, so its two calls may differ")
        self._collector.clear()
        self._channel.progress("lint", "second call: predicting")
        mode.recorder = self._recorder
        first = first_to_record(expected)

        def counting() -> Counter:
            listener = _StepReplays(self._recorder, session.watches.steps, first=first)
            self._collector.clear()
            self._collector.current_step = lambda: listener.step
            self._listener = listener
            return listener

        self._collector.active = True
        finder.checked_call(tokens=tokens, counting=counting, keep_items=False)
        self._collector.active = False
        self._finished = True

    @property
    def _boundaries(self) -> int:
        """Steps of the judged call that have begun, the prefill among them."""
        return 0 if self._listener is None else self._listener.boundaries

    def _loaded(self) -> Session:
        watch = Watch()
        caller = Caller(watch)
        # A recording's other watches change torch for good, and nothing here is profiled.
        unused: Any = None
        watches = Watches(watch, ModuleHooks(watch), unused, unused)
        watch_graphs(watch, lambda: None)
        mark.observe(watch)

        def entered(phase: str) -> None:
            self._channel.progress("load", _PHASE_TEXTS[phase])

        target = load(self._job, self._spec, caller=caller, on_phase=entered)
        recording = Recording(
            target=Target(spec=self._spec.short, kind="function"),
            environment=Environment(python="", torch="", decodeprof=""),
        )
        return Session(
            job=self._job,
            out=Path(),
            channel=self._channel,
            places=self._places,
            watches=watches,
            caller=caller,
            target=target,
            recording=recording,
        )

    def _tokens(self, called: Called) -> int | None:
        counted = count(
            called.returned,
            arguments=called.values,
            first_query=None,
            forwards=0,
            stated=self._job.new_tokens,
        )
        certain = counted.source in ("yields", "returned list", "--new-tokens")
        return counted.tokens if certain else None

    def gathered(self) -> LintRun:
        """What was seen so far."""
        steps = max(0, self._boundaries - _ENDS)
        replays = None if self._listener is None else self._listener.per_step(steps)
        record = None if replays or self._cut else self._recorder.record(self._places)
        caveats = list(self._session.recording.caveats) if self._session is not None else []
        if self._compiled:
            caveats.append(
                "torch.compile was left out: the code ran as it is written, operation by operation"
            )
        if self._session is not None and self._session.other_threads:
            caveats.append("forwards ran in several threads: their steps are counted together")
        caveats += list(self._refused)[:_SHOWN_REFUSED]
        if len(self._refused) > _SHOWN_REFUSED:
            caveats.append(
                units.counted(len(self._refused) - _SHOWN_REFUSED, "more operation")
                + " would be refused likewise"
            )
        return LintRun(
            target=self._spec.short,
            decode_steps=steps,
            on_device=self._on_device,
            syncs=self._collector.syncs(self._places, decode_steps=steps),
            copies=self._collector.pageable(self._places, decode_steps=steps),
            replays_per_step=replays,
            record=record,
            why_no_record="" if record is not None else self._why_no_record(replays),
            caveats=caveats,
        )

    def _why_no_record(self, replays: float | None) -> str:
        if replays:
            return (
                "the steps replay CUDA graphs already; what stands against capturing a step is "
                "seen where the loop calls the step itself instead"
            )
        if not self._finished:
            return "the run ended before two consecutive decode steps could be compared"
        if self._boundaries < _ENDS + 1:
            seen = max(0, self._boundaries - 1)
            return (
                f"two consecutive decode steps are compared, and the call had {seen}; let it make "
                "more tokens with `--arg`"
            )
        return "the two steps to compare were not reached in the judged call"
