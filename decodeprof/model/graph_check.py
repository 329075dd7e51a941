"""What came of capturing a decode step as a CUDA graph for real?

Everything here was measured on a GPU, but for the hazards, which come from comparing two recorded
steps, and for the step that piecewise graphs would have, which replay predicts.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from decodeprof.model.lint import Hazard
from decodeprof.model.ops import OpRecord, Place

GRAPH_CHECK_SCHEMA_VERSION = 1

Verdict = Literal["captures", "wrong", "refused", "unknown"]


class CaptureError(msgspec.Struct, frozen=True, kw_only=True):
    """The first error of a capture that failed."""

    kind: str
    """The exception's class."""
    message: str
    phase: Literal["warm-up", "capture", "replay"]
    place: Place | None = None
    """The innermost line outside torch; None: no line of anyone's was running."""


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """A value that a replay left otherwise than the step itself does."""

    name: str
    kind: Literal["output", "state"]
    input: int
    """1: the inputs of the capture; 2: those of the step after it."""
    text: str
    """By how much."""


class PythonChange(msgspec.Struct, frozen=True, kw_only=True):
    """Something in Python that a step changes, and that a replay leaves as it is."""

    name: str
    text: str
    """``7 → 8``, or the shapes of a tensor that is bound anew."""
    kind: Literal["value", "tensor", "container"]
    grows: bool = False
    """It is bound to a larger tensor, or holds more items."""


class StepTimes(msgspec.Struct, frozen=True, kw_only=True):
    """Unprofiled times of steps."""

    median_ns: int
    p10_ns: int
    p90_ns: int
    n: int


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One shape of the step: captured, replayed on two inputs, timed. None: not got so far."""

    bucket: str = ""
    """``batch=2``; empty: the arguments as given."""
    captured: bool = False
    error: CaptureError | None = None
    matches: bool | None = None
    """Replays on both inputs left what the step itself does."""
    why_unknown: str = ""
    """Why `matches` cannot be told."""
    differences: list[Difference] = []
    python_changes: list[PythonChange] = []
    static_inputs: list[str] = []
    """Inputs that come at a new storage each step, so that a buffer had to stand for them."""
    static_input_bytes: int = 0
    changed_inputs: list[str] = []
    """Inputs whose shape or Python value changed from one step to the next."""
    state_bytes: int = 0
    """Memory from before the step that the step writes to."""
    before: StepTimes | None = None
    """The loop's steps as they are."""
    after: StepTimes | None = None
    """The same loop, each step replaced by a replay."""
    alone_before: StepTimes | None = None
    """The step alone, until the device is done; by the host's clock."""
    graph_device: StepTimes | None = None
    """One replay on the device, queued behind other work."""
    graph_host: StepTimes | None = None
    """The call that launches it."""
    capture_seconds: float | None = None
    """Warm-up and capture."""
    pool_bytes: int | None = None
    same_result: bool | None = None
    """The target returned the same with replays; None: it is not the same twice without them."""
    note: str = ""


class WholeStep(msgspec.Struct, frozen=True, kw_only=True):
    """A capture of everything from one step's begin to the next one's, the loop's own code too."""

    captured: bool
    error: CaptureError | None = None


class GraphCheckRun(msgspec.Struct, frozen=True, kw_only=True):
    """What the process that captured hands over."""

    target: str
    step: str = ""
    """What was captured: a function's name, or a module's class."""
    found_by: Literal["step", "forward", "none"] = "none"
    device: str = ""
    calls: int = 0
    """Of the step, in one call of the target."""
    own_replays: int = 0
    """Of graphs that the target captured itself, in one call."""
    attempts: list[Attempt] = []
    whole_step: WholeStep | None = None
    record: OpRecord | None = None
    caveats: list[str] = []


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """What stops a capture: the first error in words."""

    error: CaptureError
    op: str | None
    """The operation at that line that breaks the rule, where one was recorded there."""
    rule: str
    why: str
    change: str


class Segment(msgspec.Struct, frozen=True, kw_only=True):
    """Operations between two places that no graph can hold."""

    operations: int
    first: Place
    last: Place
    stopped_by: str = ""
    """The operation after it that no graph can hold; empty: the step ends."""
    stopped_at: Place | None = None


class GraphCheck(msgspec.Struct, frozen=True, kw_only=True):
    """All that graph-check has to say of a target."""

    schema_version: int = GRAPH_CHECK_SCHEMA_VERSION
    target: str
    step: str
    device: str
    verdict: Verdict
    sentence: str
    attempts: list[Attempt] = []
    refusal: Refusal | None = None
    whole_step: WholeStep | None = None
    whole_step_refusal: Refusal | None = None
    hazards: list[Hazard] | None = None
    """None: two consecutive steps were not recorded."""
    segments: list[Segment] = []
    """Of the whole step, where parts of it can be captured; empty: it can be as a whole."""
    piecewise_ns: int | None = None
    """The step that graphs of the segments would have, by replay; None: not predicted."""
    why_no_piecewise: str = ""
    caveats: list[str] = []
