"""Which operators a dispatch mode takes apart."""

from __future__ import annotations

import pytest
import torch

from decodeprof.capture.composite import made_of_others, take_apart

aten = torch.ops.aten


@pytest.mark.parametrize(
    "func", [aten.to.device, aten.to.dtype_layout, aten.item.default, aten.reshape.default]
)
def test_operators_without_kernels_of_their_own_are_taken_apart(func: object) -> None:
    assert made_of_others(func)


@pytest.mark.parametrize(
    "func",
    [
        aten._to_copy.default,
        aten._local_scalar_dense.default,
        aten.mm.default,
        # Made of others, with a kernel beside that: taken apart, something else would run.
        aten.silu_backward.default,
        torch.ops.higher_order.cond,
    ],
)
def test_others_are_not(func: object) -> None:
    assert not made_of_others(func)


def test_what_runs_is_what_runs_otherwise() -> None:
    x = torch.ones(4)
    # With nothing to drop there is no copy.
    assert take_apart(aten.dropout.default, (x, 0.5, False), {}).data_ptr() == x.data_ptr()
    assert take_apart(aten.item.default, (x.sum(),), {}) == 4.0
