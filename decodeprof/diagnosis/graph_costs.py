"""What would a graph cost, by what a recording measured of its device?"""

from __future__ import annotations

from decodeprof.analysis.replay.build import Source
from decodeprof.analysis.replay.changes import (
    GraphCosts,
    graph_costs,
    memory_bound,
    node_shifts,
)
from decodeprof.analysis.replay.program import Program
from decodeprof.diagnosis.evidence import Evidence
from decodeprof.model.ceilings import Ceilings
from decodeprof.model.graph_nodes import NodeCosts
from decodeprof.model.trace import I64


def costs_of_graphs(evidence: Evidence, source: Source) -> GraphCosts:
    """From the recording's ceilings, else from the trace, else typical ones."""
    ceilings = evidence.recording.ceilings if evidence.recording else None
    return graph_costs(
        source.delays,
        measured_gap_ns=ceilings.node_gap_ns if ceilings else None,
        measured_launch_ns=ceilings.graph_launch_ns if ceilings else None,
        measured_start_ns=ceilings.graph_start_ns if ceilings else None,
        measured_large_gap_ns=ceilings.node_gap_large_ns if ceilings else None,
    )


def in_graph_ns(evidence: Evidence, program: Program, costs: GraphCosts) -> I64 | None:
    """What activities of other kinds take more or less as nodes, where measured."""
    ceilings = evidence.recording.ceilings if evidence.recording else None
    if ceilings is None or ceilings.node_gap_ns is None:
        return None
    peak, traffic = ceilings.read_bytes_per_s, evidence.traffic
    return node_shifts(
        evidence.trace,
        program,
        _node_costs(ceilings, gap_ns=costs.node_gap_ns),
        hidden=memory_bound(evidence.trace, traffic, peak) if traffic and peak else None,
    )


def _node_costs(ceilings: Ceilings, *, gap_ns: int) -> NodeCosts:
    """What was measured of nodes; what was not, costs what other nodes do.

    Args:
        ceilings: of the recording.
        gap_ns: of kernels of few blocks.
    """

    def known(measured_ns: float | None, otherwise_ns: float) -> float:
        return otherwise_ns if measured_ns is None else float(measured_ns)

    many = known(ceilings.node_gap_large_ns, gap_ns)
    return NodeCosts(
        few_ns=float(gap_ns),
        many_ns=min(many, gap_ns),
        set_ns=known(ceilings.node_gap_set_ns, gap_ns),
        copy_ns=known(ceilings.node_gap_copy_ns, gap_ns),
        block_ns=known(ceilings.profiled_block_ps, 0.0) / 1_000,
    )


def gap_spread_ns(evidence: Evidence) -> int:
    """How far the node gap was from the one that is used, at most, while recording."""
    ceilings = evidence.recording.ceilings if evidence.recording else None
    if ceilings is None or ceilings.node_gap_ns is None:
        return 0
    used = ceilings.node_gap_ns
    return max((abs(each - used) for each in ceilings.node_gap_samples_ns), default=0)
