"""The pass that records which operations two consecutive decode steps ask of the device.

A comparison of the two says what a CUDA graph of the step would refuse or get wrong. A dispatch
mode makes each operation cost some 20 µs more, so nothing is timed here; values and tokens are
those of any other call.
"""

from __future__ import annotations

from decodeprof import mark
from decodeprof.capture.op_record import OpRecorder, RecordingMode, real_device
from decodeprof.capture.passes import NO_DEVICE, fewer_tokens, profile_steps
from decodeprof.capture.session import Session
from decodeprof.capture.waiting import DeviceOf
from decodeprof.capture.watch import Boundary, Counter
from decodeprof.model.ops import OpRecord
from decodeprof.recording import PassReport, write_operations

_FEWEST_BOUNDARIES = 4
"""The prefill, two steps to compare, and one more, at which what the first left behind is seen."""


class StepRecorder(Counter):
    """Counts steps, and has the operations of two consecutive decode steps recorded."""

    def __init__(self, recorder: OpRecorder, *, first: int) -> None:
        """Record the decode steps `first` and `first` + 1."""
        super().__init__()
        self._recorder = recorder
        self._first = first

    def start(self, boundary: Boundary) -> None:
        """A step begins."""
        super().start(boundary)
        if self.step in (self._first, self._first + 1):
            self._recorder.begin(self.step)
        elif self.step == self._first + 2:
            self._recorder.stop()

    def end(self, boundary: Boundary) -> None:
        """The forward, replay or wait that began it is over."""
        super().end(boundary)
        if boundary.name in (mark.FORWARD, mark.REPLAY):
            self._recorder.forward_over()


def first_to_record(boundaries: int) -> int:
    """The first of the two decode steps to record, in a call of so many boundaries.

    One in the middle: the first steps may still set things up.
    """
    return max(1, (boundaries - 1) // 2)


def operations_pass(session: Session) -> PassReport:
    """Record the operations of two consecutive decode steps."""
    reason = _why_not(session)
    if reason:
        return PassReport(name="operations", status="skipped", reason=reason)
    override = fewer_tokens(session, profile_steps(session))
    boundaries = session.steps if override is None else profile_steps(session) + 1
    record = recorded(session, boundaries=boundaries, override=override)
    tokens = next(iter(override.values())) if override else session.recording.target.new_tokens
    if record is None:
        reason = "the two steps to compare were not reached"
        return PassReport(name="operations", status="failed", reason=reason, new_tokens=tokens)
    write_operations(session.out, record)
    return PassReport(name="operations", status="done", new_tokens=tokens)


def recorded(
    session: Session,
    *,
    boundaries: int,
    override: dict[str, int] | None = None,
    device_of: DeviceOf = real_device,
) -> OpRecord | None:
    """Two consecutive steps of one call; None: they were not reached.

    Args:
        session: the recording and its target.
        boundaries: of the call.
        override: arguments that replace the given ones.
        device_of: where a tensor lives.

    Raises:
        UserCodeFailed: the target failed.
    """
    recorder = OpRecorder(device_of)
    counter = StepRecorder(recorder, first=first_to_record(boundaries))
    try:
        session.call(counter, override=override, around=RecordingMode(recorder, device_of))
    finally:
        if recorder.recording:
            recorder.stop()
    return recorder.record(session.places)


def _why_not(session: Session) -> str:
    """Why operations are not recorded; empty: they are."""
    if not session.on_device:
        return NO_DEVICE
    if session.steps < _FEWEST_BOUNDARIES:
        seen = max(0, session.steps - 1)
        return f"two consecutive decode steps are compared, and the call had {seen}"
    if session.replays:
        return "the target replays CUDA graphs already"
    if session.watches.compiled.used:
        return "the target is compiled, and a recorder of operations would undo that"
    if session.other_threads:
        return "forwards run in other threads, whose operations are not seen"
    return ""
