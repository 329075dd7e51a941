"""More sequences could be decoded in the same step before it gets longer.

What it measures:
    Where the host bounds the step, the step is replayed with more and more rows until it takes
    10 % longer; without shapes or measured ceilings, how far it is above what the device alone
    needs tells less. Where the bytes bound it, the batch may grow until the operations take as long
    as the bytes.

Why it costs time:
    It does not cost a token's latency; it costs throughput. A host-bound step takes as long for one
    sequence as for many, since it makes the same launches. A memory-bound step reads the same
    weights for one sequence as for many.

Thresholds:
    Double the batch: less than that is within what such a crossing can be predicted to. A step
    counts as longer from 10 % on, as in `decodeprof sweep`.

What to do:
    Decode several sequences together: batch the requests, or add requests to a running batch
    (continuous batching) with a KV cache that has a place for each.

When to ignore it:
    When there is only ever one request at a time, or when the KV cache fills the memory first.
"""

from __future__ import annotations

import math

from decodeprof import units
from decodeprof.diagnosis import gates, telling
from decodeprof.diagnosis.judging import Case, Clear, CouldNotTell, Found, Outcome
from decodeprof.diagnosis.larger_step import MOST_TIMES, batch_with_room
from decodeprof.model.diagnosis import Evidence, Floors, Recommendation

CODE = "batch-room"
TITLE = "the batch could be larger before the step gets longer"

LEAST_RATIO = 2.0


def judge(case: Case) -> Outcome:
    """Predict the batch at which the bound changes."""
    missing = gates.unable(case, "device")
    if missing is not None:
        return missing
    floors, step_ns = case.diagnosis.floors, case.step_ns
    if floors is None or not floors.device_ns or not step_ns:
        return CouldNotTell(
            reason="the device's own time for a step is not known", capture=gates.PROFILE
        )
    if case.diagnosis.verdict.bound_by in ("launch", "sync"):
        foreseen = _foreseen(case)
        if foreseen is not None:
            return foreseen
        ratio, why = _until_device(case, floors, step_ns)
    elif floors.bytes_ns is not None and floors.flops_ns:
        ratio, why = _until_operations(floors)
    else:
        return CouldNotTell(
            reason="what a step must move and compute is not known", capture=gates.PROFILE
        )
    if ratio < LEAST_RATIO:
        return Clear()
    batch = case.diagnosis.generation.batch if case.diagnosis.generation else None
    times = math.floor(ratio)
    size = (
        f"{units.counted(times * batch, 'sequence')} instead of {batch}"
        if batch
        else f"{times} × the batch"
    )
    at = "at least " if case.diagnosis.verdict.bound_by in ("launch", "sync") else "up to about "
    return _found(
        case,
        f"A step could decode {at}{size} before it takes longer than {units.time(step_ns)}"
        f"{telling.timed(case)}.",
        why,
    )


def _foreseen(case: Case) -> Outcome | None:
    """By replay of the step with more rows, where the recording tells how its kernels grow."""
    generation, step = case.diagnosis.generation, case.diagnosis.step
    batch = generation.batch if generation else None
    if batch is None or step is None or step.unprofiled_ns is None:
        return None
    room = batch_with_room(case.evidence, batch=batch, step_ns=step.unprofiled_ns.median)
    if room is None:
        return None
    if room < LEAST_RATIO * batch:
        return Clear()
    most = "at least" if room >= MOST_TIMES * batch else "about"
    return _found(
        case,
        f"A step could decode {most} {units.counted(room, 'sequence')} instead of {batch} before "
        "it takes 10 % longer.",
        telling.modelled(
            "the step was replayed with more rows: products and copies grow with their bytes and "
            "operations, the host makes the same launches; measured sweeps of three shapes left "
            "their plateau 7 to 12 % before the batch that was foreseen, a toy loop 31 %"
        ),
    )


def _found(case: Case, summary: str, why: Evidence) -> Found:
    found = telling.finding(
        case,
        CODE,
        summary,
        evidence=[why],
        advice=[
            Recommendation(
                what="Decode more sequences in each step",
                how="stack the prompts into one batch (left padding and a mask, or one KV slot for "
                "each sequence with its own position); in a server, admit requests into the "
                "running batch",
                verify=telling.again(case, look="tokens a second, with the step nearly as long"),
                risk="the KV cache grows with the batch: see that it fits into memory",
            )
        ],
    )
    return Found((found,))


def _until_device(case: Case, floors: Floors, step_ns: int) -> tuple[float, Evidence]:
    assert floors.device_ns is not None
    return step_ns / floors.device_ns, telling.modelled(
        f"the device needs {units.time(floors.device_ns)} of the {units.time(step_ns)}"
        f"{telling.timed(case)}; assumes that no kernel's time grows faster than the batch (most "
        "grow far less) and that the host makes the same launches"
    )


def _until_operations(floors: Floors) -> tuple[float, Evidence]:
    assert floors.bytes_ns is not None
    assert floors.flops_ns
    return floors.bytes_ns / floors.flops_ns, telling.modelled(
        f"the step's bytes take {units.time(floors.bytes_ns)} and its operations "
        f"{units.time(floors.flops_ns)}; assumes that weights are most of the bytes, so that only "
        "the operations grow with the batch"
    )
