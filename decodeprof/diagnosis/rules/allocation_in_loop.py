"""The decode loop allocates or frees device memory from the driver.

What it measures:
    Calls of cudaMalloc, cudaFree and their like in decode steps, and what PyTorch's caching
    allocator counted in one unprofiled call: allocations, frees, retries after a failed one, and
    how much of its memory lies in pieces that it cannot give back.

Why it costs time:
    The caching allocator serves a step from memory that it already holds, in about a µs. When it
    must ask the driver, the call takes 0.1 to 1 ms, and freeing waits until the device is idle. A
    retry means that memory ran out: all cached blocks are freed and asked for again.

Thresholds:
    Two steps that allocate: one is warm-up, two in one recording are a habit. Fragmentation
    counts from a quarter of the reserved memory in leftover pieces, since blocks partly in use
    are normal, and from 256 MiB, which is more than the allocator rounds one large request up
    to.

What to do:
    Allocate once, before the loop: a KV cache of its final size, static input and output buffers.
    For sizes that must vary, PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True keeps pieces from
    being left over.

When to ignore it:
    When it happens in one early step only: that is warm-up, and one-off-costs says it.
"""

from __future__ import annotations

from decodeprof import units
from decodeprof.analysis.allocations import Allocations, allocations
from decodeprof.diagnosis import gates, telling
from decodeprof.diagnosis.judging import Case, Clear, Found, Outcome
from decodeprof.model.diagnosis import Evidence, Recommendation
from decodeprof.recording import Allocator

CODE = "allocation-in-loop"
TITLE = "device memory is allocated or freed in the decode loop"

FEWEST_STEPS = 2
FRAGMENTED_SHARE = 0.25
FRAGMENTED_BYTES = 256 * 2**20


def judge(case: Case) -> Outcome:
    """Find steps that allocate, or an allocator that had to ask the driver while decoding."""
    missing = gates.unable(case, "device", "calls")
    if missing is not None:
        return missing
    seen = allocations(case.evidence.trace, case.evidence.steps, case.evidence.nesting)
    allocator = case.evidence.recording.allocator if case.evidence.recording else None
    in_steps = seen.steps_with >= FEWEST_STEPS
    asked = allocator is not None and (allocator.device_allocs > 0 or allocator.alloc_retries > 0)
    fragmented = allocator is not None and _is_fragmented(allocator)
    if not (in_steps or asked or fragmented):
        return Clear()
    evidence: list[Evidence] = []
    if seen.steps_with:
        evidence.append(_in_steps(seen))
    if allocator is not None:
        evidence.append(_figures(allocator))
    found = telling.finding(
        case,
        CODE,
        _summary(seen, allocator, in_steps=in_steps, asked=asked),
        evidence=evidence,
        advice=[_advice(case)],
    )
    return Found((found,))


def _is_fragmented(allocator: Allocator) -> bool:
    left = allocator.inactive_split_bytes
    return left >= FRAGMENTED_BYTES and left >= FRAGMENTED_SHARE * allocator.peak_reserved_bytes


def _summary(seen: Allocations, allocator: Allocator | None, *, in_steps: bool, asked: bool) -> str:
    if in_steps:
        return (
            f"{seen.steps_with} of {units.counted(seen.steps, 'decode step')} allocate or free "
            f"device memory, {units.time(seen.call_ns / seen.steps_with)} each in profiled time."
        )
    assert allocator is not None
    if asked:
        return (
            f"{units.counted(allocator.device_allocs, 'allocation')} from the driver and "
            f"{units.counted(allocator.alloc_retries, 'retry', 'retries')} in one unprofiled call, "
            "after its warm-up."
        )
    share = allocator.inactive_split_bytes / max(allocator.peak_reserved_bytes, 1)
    return (
        f"{units.bytes_(allocator.inactive_split_bytes)} of device memory, {units.share(share)} of "
        "what PyTorch holds, lies in leftover pieces of larger blocks."
    )


def _in_steps(seen: Allocations) -> Evidence:
    calls = ", ".join(f"{n} × {name}" for name, n in seen.calls.items())
    by = f", by {', '.join(f'`{op}`' for op in seen.ops[:3])}" if seen.ops else ""
    return telling.measured(
        f"{calls} in {seen.steps_with} of {units.counted(seen.steps, 'decode step')}{by}; "
        f"{seen.steady_with} of these steps {'is' if seen.steady_with == 1 else 'are'} steady"
    )


def _figures(allocator: Allocator) -> Evidence:
    return telling.measured(
        f"in one unprofiled call: {units.counted(allocator.device_allocs, 'allocation')}, "
        f"{units.counted(allocator.device_frees, 'free')}, "
        f"{units.counted(allocator.alloc_retries, 'retry', 'retries')}; peak "
        f"{units.bytes_(allocator.peak_allocated_bytes)} in use of "
        f"{units.bytes_(allocator.peak_reserved_bytes)} held; "
        f"{units.bytes_(allocator.inactive_split_bytes)} in leftover pieces"
    )


def _advice(case: Case) -> Recommendation:
    return Recommendation(
        what="Allocate what the loop needs before it begins",
        how="torch.empty the KV cache at its final length and write to it with index_copy_ or a "
        "slice; give ops an out= buffer; no torch.cuda.empty_cache() in the loop; else set "
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
        verify=telling.again(case, look="no step is left out for allocating, and 0 allocations"),
        risk="a cache of the final size is held from the start, whatever length is reached",
    )
