"""Which calls of a target does it take to know whether its step can be a CUDA graph?"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import msgspec
import torch
from torch import Tensor, nn

from decodeprof import units
from decodeprof.capture.channel import Channel
from decodeprof.capture.choose import choose
from decodeprof.capture.graph_check.buckets import overrides
from decodeprof.capture.graph_check.capturing import capturing, first_error, sum_up
from decodeprof.capture.graph_check.files import RUN_FILE
from decodeprof.capture.graph_check.stand_in import (
    StandIn,
    before_class,
    before_forward,
    before_function,
)
from decodeprof.capture.graph_check.trial import StepClock, Trial, TrialOver
from decodeprof.capture.graph_check.values import leaves
from decodeprof.capture.hooks import ModuleHooks, watch_graphs
from decodeprof.capture.invoke import Caller
from decodeprof.capture.job import Job
from decodeprof.capture.load import UserCodeFailed, load
from decodeprof.capture.op_record import OpRecorder, RecordingMode
from decodeprof.capture.places import Places
from decodeprof.capture.session import Called, Session, Watches
from decodeprof.capture.target import Spec
from decodeprof.capture.watch import Watch
from decodeprof.errors import DecodeprofError
from decodeprof.model.graph_check import Attempt, GraphCheckRun, WholeStep
from decodeprof.recording import Environment, Recording, Target, write_whole

_FEWEST_CALLS = 5
"""One before the capture, to see which inputs stay; two that are compared; the prefill; and one
more, so that a step is replaced by a replay and the next one begins."""
_LATEST = 4
"""Calls of the step before the capture; the others are left for timing."""
_TIMED_CALLS = 3
_NO_CALLS_HINT = (
    "it was called in the call before: what is made anew in each call of the target, its class "
    "too, is not found again; make it outside of the function, or name the step with `--step`"
)
_PHASE_TEXTS = {"import": "importing the script", "setup": "setting up", "call": "ready to call"}


class CannotCheck(DecodeprofError):
    """There is no step to capture, and why."""


class Checking:
    """One target's check; what was learnt can be read from the run's file at any time."""

    def __init__(
        self, job: Job, spec: Spec, *, out: Path, places: Places, channel: Channel
    ) -> None:
        self._job = job
        self._spec = spec
        self._out = out
        self._places = places
        self._channel = channel
        self._recorder = OpRecorder(lambda tensor: tensor.device)
        self._run = GraphCheckRun(target=spec.short)
        self._kind: type[nn.Module] | None = None

    def note(self, **fields: Any) -> None:
        """Put results into the run, and write it as it now stands."""
        self._run = msgspec.structs.replace(self._run, **fields)
        write_whole(self._out / RUN_FILE, msgspec.json.encode(self._run))

    def run(self) -> None:
        """Load the target and call it as often as it takes.

        Raises:
            UsageError: a name or an argument is wrong.
            CannotCheck: there is no step, or too few of them.
            UserCodeFailed: the target raised although nothing was captured.
        """
        say = self._channel.progress
        session = self._loaded()
        say("graph-check", "first call")
        replays = session.watches.steps.replays
        first = session.call(keep_items=True)
        self._check_device()
        own = session.watches.steps.replays - replays
        self.note(own_replays=own, device=_device_name())
        say("graph-check", "finding the step")
        stand = self._stand_in(session)
        calls, second = self._counted(session, stand)
        if not calls and self._kind is not None:
            stand = before_class(self._kind)
            calls, second = self._counted(session, stand)
        self.note(step=stand.name, calls=calls)
        if calls < _FEWEST_CALLS:
            raise CannotCheck(
                f"the step `{stand.name}` is called {units.counted(calls, 'time')} in one call "
                "of the target",
                why=f"at least {_FEWEST_CALLS} are needed: two are compared, and a few are timed",
                hint=_few_calls_hint(own) if calls else _NO_CALLS_HINT,
            )
        at = max(2, min(_LATEST, calls - 3))
        say("graph-check", "recording two steps")
        self._record(session, stand, at)
        wanted = second if same(first, second) else None
        for label, override in overrides(self._job.buckets):
            if not self._attempt(session, stand, at, label, override, wanted):
                return
        say("graph-check", "capturing the whole step")
        self._whole_step(session, stand, at)

    def _loaded(self) -> Session:
        watch = Watch()
        caller = Caller(watch)
        # Nothing here is profiled or compiled by us: those watches stay out.
        unused: Any = None
        watches = Watches(watch, ModuleHooks(watch), unused, unused)
        watch_graphs(watch, lambda: None)

        def entered(phase: str) -> None:
            self._channel.progress("load", _PHASE_TEXTS[phase])

        target = load(self._job, self._spec, caller=caller, on_phase=entered)
        return Session(
            job=self._job,
            out=self._out,
            channel=self._channel,
            places=self._places,
            watches=watches,
            caller=caller,
            target=target,
            recording=Recording(
                target=Target(spec=self._spec.short, kind="function"),
                environment=Environment(python="", torch="", decodeprof=""),
            ),
            on_device=torch.cuda.is_available(),
        )

    def _check_device(self) -> None:
        cuda: Any = torch.cuda
        if not cuda.is_initialized():
            raise CannotCheck(
                "the target ran on the CPU alone",
                why="it never touched the GPU that torch sees here",
                hint="move its model and inputs to `cuda`",
            )

    def _stand_in(self, session: Session) -> StandIn:
        if self._job.step is not None:
            self.note(found_by="step")
            where = self._spec.text.rpartition(":")[0]
            return before_function(session.target.module, self._job.step, where=where)
        watch, modules = session.watches.steps, session.watches.modules
        modules.watch_all()
        watch.discover()
        try:
            session.call()
        finally:
            found = watch.discovered()
            modules.remove()
        keys = [call.key for call in found.calls if call.key in modules.modules]
        if not keys:
            raise CannotCheck(
                "no step was found: the target calls no module of its own accord",
                why="a step is the decode forward of an `nn.Module`, unless a function is named",
                hint="name the function that is one decode step: `--step name`, as it is called "
                "in the script, or `--step package.module:Class.method`",
            )
        chosen = choose(found.calls, tokens=self._job.new_tokens).keys
        wanted = [key for key in keys if key in chosen] or keys
        # Of several modules that a step calls one after the other, the last stands for it worst.
        key = max(dict.fromkeys(wanted), key=wanted.count)
        often = {each for each in keys if 2 * keys.count(each) >= keys.count(key)}
        if len(often) > 1:
            self.note(
                caveats=[
                    *self._run.caveats,
                    "a step calls several modules one after the other, and one of them was "
                    "captured; `--step` names the function that calls them all",
                ]
            )
        self.note(found_by="forward")
        self._kind = type(modules.modules[key])
        return before_forward(modules.modules[key])

    def _counted(self, session: Session, stand: StandIn) -> tuple[int, Called]:
        count = 0

        def counting(step: Any, args: Any, kwargs: Any) -> Any:
            nonlocal count
            count += 1
            return step(*args, **kwargs)

        stand.handler = counting
        try:
            called = session.call(keep_items=True)
        finally:
            stand.handler = None
        return count, called

    def _record(self, session: Session, stand: StandIn, at: int) -> None:
        """Have the operations of two consecutive steps recorded."""
        recorder, index = self._recorder, 0

        def recording(step: Any, args: Any, kwargs: Any) -> Any:
            nonlocal index
            now, index = index, index + 1
            if now in (at, at + 1):
                recorder.begin(now)
            elif now == at + 2:
                recorder.stop()
            out = step(*args, **kwargs)
            recorder.forward_over()
            return out

        stand.handler = recording
        mode: Any = RecordingMode(recorder)
        try:
            session.call(around=mode)
        except UserCodeFailed as failed:
            text = f"two steps could not be recorded: {session.reason(failed)}"
            self.note(caveats=[*self._run.caveats, text])
        finally:
            stand.handler = None
            if recorder.recording:
                recorder.stop()
        self.note(record=recorder.record(self._places))

    def _attempt(
        self,
        session: Session,
        stand: StandIn,
        at: int,
        label: str,
        override: dict[str, Any] | None,
        wanted: Called | None,
    ) -> bool:
        """Capture for one value of an argument; False: nothing more should be captured here."""
        say, done = self._channel.progress, self._run.attempts
        say("graph-check", f"timing the loop {label}".strip())
        before, plain = self._timed(session, stand, at, override)
        if override is not None:
            wanted = plain
        say("graph-check", f"capturing the step {label}".strip())

        def news(attempt: Attempt) -> None:
            self.note(attempts=[*done, msgspec.structs.replace(attempt, before=sum_up(before))])

        trial = Trial(at=at, places=self._places, bucket=label, on_news=news)
        stand.handler = trial
        called = None
        try:
            called = session.call(keep_items=True, override=override)
        except UserCodeFailed as failed:
            if not isinstance(failed.error, TrialOver):
                reason = session.reason(failed)
                trial.learn(note=f"the call with the capture ended early: {reason}")
        finally:
            stand.handler = None
        if called is not None and trial.result.matches:
            alike = None if wanted is None else same(wanted, called)
            trial.learn(after=sum_up(trial.clock.between_ns(0)), same_result=alike)
        return trial.result.captured and not trial.result.note

    def _timed(
        self, session: Session, stand: StandIn, at: int, override: dict[str, Any] | None
    ) -> tuple[list[int], Called | None]:
        samples: list[int] = []
        called = None
        for _ in range(_TIMED_CALLS):
            clock = StepClock()

            def stamping(step: Any, args: Any, kwargs: Any, clock: StepClock = clock) -> Any:
                clock.stamp()
                return step(*args, **kwargs)

            stand.handler = stamping
            try:
                called = session.call(keep_items=True, override=override)
            finally:
                stand.handler = None
            samples += clock.between_ns(at + 2)
        return samples, called

    def _whole_step(self, session: Session, stand: StandIn, at: int) -> None:
        """Capture from one step's begin to the next one's: the last thing that is done here."""
        stack = contextlib.ExitStack()
        index = 0

        def whole(step: Any, args: Any, kwargs: Any) -> Any:
            nonlocal index
            now, index = index, index + 1
            if now == at:
                graph: Any = torch.cuda.CUDAGraph()
                stack.enter_context(capturing(graph, torch.cuda.graph_pool_handle()))
            elif now == at + 1:
                stack.close()
                raise TrialOver
            return step(*args, **kwargs)

        stand.handler = whole
        found = None
        try:
            with stack:
                session.call()
        except UserCodeFailed as failed:
            if isinstance(failed.error, TrialOver):
                found = WholeStep(captured=True)
            else:
                error = first_error(failed.error, phase="capture", places=self._places)
                found = WholeStep(captured=False, error=error)
        # What ending the capture raises, where the target's own code had swallowed the refusal.
        except RuntimeError as error:
            told = first_error(error, phase="capture", places=self._places)
            found = WholeStep(captured=False, error=told)
        finally:
            stand.handler = None
        self.note(whole_step=found)


def same(one: Called, two: Called) -> bool:
    """Whether two calls of the target returned, or yielded, the same."""
    first, second = (
        dict(leaves([each.returned.value, list(each.returned.items)])) for each in (one, two)
    )
    return first.keys() == second.keys() and all(
        _equal(value, second[name]) for name, value in first.items()
    )


def _equal(one: Any, two: Any) -> bool:
    if isinstance(one, Tensor) and isinstance(two, Tensor):
        return one.shape == two.shape and bool(torch.equal(one, two))
    return type(one) is type(two) and bool(one == two)


def _device_name() -> str:
    return str(torch.cuda.get_device_name())


def _few_calls_hint(own_replays: int) -> str:
    if own_replays:
        return (
            f"the target replays graphs of its own, {own_replays} in one call: its steps are "
            "captured already"
        )
    return (
        "let it make more tokens with `--arg`; if the step is compiled by torch.compile, it is not "
        "called as it is written: `decodeprof diagnose` says whether its graphs are used"
    )
