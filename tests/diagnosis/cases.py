"""Cases for rules: a synthetic loop, recorded or as a foreign trace, through the whole pipeline."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import replace

from decodeprof import mark
from decodeprof.diagnosis.evidence import gather
from decodeprof.diagnosis.judging import Case, Found, Outcome
from decodeprof.diagnosis.load import Loaded
from decodeprof.diagnosis.pipeline import case_of
from decodeprof.model.ceilings import Ceilings
from decodeprof.model.diagnosis import Finding
from decodeprof.model.ops import OpRecord
from decodeprof.recording import (
    Device,
    Environment,
    Recording,
    Run,
    Target,
    Timing,
)
from tests.build import TraceBuilder
from tests.reading import trace_of

US = 1_000
MS = 1_000_000
BANDWIDTH = 4.0e12
FLOPS = 8.0e14
NODE_GAP_NS = 400


def recording(**changes: object) -> Recording:
    """A recording of a loop on an H200, without unprofiled times unless they are given."""
    fields: dict[str, object] = {
        "target": Target(spec="my_script.py:generate", kind="function"),
        "environment": Environment(python="3.12", torch="2.11", decodeprof="0.1.0"),
        "device": Device(name="NVIDIA H200"),
        "ceilings": Ceilings(
            node_gap_ns=NODE_GAP_NS,
            graph_launch_ns=10 * US,
            copy_bytes_per_s=BANDWIDTH,
            read_bytes_per_s=BANDWIDTH,
            matmul_flops_per_s=FLOPS,
            queue_depth=1022,
        ),
        **changes,
    }
    return Recording(**fields)  # type: ignore[arg-type]


def timing(*calls: list[int]) -> Timing:
    """Unprofiled steps, a list for each call."""
    runs = [Run(total_ns=sum(steps), steps=len(steps), step_ns=steps) for steps in calls]
    return Timing(method="cuda_events", runs=runs)


def case(
    b: TraceBuilder,
    of: Recording | None = None,
    *,
    without: tuple[str, ...] = (),
    ops: OpRecord | None = None,
) -> Case:
    """The case of a loop; `without` names tables that the capture could not fill."""
    trace = trace_of(b.build())
    trace = replace(trace, captured=trace.captured - set(without))
    return case_of(gather(Loaded(trace=trace, recording=of, name="synthetic", ops=ops)))


def judge(code: str, what: Case) -> Outcome:
    """One rule's answer."""
    module = importlib.import_module(f"decodeprof.diagnosis.rules.{code.replace('-', '_')}")
    assert code == module.CODE
    outcome: Outcome = module.judge(what)
    return outcome


def found(code: str, what: Case) -> list[Finding]:
    """The findings of a rule that must find something."""
    outcome = judge(code, what)
    assert isinstance(outcome, Found), outcome
    assert outcome.findings
    assert {finding.code for finding in outcome.findings} == {code}
    return list(outcome.findings)


def the_finding(code: str, what: Case) -> Finding:
    """The one finding of a rule that must find one thing."""
    [only] = found(code, what)
    return only


def texts(finding: Finding) -> str:
    """All that a finding states as evidence."""
    return "\n".join(f"{fact.kind} {fact.text}" for fact in finding.evidence)


def loop(
    body: Callable[[TraceBuilder, int], None],
    *,
    decode: int = 8,
    prefill: Callable[[TraceBuilder], None] | None = None,
) -> TraceBuilder:
    """Marked steps: a prefill, if there is one, and then `body` for each decode step."""
    b = TraceBuilder()
    if prefill is not None:
        with b.annotation(mark.label(mark.STEP, phase="prefill")):
            prefill(b)
    for index in range(decode):
        with b.annotation(mark.label(mark.STEP, phase="decode")):
            body(b, index)
    return b


def look_up(b: TraceBuilder, query: int = 1) -> None:
    """An embedding of so many tokens."""
    with b.op("aten::embedding", shapes=((1000, 64), (1, query))):
        b.launch("indexSelectSmallIndex", 2 * US)


def busy(b: TraceBuilder, kernels: int = 20, ns: int = 20 * US) -> None:
    """Kernels that last longer than their launches: the host runs ahead."""
    for _ in range(kernels):
        with b.op("aten::mm"):
            b.launch("nvjet_sm90_tst", ns)


def read(b: TraceBuilder, *, after_ns: int = 40 * US) -> None:
    """`.item()`, and what Python does with the token."""
    with b.frame("engine.py(12): generate"), b.op("aten::item"):
        b.copy(1 * US, name="Memcpy DtoH (Device -> Pageable)")
        b.sync(stream=7)
    with b.frame("engine.py(30): append"):
        b.work(after_ns)


def slow(b: TraceBuilder, index: int) -> None:
    """A step that the host bounds by far, with a read at its end."""
    del index
    for _ in range(100):
        with b.op("aten::mm", before_ns=25 * US):
            b.launch("nvjet_sm90_tst", 2 * US)
    read(b, after_ns=1 * US)


def reading(b: TraceBuilder, index: int) -> None:
    """A step that the device bounds, but for the read at its end."""
    del index
    busy(b)
    read(b)
