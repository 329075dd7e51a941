"""Which batch sizes should graphs be captured for?

A graph serves one batch size, so a live batch is padded up to the next captured one. What that
costs is the step at the bucket less the step at the live size, over the sizes that really occur:
next to nothing while a step's time does not depend on the batch, and much where it does.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Mapping, Sequence

from decodeprof.errors import UsageError
from decodeprof.model.sweep import BucketPlan

BEST_COUNTS = (1, 2, 4, 8)
"""Numbers of buckets for which the cheapest plan is sought."""
MOST_SIZES = 512
"""The search takes the square of the number of sizes that occur."""

Times = Mapping[int, int]
"""Step time in ns by batch size."""


def step_ns(times: Times, size: int) -> float | None:
    """The step at a batch size, between the measured ones along a straight line of logarithms.

    None beyond the largest: a guess would decide between plans.
    """
    known = sorted(times)
    at = bisect.bisect_left(known, size)
    if at == len(known):
        return None
    if known[at] == size or at == 0:
        return float(times[known[at]])
    left, right = known[at - 1], known[at]
    share = math.log(size / left) / math.log(right / left)
    return float(times[left] * (times[right] / times[left]) ** share)


def weigh(name: str, buckets: Sequence[int], live: Mapping[int, int], times: Times) -> BucketPlan:
    """What a plan costs over a histogram of live batch sizes.

    Args:
        name: of the plan.
        buckets: sizes that are captured.
        live: how often each batch size occurs.
        times: measured step times.

    Raises:
        UsageError: the largest live batch fits no bucket.
    """
    buckets = sorted(set(buckets))
    _refuse(buckets, live)
    real = padded = 0
    spent = needed = 0.0
    known = True
    for size, count in live.items():
        bucket = buckets[bisect.bisect_left(buckets, size)]
        real += size * count
        padded += bucket * count
        at_bucket, at_size = step_ns(times, bucket), step_ns(times, size)
        if at_bucket is None or at_size is None:
            known = False
            continue
        spent += at_bucket * count
        needed += at_size * count
    steps = sum(live.values())
    return BucketPlan(
        name=name,
        buckets=list(buckets),
        time_share=1 - needed / spent if known and spent else None,
        rows_share=1 - real / padded,
        step_ns=round(spent / steps) if known else None,
    )


def plans(
    live: Mapping[int, int], times: Times, asked: Sequence[Sequence[int]]
) -> list[BucketPlan]:
    """The plans that were asked for, the usual ones, and the cheapest of a few sizes.

    Args:
        live: how often each batch size occurs.
        times: measured step times.
        asked: plans of the user's own.

    Raises:
        UsageError: a plan of the user's has no bucket for the largest live batch, or nothing or
            too much is live.
    """
    refuse(live, asked)
    largest = max(live)
    powers = [2**power for power in range(largest.bit_length() + 1) if 2**power < 2 * largest]
    eights = [1, 2, 4, *range(8, largest + 8, 8)]
    found = [weigh("as asked", buckets, live, times) for buckets in asked]
    found.append(weigh("powers of two", powers, live, times))
    found.append(weigh("1, 2, 4 and multiples of 8", eights, live, times))
    if all(step_ns(times, size) is not None for size in live):
        for count in BEST_COUNTS:
            if count <= len(live):
                best = cheapest(live, times, count)
                found.append(weigh(f"cheapest of {count}", best, live, times))
    return found


def refuse(live: Mapping[int, int], asked: Sequence[Sequence[int]]) -> None:
    """Refuse what `plans` refuses, before anything is measured.

    Raises:
        UsageError: as `plans`.
    """
    if not live or min(live) < 1 or min(live.values()) < 1:
        raise UsageError("a histogram of live batches needs sizes and counts of at least 1")
    if len(live) > MOST_SIZES:
        raise UsageError(f"{len(live)} batch sizes are too many", why=f"at most {MOST_SIZES}")
    for buckets in asked:
        _refuse(sorted(buckets), live)


def cheapest(live: Mapping[int, int], times: Times, count: int) -> list[int]:
    """The plan of at most `count` buckets with the least mean step.

    Each bucket is a live size, or a larger one that was measured to take less: kernels may be
    faster at rounder sizes. Found exactly, by dynamic programming over the sizes in order.
    """
    sizes = sorted(live)
    total = [0]
    for size in sizes:
        total.append(total[-1] + live[size])
    serving = [_least(times, size) for size in sizes]
    at = [time for time, _ in serving]
    # best[j]: the least time of the sizes before j, and the start of the last bucket's sizes.
    best = [0.0] + [math.inf] * len(sizes)
    chosen: list[list[int]] = []
    for _ in range(min(count, len(sizes))):
        following = [0.0] + [math.inf] * len(sizes)
        starts = [0] * (len(sizes) + 1)
        for end in range(1, len(sizes) + 1):
            options = [
                (best[start] + at[end - 1] * (total[end] - total[start]), start)
                for start in range(end)
            ]
            following[end], starts[end] = min(options)
        best = following
        chosen.append(starts)
    buckets, end = [], len(sizes)
    for starts in reversed(chosen):
        if end == 0:
            break
        buckets.append(serving[end - 1][1])
        end = starts[end]
    return sorted(set(buckets))


def _least(times: Times, size: int) -> tuple[float, int]:
    """The least step that holds so many rows, and the smallest bucket at which it was found."""
    larger = [(float(ns), measured) for measured, ns in times.items() if measured > size]
    return min([(step_ns(times, size) or 0.0, size), *larger])


def _refuse(buckets: Sequence[int], live: Mapping[int, int]) -> None:
    if not buckets or buckets[0] < 1:
        raise UsageError("a plan needs buckets of at least 1")
    if max(live) > buckets[-1]:
        raise UsageError(
            f"a live batch of {max(live)} fits no bucket",
            why=f"the largest of the plan is {buckets[-1]}",
        )
