from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from decodeprof import mark
from decodeprof.analysis.shapes import (
    Growth,
    attention_lengths,
    compared_steps,
    growing,
    query_lengths,
)
from decodeprof.analysis.steps.found import Steps
from decodeprof.analysis.traffic.columns import KernelTraffic
from decodeprof.analysis.traffic.kernels import kernel_traffic
from tests.build import TraceBuilder
from tests.reading import steps_of, trace_of

US = 1_000
Shapes = tuple[tuple[int, ...], ...]


def loop(
    shapes: Callable[[int], Shapes], *, op: str = "aten::mm", steps: int = 6
) -> tuple[KernelTraffic, Steps]:
    b = TraceBuilder()
    for index in range(steps):
        with b.annotation(mark.label(mark.STEP, phase="decode")), b.op(op, shapes=shapes(index)):
            b.launch("kernel", 5 * US)
    trace = trace_of(b.build())
    found = steps_of(trace)
    return kernel_traffic(trace, found), found


def test_one_dimension_that_grows_evenly_is_told_with_its_bytes() -> None:
    traffic, steps = loop(lambda i: ((4, 10 + 3 * i), (10 + 3 * i, 8)))
    assert growing(traffic, steps) == [
        Growth(
            op="aten::mm",
            count=1,
            first=(4, 10),
            last=(4, 25),
            per_step=3,
            # (4 × 25 + 25 × 8 + 4 × 8) numbers of 2 bytes.
            bytes_per_step=664,
        )
    ]


@pytest.mark.parametrize(
    "length",
    [lambda _: 10, lambda i: 30 - i, lambda i: 10 + i * i, lambda i: 10 + i // 2],
    ids=["constant", "shrinks", "grows faster", "every other step"],
)
def test_other_changes_are_no_even_growth(length: Callable[[int], int]) -> None:
    traffic, steps = loop(lambda i: ((4, length(i)), (length(i), 8)))
    assert growing(traffic, steps) == []


def test_two_steps_or_none_alike_tell_nothing() -> None:
    traffic, steps = loop(lambda i: ((4, 10 + i), (10 + i, 8)), steps=2)
    assert growing(traffic, steps) is None


def test_query_lengths_come_from_attention_where_no_mark_gives_them() -> None:
    key = (1, 8, 40, 64)
    op = "aten::scaled_dot_product_attention"
    traffic, steps = loop(lambda i: ((1, 8, 2 + i, 64), key, key), op=op, steps=4)
    assert list(query_lengths(traffic, steps).values()) == [2, 3, 4, 5]
    lengths = attention_lengths(traffic, steps, 1)
    assert lengths is not None
    assert (lengths.queries, lengths.keys, lengths.layers) == (3, 40, 1)
    # 8 heads, a key and a value of 64 numbers of 2 bytes.
    assert lengths.bytes_per_key == 8 * 128 * 2


def test_steps_compared_follow_each_other() -> None:
    _, steps = loop(lambda _: ((4, 8), (8, 8)))
    assert compared_steps(steps).tolist() == [0, 1, 2, 3, 4, 5]
    measured = steps.measured.copy()
    measured[2] = False
    assert compared_steps(replace(steps, measured=measured)).tolist() == [3, 4, 5]
    nothing = replace(steps, measured=np.zeros(6, np.bool_))
    assert compared_steps(nothing).tolist() == []
