"""The public contract: what diagnosis.json holds.

Renderers and users read this and nothing else. What is unknown is null, never 0. Times are integer
nanoseconds; `*_share` is 0 to 1; a count per step may be a fraction (a stop check every 16 steps is
1/16 a step). `diagnosis.schema.json` beside this file is generated from these types.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from decodeprof.model.about import About as About
from decodeprof.model.about import PassNote as PassNote
from decodeprof.model.graph_check import GraphCheck

SCHEMA_VERSION = 1

BoundBy = Literal[
    "launch", "sync", "memory", "compute", "kernel", "device", "transition", "unknown"
]
IDLE_CAUSES = ("sync", "launch", "dispatch", "python", "device", "dependency", "unknown")


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """Where the diagnosis came from."""

    kind: Literal["torch", "nsys", "recording"]
    name: str
    captured: list[str]
    """Tables that the capture was able to fill; what is not in it is unknown, not none."""


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """Totals over the whole file; `launches` are kernel-launch calls alone."""

    kernels: int
    device_activities: int
    launches: int
    graph_launches: int
    launch_calls: dict[str, int]
    """By API: everything that puts work on a queue (kernels, graphs, copies, sets)."""
    sync_calls: dict[str, int]
    """By API: the *Synchronize calls."""


class DeviceSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One device over the whole file."""

    index: int
    name: str | None
    busy_ns: int
    """Union of the intervals in which anything ran."""
    span_ns: int


class StepRow(msgspec.Struct, frozen=True, kw_only=True):
    """One step, in order."""

    index: int
    phase: Literal["prefill", "decode", "other"]
    steady: bool
    measured: bool
    host_start_ns: int | None
    host_end_ns: int | None
    device_start_ns: int | None
    device_end_ns: int | None
    query_length: int | None
    kernels: int | None
    activities: int | None
    launches: int | None
    graph_launches: int | None
    syncs: int | None
    busy_ns: int | None
    step_ns: int | None
    """The device window."""
    why_left_out: str | None = None


class Steps(msgspec.Struct, frozen=True, kw_only=True):
    """How the steps were found, and how many there are."""

    method: Literal[
        "marks", "yields", "forwards", "graph", "sequence", "loop", "annotation", "none"
    ]
    method_text: str
    """The same, as a sentence."""
    prefill: int
    decode: int
    steady: int
    unmeasured: int
    query_length: int | None
    left_out: list[str]
    """What no per-step figure covers, one sentence each."""
    rows: list[StepRow]
    period_activities: int | None = None
    """A repetition that is not known to be a step: its length …"""
    period_count: int | None = None
    """… and how often it occurs."""
    whole_periods: int | None = None
    steps_per_period: int | None = None
    """Steps between two stop checks, where syncs do not occur in every step."""


class Distribution(msgspec.Struct, frozen=True, kw_only=True):
    """Samples summed up; p10 and p90 are null where single steps were not timed."""

    median: int
    p10: int | None
    p90: int | None
    n: int


class Idle(msgspec.Struct, frozen=True, kw_only=True):
    """Idle time of a step's device window by cause; with busy it sums to the window, exactly."""

    sync: int
    launch: int
    dispatch: int
    python: int
    device: int
    dependency: int
    unknown: int


class StepFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Per step of one phase. Times are of one real step, the lower-median one."""

    unprofiled_ns: Distribution | None
    profiled_ns: int | None
    profiled_p10_ns: int | None = None
    profiled_p90_ns: int | None = None
    n: int
    """Steps that the figures cover."""
    dilation: float | None
    """profiled ÷ unprofiled."""
    kernels: float | None
    launches: float | None
    graph_launches: float | None
    syncs: float | None
    busy_ns: int | None
    idle_ns: Idle | None
    launch_latency_ns: Distribution | None = None
    """Launch call's start to activity start; large and harmless when the queue is full."""
    queue_depth_mean: float | None = None
    """Launched and not yet started, averaged over the step's time."""
    queue_depth_max: int | None = None
    host_work_ns: int | None = None
    """Host time of the launching thread, less waits."""
    gaps: int | None = None
    steady: bool = True
    """False: no steady-state step was left, so this is what exists."""
    row: int | None = None
    """Index into `Steps.rows` of the step whose times are shown."""


class Floors(msgspec.Struct, frozen=True, kw_only=True):
    """What a step cannot be shorter than, and why. Null: not known."""

    host_ns: int | None
    busy_ns: int | None
    node_gap_ns: int | None
    """Per activity."""
    device_ns: int | None
    """busy + gaps × node gap; no more than the unprofiled step."""
    bytes_ns: int | None
    bytes: int | None
    flops_ns: int | None
    flops: int | None
    bandwidth_bytes_per_s: float | None
    node_gap_source: str | None = None
    bandwidth_source: str | None = None
    flops_per_s: float | None = None
    flops_source: str | None = None
    mbu_share: float | None = None
    """Model bandwidth utilization: bytes ÷ bandwidth ÷ step."""
    mfu_share: float | None = None
    """Model FLOPs utilization: FLOPs ÷ their rate ÷ step."""
    mbu_busy_share: float | None = None
    """The same over the time in which the device is busy."""
    mfu_busy_share: float | None = None


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The one answer."""

    bound_by: BoundBy
    sentence: str


class Replay(msgspec.Struct, frozen=True, kw_only=True):
    """How well replay reproduced the recording; null: not replayed."""

    error_share: float | None
    host_scale: float | None
    device_scale: float | None = None
    """What activities take under the load of unprofiled steps ÷ in the profile; null: as there."""
    step_ns: int | None = None
    """The step as replayed, unchanged, in the time of the what-ifs."""


class Range(msgspec.Struct, frozen=True, kw_only=True):
    """An estimate."""

    low: int
    expected: int
    high: int


class WhatIf(msgspec.Struct, frozen=True, kw_only=True):
    """A step after one change."""

    step_ns: Range
    in_profiled_time: bool
    assumes: str
    measured: bool = False
    """The change was made and timed, unprofiled; false: replay predicts it."""
    activities_per_step: float | None = None
    """Kernels, memsets and copies that would be left; null: where a change was measured."""


class WhatIfs(msgspec.Struct, frozen=True, kw_only=True):
    """Null: withheld, or not computed."""

    cuda_graph: WhatIf | None = None
    piecewise: WhatIf | None = None
    no_syncs: WhatIf | None = None
    fusion: WhatIf | None = None
    faster_host: WhatIf | None = None
    no_host: WhatIf | None = None
    all: WhatIf | None = None


class SyncSite(msgspec.Struct, frozen=True, kw_only=True):
    """A place that blocks the host; figures are per steady decode step, or per prefill."""

    file: str | None
    line: int | None
    function: str | None
    code: str | None
    op: str | None
    """The framework op that encloses the call."""
    api: str | None
    calls_per_step: float
    call_ns: int | None
    """Time inside the call."""
    idle_inside_ns: int | None
    """Device idle time while inside the call."""
    idle_after_ns: int | None
    """Idle time after the call, in the gap that it opened, until the queue filled again."""
    exposed_ns: int | None
    """What removing it would save, from replay: not the call's duration."""
    seen_by: list[str]
    """sync_debug, gpu_trace, torch, nsys."""
    phase: Literal["prefill", "decode"] = "decode"
    stack: list[str] = []
    in_user_code: str | None = None
    """Innermost frame outside installed packages: ``file:line function``."""


class KernelRow(msgspec.Struct, frozen=True, kw_only=True):
    """One kernel name, or one family where `name` is null."""

    family: str
    name: str | None
    count_per_step: float
    time_ns_per_step: int
    bytes: int | None
    achieved_bytes_per_s: float | None


class Where(msgspec.Struct, frozen=True, kw_only=True):
    """A place in source."""

    file: str
    line: int | None
    function: str | None = None
    code: str | None = None


class Recommendation(msgspec.Struct, frozen=True, kw_only=True):
    """What to do, how, how to see that it worked, and what it risks."""

    what: str
    how: str
    verify: str
    risk: str


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """One fact behind a finding, and how it is known."""

    text: str
    kind: Literal["MEASURED", "DERIVED", "MODELLED"]


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """Something worth changing."""

    code: str
    severity: Literal["high", "medium", "low", "info"]
    summary: str
    saving_ns_per_step: Range | None
    evidence: list[Evidence]
    recommendations: list[Recommendation]
    where: list[Where]


class Skipped(msgspec.Struct, frozen=True, kw_only=True):
    """A rule that could not tell."""

    code: str
    reason: str
    capture: str
    """What to capture so that it can."""


class Generation(msgspec.Struct, frozen=True, kw_only=True):
    """The whole call, unprofiled."""

    ttft_ns: Distribution | None
    """Time to the first token: from the call's start to what `ttft_until` names."""
    ttft_until: str | None = None
    """yield | forward | mark | second_forward: the first item, the end of the first forward (its
    token is then still to be sampled), the end of the marked prefill; or, with no such sign, the
    beginning of the second forward, by which the token was there."""
    tokens_per_s: float | None
    """Decode alone: batch × tokens of a step ÷ median step time."""
    tokens_per_step: float = 1.0
    """Tokens that a forward makes of each sequence, on average."""
    new_tokens: int | None
    batch: int | None
    runs: int


class AgreementRow(msgspec.Struct, frozen=True, kw_only=True):
    """One quantity of a steady decode step, as each source saw it."""

    quantity: str
    """kernels | launches | graph_launches | syncs | busy_ns | step_ns."""
    values: dict[str, float | None]
    """By source; null: the source cannot see it."""
    agrees: bool | None
    """null: fewer than two sources can see it."""
    explanation: str | None = None
    """Why they differ, or why one is silent; null: they agree, or the cause is not known."""


class Agreement(msgspec.Struct, frozen=True, kw_only=True):
    """The sources that saw the same run, side by side."""

    sources: list[str]
    """unprofiled, sync_debug, gpu_trace, torch, nsys: those that there are."""
    rows: list[AgreementRow]


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """All that decodeprof concluded from one recording or trace."""

    schema_version: int = SCHEMA_VERSION
    source: Source
    counts: Counts
    devices: list[DeviceSummary]
    steps: Steps
    step: StepFigures | None
    """Per steady decode step; null: no steps were found."""
    prefill: StepFigures | None
    generation: Generation | None
    floors: Floors | None
    verdict: Verdict
    prefill_verdict: Verdict | None = None
    """Of the prompt pass, where there are decode steps as well: the two often differ."""
    replay: Replay
    what_if: WhatIfs
    syncs: list[SyncSite]
    kernels: list[KernelRow]
    findings: list[Finding]
    cleared: list[str]
    skipped: list[Skipped]
    caveats: list[str]
    about: About
    sources: dict[str, dict[int, str]] = {}
    """Source text by file and line, as it stood when recorded."""
    agreement: Agreement | None = None
    """Sources side by side; null: fewer than two saw the run."""
    graph_check: GraphCheck | None = None
    """What came of capturing the step; null: it was not tried."""


def json_schema() -> bytes:
    """The JSON Schema of diagnosis.json, indented, as committed beside this module."""
    schema = msgspec.json.schema(Diagnosis)
    encoded = msgspec.json.encode(schema, order="deterministic")
    return msgspec.json.format(encoded, indent=1) + b"\n"
