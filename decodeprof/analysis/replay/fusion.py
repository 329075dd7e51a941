"""Which kernels could become one, and how long would that one take?

Between matrix and attention kernels stand chains of elementwise, reduction and similar kernels. A
compiler or a hand-written kernel makes one of each chain, save that every further reduction or
concatenation begins a kernel of its own: a fused kernel makes one pass over one set of rows. For
the same reason nothing joins behind a write to places that indices choose, as into a key-value
cache: who reads these places must wait until all are written. A copy that lays a tensor out anew
stays as it is: the kernel behind it needs the copy. The rule for concatenations was
chosen so that it agrees with what torch.compile left of one model's step (484 kernels told, 508
left, attention apart): other models may differ more.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from decodeprof.analysis.replay.program import Program
from decodeprof.model.families import family
from decodeprof.model.trace import I8, I64, NONE, ActivityKind, Trace

_REDUCTIONS = frozenset({"norm", "softmax", "reduction"})
_POINTWISE = frozenset({"elementwise", "gather and scatter"})
ALONE, POINTWISE, REDUCTION, CONCATENATION, SCATTER = 0, 1, 2, 3, 4
_ROLES = {
    **dict.fromkeys(_REDUCTIONS, REDUCTION),
    **dict.fromkeys(_POINTWISE, POINTWISE),
    "concatenate": CONCATENATION,
}
# torch's kernels that write where indices say; a gather is an instance of the same template.
_SCATTERS = re.compile(
    r"index_copy|index_put|index_add|index_fill|masked_scatter"
    r"|scatter_gather_internal_kernel<true|scatter_add|scatter_fill|scatter_reduce"
)
# torch's copy of a strided tensor that keeps its type: keys and values expanded for attention. A
# copy that changes the type is another kernel.
_LAYS_OUT = re.compile(r"gpu_kernel_impl_nocast<at::native::direct_copy_kernel")
SHORT_NS = 3_000
"""A kernel this short waits for its launch and its memory's latency more than for bytes."""
_COMPILED_REDUCTION = re.compile(r"triton_(per|red|mix)_")


@dataclass(frozen=True)
class Traffic:
    """Bytes that activities move, where they are known."""

    bytes: I64
    """Row-aligned with `Trace.device`; -1: unknown."""
    bytes_per_s: float


def roles(trace: Trace, program: Program) -> I8:
    """For each activity: ALONE, or how it can be part of a fused kernel."""
    found = np.zeros(program.activities, np.int8)
    by_name: dict[int, int] = {}
    for at, row in enumerate(program.activity.tolist()):
        if row == NONE or trace.device.kind[row] != ActivityKind.KERNEL:
            continue
        name = int(trace.device.name[row])
        if name not in by_name:
            by_name[name] = role_of(trace.names[name])
        found[at] = by_name[name]
    return found


def role_of(kernel: str) -> int:
    """How a kernel of this name can be part of a fused one."""
    found = family(kernel)
    if found == "fused by a compiler":  # Named after all that it does, scatters among them.
        return REDUCTION if _COMPILED_REDUCTION.match(kernel) else POINTWISE
    if _LAYS_OUT.search(kernel):
        return ALONE
    return SCATTER if _SCATTERS.search(kernel) else _ROLES.get(found, ALONE)


def chains(program: Program, role: I8) -> I64:
    """For each activity the index of the fused activity that it becomes part of, from 0."""
    events = program.events
    chain = np.zeros(program.activities, np.int64)
    roles_ = role.tolist()
    number, open_on = -1, NONE
    once: set[int] = set()
    rows = zip(
        events.is_launch.tolist(),
        events.stream.tolist(),
        events.first.tolist(),
        events.count.tolist(),
        events.step.tolist(),
        strict=True,
    )
    at_step = NONE
    for launches, stream, first, count, step in rows:
        if not launches or step != at_step:
            open_on, at_step = NONE, step
        if not launches:
            continue
        for at in range(first, first + count):
            what = roles_[at]
            joins = what != ALONE and open_on == stream and what not in once
            if not joins:
                number += 1
                once.clear()
            if what in (REDUCTION, CONCATENATION):
                once.add(what)
            open_on = NONE if what in (ALONE, SCATTER) else stream
            chain[at] = number
    return chain


def fused(program: Program, role: I8, traffic: Traffic | None = None) -> Program:
    """The same with each chain as one activity, launched by the chain's first launch.

    The fused kernel moves the bytes of its largest part, after the fixed cost that the median part
    has. Where bytes are not known, the median part tells of short kernels, which have no other
    cost, and the longest of others. It never takes longer than its longest part.
    """
    chain = chains(program, role)
    if not len(chain):
        return program
    begins = np.flatnonzero(np.diff(chain, prepend=-1))
    duration = _durations(program, begins, traffic)
    events = program.events
    is_begin = np.zeros(len(chain) + 1, np.int64)
    is_begin[begins] = 1
    before = np.r_[0, np.cumsum(is_begin[:-1])]
    begun = before[events.first + events.count] - before[events.first]
    count = np.where(events.count > 0, begun, 0)
    kept = ~(events.is_launch & (events.count > 0) & (count == 0))
    # A graph's launch costs the host the less the fewer nodes it has.
    share = np.where(events.count > 1, 1 - count / np.maximum(events.count, 1), 0.0)
    left = np.maximum(count - 1, 0) / np.maximum(events.count - 1, 1)
    lost = np.rint(events.own_ns * share).astype(np.int64)
    work = np.maximum(events.work_ns - np.r_[0, lost[:-1]], 0)
    changed = replace(
        events,
        first=before[events.first],
        count=count,
        between_ns=np.rint(events.between_ns * left).astype(np.int64),
        own_ns=events.own_ns - lost,
        submit_ns=np.rint(events.submit_ns * (1 - share)).astype(np.int64),
        work_ns=work,
        python_ns=np.minimum(events.python_ns, work),
    )
    # The work of launches that are gone goes with them: it was their dispatch.
    return replace(
        program,
        events=changed.take(kept),
        tail_ns=max(program.tail_ns - int(lost[-1]), 0),
        duration_ns=duration,
        activity=program.activity[begins],
    )


def _durations(program: Program, begins: I64, traffic: Traffic | None) -> I64:
    """What each chain takes as one kernel, in ns."""
    whole = program.duration_ns
    size = np.full(len(whole), NONE)
    moving = np.zeros(len(whole))
    if traffic is not None:
        known = program.activity != NONE
        size = np.where(known, traffic.bytes[np.where(known, program.activity, 0)], NONE)
        moving = np.maximum(size, 0) / traffic.bytes_per_s * 1e9
    longest = np.maximum.reduceat(whole, begins)
    told = (np.minimum.reduceat(size, begins) >= 0) | (longest <= SHORT_NS)
    time = _medians(np.maximum(whole - moving, 0), begins) + np.maximum.reduceat(moving, begins)
    return np.where(told, np.minimum(np.rint(time).astype(np.int64), longest), longest)


def _medians(values: NDArray[np.float64], begins: I64) -> NDArray[np.float64]:
    """The lower median of each run of values."""
    run = np.repeat(np.arange(len(begins)), np.diff(np.r_[begins, len(values)]))
    ordered = values[np.lexsort((values, run))]
    last = np.r_[begins[1:], len(values)] - 1
    middle: NDArray[np.float64] = ordered[(begins + last) // 2]
    return middle
