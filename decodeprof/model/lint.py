"""What does a run that only pretends to have a GPU predict of a run on one?"""

from __future__ import annotations

from typing import Literal

import msgspec

from decodeprof.model.ops import OpRecord, Place

LINT_SCHEMA_VERSION = 1

HazardKind = Literal[
    "sync",
    "sequence",
    "shape",
    "scalar",
    "input",
    "host_tensor",
    "kept_output",
    "generator",
]


class PredictedSync(msgspec.Struct, frozen=True, kw_only=True):
    """A place where the host would wait for the device."""

    place: Place
    op: str
    """The operation or call: ``aten::_local_scalar_dense``, ``torch.cuda.synchronize``."""
    reason: str
    in_prefill: int
    """Waits before the first decode step."""
    in_decode: int
    """Waits in all whole decode steps together."""
    in_last: int
    """Waits from the beginning of the last step to the call's end, where nothing tells the step
    from what comes after it."""
    per_step: float | None
    """In a whole decode step; None: none was seen."""


class PredictedCopy(msgspec.Struct, frozen=True, kw_only=True):
    """A copy between host and device through memory of the host that is not page-locked."""

    place: Place
    direction: Literal["host to device", "device to host"]
    non_blocking: bool
    in_prefill: int
    in_decode: int
    in_last: int
    per_step: float | None
    bytes_per_copy: int
    """The largest one made here."""


class Hazard(msgspec.Struct, frozen=True, kw_only=True):
    """Something that a CUDA graph of the step would refuse or get wrong."""

    kind: HazardKind
    severity: Literal["refused", "wrong", "cost"]
    """refused: capture fails, with an error; wrong: replay computes something else and nothing
    says so; cost: it can be captured, at a price or with a condition."""
    place: Place
    op: str
    summary: str
    """What happens here, with its values."""
    why: str
    change: str
    count: int = 1
    """Operations of one step that this stands for."""
    inside: Literal["forward", "loop"] | None = None
    """In the forward that began the step, or in the loop's own code after it; None: unknown."""


class LintReport(msgspec.Struct, frozen=True, kw_only=True):
    """All that lint has to say of a target. Everything in it is a prediction."""

    schema_version: int = LINT_SCHEMA_VERSION
    predicted: bool = True
    target: str
    decode_steps: int
    """Decode steps of the call that was judged, the last one, whose end is not seen, left out."""
    on_device: bool
    """Whether any of the target's tensors was put on a GPU."""
    syncs: list[PredictedSync] = []
    copies: list[PredictedCopy] = []
    hazards: list[Hazard] | None = None
    """None: two consecutive decode steps were not seen."""
    why_no_hazards: str = ""
    replays_per_step: float | None = None
    """CUDA graphs that a decode step of the target replays already; None: no step was seen."""
    ops_per_step: int | None = None
    """Operations of one step that would launch something on the device."""
    caveats: list[str] = []
    cannot_see: list[str] = []
    stopped: str = ""
    """Why the run ended before its end, and all of this is what was seen until then; empty: it did
    not."""


class LintRun(msgspec.Struct, frozen=True, kw_only=True):
    """What the process that ran the target hands over."""

    target: str
    decode_steps: int
    on_device: bool
    syncs: list[PredictedSync] = []
    copies: list[PredictedCopy] = []
    replays_per_step: float | None = None
    """CUDA graphs that a decode step replays; None: no whole one was seen."""
    record: OpRecord | None = None
    why_no_record: str = ""
    caveats: list[str] = []
    stopped: str = ""
    """Why the run ended before its end; empty: it did not."""
