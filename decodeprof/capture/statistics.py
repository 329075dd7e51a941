"""How well is a median known?"""

from __future__ import annotations

import math
from collections.abc import Sequence

_FEWEST_FOR_INTERVAL = 6
"""With five samples or fewer, no pair of order statistics covers 95 %."""
_NORMAL_95 = 1.959964


def lower_median(samples: Sequence[int]) -> int:
    """The middle sample, the lower of two: always one that occurred."""
    return sorted(samples)[(len(samples) - 1) // 2]


def half_interval_share(samples: Sequence[int]) -> float | None:
    """Half the width of the median's 95 % interval, over the median.

    The interval lies between two order statistics, the ranks that a binomial with p = 1/2 leaves
    2.5 % below and above (normal approximation; distribution-free). None with fewer than six
    samples, or a median of 0.
    """
    count = len(samples)
    middle = lower_median(samples) if samples else 0
    if count < _FEWEST_FOR_INTERVAL or middle <= 0:
        return None
    ordered = sorted(samples)
    reach = _NORMAL_95 * math.sqrt(count) / 2
    low = max(0, math.floor(count / 2 - reach) - 1)
    high = min(count - 1, math.ceil(count / 2 + reach))
    return (ordered[high] - ordered[low]) / 2 / middle
