"""What does the recording of a step of few rows say of steps with more?"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from decodeprof.analysis.host import launching_thread
from decodeprof.analysis.replay.build import build_program, prepare
from decodeprof.analysis.replay.changes import scaled
from decodeprof.analysis.replay.errors import WITHHOLD_ABOVE_SHARE, reproduce
from decodeprof.analysis.replay.scale import host_scale
from decodeprof.analysis.sweeps.growth import Rates, growth
from decodeprof.analysis.sweeps.larger import (
    LEFT_PLATEAU,
    MOST_UNKNOWN_SHARE,
    Larger,
    larger_steps,
)
from decodeprof.diagnosis.evidence import Evidence
from decodeprof.diagnosis.predictions import steady_range


def larger(
    evidence: Evidence, values: Sequence[int], *, step_ns: int, rates: Rates, node_gap_ns: int
) -> tuple[list[Larger], str]:
    """Replay the recorded decode step with more rows.

    Args:
        evidence: of the recording.
        values: numbers of rows, rising; the first is that of the recording.
        step_ns: its unprofiled step.
        rates: what the device does at best.
        node_gap_ns: between the nodes of a graph.

    Returns:
        The steps, and why there are none.
    """
    trace, launches, floors = evidence.trace, evidence.launches, evidence.floors
    thread, traffic = launching_thread(trace), evidence.traffic
    rows = steady_range(evidence)
    if thread is None or launches is None or floors is None or evidence.device is None:
        return [], "nothing that was launched on a device is in the trace"
    if rows is None or traffic is None:
        return [], "no decode step was found that could be replayed"
    source = prepare(
        trace,
        evidence.steps,
        device=evidence.device,
        thread=thread,
        launches=launches,
        floors=floors,
    )
    reproduction = reproduce(source)
    if reproduction is None or reproduction.error_share > WITHHOLD_ABOVE_SHARE:
        return [], "replay misses the recorded device times"
    program = build_program(source, rows)
    found = growth(trace, traffic, program.activity, rows=values[0])
    if found.unknown_share > MOST_UNKNOWN_SHARE:
        share = round(100 * found.unknown_share)
        return [], f"{share} % of its device time is in kernels whose shapes were not recorded"
    scale = host_scale(program, step_ns)
    if scale is None:
        return [], "its length does not depend on the host"
    steps = larger_steps(
        scaled(program, scale), found, values, rates=rates, node_gap_ns=node_gap_ns
    )
    return steps, ""


MOST_TIMES = 1_024
"""The batch is foreseen up to so many times the recorded one."""


def batch_with_room(evidence: Evidence, *, batch: int, step_ns: int) -> int | None:
    """The largest batch foreseen to leave a step within 10 % of its time, as a sweep measures it.

    Args:
        evidence: of a recording.
        batch: in the recording.
        step_ns: its unprofiled step.

    Returns:
        None where the recording does not tell: no shapes, no ceilings, or replay misses it.
    """
    ceilings = evidence.recording.ceilings if evidence.recording else None
    sm_count = next(
        (each.sm_count for each in evidence.trace.devices if each.index == evidence.device), None
    )
    if ceilings is None or sm_count is None:
        return None
    bandwidth, flops = ceilings.read_bytes_per_s, ceilings.matmul_flops_per_s
    if not bandwidth or not flops or ceilings.node_gap_ns is None:
        return None
    values = [batch * 2**power for power in range(MOST_TIMES.bit_length())]
    steps, _ = larger(
        evidence,
        values,
        step_ns=step_ns,
        rates=Rates(bandwidth, flops, sm_count, ceilings.strided_elements_per_s),
        node_gap_ns=ceilings.node_gap_ns,
    )
    within = list(takewhile(lambda each: each.step_ns <= LEFT_PLATEAU * steps[0].step_ns, steps))
    return within[-1].value if within else None
