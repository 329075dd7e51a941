"""What do copies, fills, look-ups, scatters and concatenations move?

A look-up reads the rows it fetches, not the table; a scatter writes what it is given, not the
tensor that it writes into.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from decodeprof.analysis.traffic.operands import (
    ITEM_BYTES,
    Arguments,
    Operand,
    UnknownSizeError,
    Work,
    broadcast,
)
from decodeprof.model.trace import OpDetail

_INDEX_BYTES = ITEM_BYTES["long int"]


def copy(name: str, detail: OpDetail) -> Work:  # noqa: ARG001
    """`copy_(self, source)`: the source read, self written, each in its own type."""
    arguments = Arguments(detail)
    return Work(arguments.tensor(1).bytes, arguments.tensor(0).full_bytes)


def fill(name: str, detail: OpDetail) -> Work:  # noqa: ARG001
    """Fills, zeros and random numbers in place: self written."""
    return Work(0, Arguments(detail).tensor(0).full_bytes)


def arange(name: str, detail: OpDetail) -> Work:  # noqa: ARG001
    """`arange(start, end, step, out)`: the form that runs a kernel names its result."""
    arguments = Arguments(detail)
    outputs = arguments.tensors()
    if not outputs:
        raise UnknownSizeError("arange without its result")
    try:
        numbers = [float(text) for text in detail.scalars[:3] if text]
    except ValueError:
        raise UnknownSizeError("arange of unknown numbers") from None
    start, end, step = (0.0, 1.0, 1.0)
    if len(numbers) == 1:
        end = numbers[0]
    elif len(numbers) == 3 and numbers[2]:
        start, end, step = numbers
    else:
        raise UnknownSizeError("arange of unknown numbers")
    return Work(0, max(math.ceil((end - start) / step), 0) * outputs[-1].item_bytes)


def embedding(name: str, detail: OpDetail) -> Work:  # noqa: ARG001
    """`embedding(weight, indices)`: a row for each index."""
    arguments = Arguments(detail)
    table, indices = arguments.tensor(0), arguments.tensor(1)
    moved = indices.elements * table.shape[-1] * table.item_bytes
    return Work(moved + indices.bytes, moved)


def index_select(name: str, detail: OpDetail) -> Work:  # noqa: ARG001
    """`index_select(self, dim, index)`: a slice for each index."""
    arguments = Arguments(detail)
    table, index = arguments.tensor(0), arguments.tensor(2)
    dimensions = arguments.integers(1)
    if not dimensions or not table.shape:
        raise UnknownSizeError("index_select without a dimension")
    slices = table.elements // max(table.shape[dimensions[0]], 1)
    moved = slices * index.elements * table.item_bytes
    return Work(moved + index.bytes, moved)


def gather(name: str, detail: OpDetail) -> Work:  # noqa: ARG001
    """`gather(self, dim, index)`: an element for each index."""
    arguments = Arguments(detail)
    table, index = arguments.tensor(0), arguments.tensor(2)
    moved = index.elements * table.item_bytes
    return Work(moved + index.bytes, moved)


def scatter(name: str, detail: OpDetail) -> Work:
    """`scatter_(self, dim, index, source)`: an element for each index; adding reads it first."""
    arguments = Arguments(detail)
    target, index = arguments.tensor(0), arguments.tensor(2)
    source = arguments.maybe(3)
    moved = index.elements * target.item_bytes
    # A source may be larger than the index: only what is indexed is read.
    read = index.bytes + (min(source.bytes, moved) if source and source.shape else 0)
    if "add" in name or "reduce" in name or detail.scalars[4:5] not in ((), ("",)):
        read += moved
    return Work(read, moved)


def index_copy(name: str, detail: OpDetail) -> Work:
    """`index_copy_(self, dim, index, source)` and index_add_: the source's slices."""
    arguments = Arguments(detail)
    target, index, source = arguments.tensor(0), arguments.tensor(2), arguments.tensor(3)
    written = source.elements * target.item_bytes
    read = index.bytes + source.bytes + (written if "add" in name else 0)
    return Work(read, written)


def index_fill(name: str, detail: OpDetail) -> Work:  # noqa: ARG001
    """`index_fill_(self, dim, index, value)`: a slice for each index."""
    arguments = Arguments(detail)
    target, index = arguments.tensor(0), arguments.tensor(2)
    dimensions = arguments.integers(1)
    if not dimensions or not target.shape:
        raise UnknownSizeError("index_fill_ without a dimension")
    slices = target.elements // max(target.shape[dimensions[0]], 1)
    return Work(index.bytes, slices * index.elements * target.item_bytes)


def _indexed(target: Operand, indices: tuple[tuple[int, ...], ...]) -> tuple[int, int]:
    """Elements that a list of indices selects, and indices read.

    Only for indices into the leading dimensions, one tensor for each: where some are left out
    (a slice), profilers record no list.
    """
    if len(indices) > len(target.shape):
        raise UnknownSizeError("more indices than dimensions")
    places = math.prod(broadcast(indices))
    return places * math.prod(target.shape[len(indices) :]), sum(math.prod(s) for s in indices)


def index(name: str, detail: OpDetail) -> Work:  # noqa: ARG001
    """`index(self, indices)`: what the indices select, where the profiler recorded their shapes."""
    arguments = Arguments(detail)
    table = arguments.tensor(0)
    elements, indices = _indexed(table, arguments.shapes_of_list(1))
    moved = elements * table.item_bytes
    return Work(moved + indices * _INDEX_BYTES, moved)


def index_put(name: str, detail: OpDetail) -> Work:  # noqa: ARG001
    """`index_put_(self, indices, values, accumulate)`: what the indices select is written."""
    arguments = Arguments(detail)
    target, values = arguments.tensor(0), arguments.tensor(2)
    elements, indices = _indexed(target, arguments.shapes_of_list(1))
    written = elements * target.item_bytes
    read = values.bytes + indices * _INDEX_BYTES + (written if arguments.flag(3) else 0)
    return Work(read, written)


def concatenation(detail: OpDetail, item_bytes: int) -> Work:
    """`cat(tensors)`: all read and written once.

    Args:
        detail: the op's arguments.
        item_bytes: bytes of an element, which its arguments do not tell: the kernel's name does.
    """
    shapes = Arguments(detail).shapes_of_list(0)
    moved = sum(math.prod(shape) for shape in shapes) * item_bytes
    return Work(moved, moved)


def _rms_norm(name: str, detail: OpDetail) -> Work:
    """VLLM's `rms_norm(out, input, weight)`, and `fused_add_rms_norm(input, residual, weight)`."""
    arguments = Arguments(detail)
    first, second, weight = (arguments.tensor(i) for i in range(3))
    if "fused_add" in name:
        both = first.bytes + second.bytes
        return Work(both + weight.bytes, both)
    return Work(second.bytes + weight.bytes, first.full_bytes)


def _out_of_input(name: str, detail: OpDetail) -> Work:  # noqa: ARG001
    """VLLM's ops of the form `op(out, input, …)`: the rest read, out written."""
    arguments = Arguments(detail)
    return Work(sum(x.bytes for x in arguments.tensors(1)), arguments.tensor(0).full_bytes)


def _cache_write(name: str, detail: OpDetail) -> Work:  # noqa: ARG001
    """VLLM's `reshape_and_cache_flash(key, value, key_cache, value_cache, slots, …)`."""
    arguments = Arguments(detail)
    key, value, keys, values, slots = (arguments.tensor(i) for i in range(5))
    written = key.elements * keys.item_bytes + value.elements * values.item_bytes
    return Work(key.bytes + value.bytes + slots.bytes, written)


Counter = Callable[[str, OpDetail], Work]
_FILLS = ("fill_", "zero_", "uniform_", "normal_", "exponential_", "random_", "bernoulli_")
COUNTERS: dict[str, Counter] = {
    **{f"aten::{name}": fill for name in _FILLS},
    "aten::copy_": copy,
    "aten::arange": arange,
    "aten::embedding": embedding,
    "aten::index_select": index_select,
    "aten::gather": gather,
    "aten::scatter": scatter,
    "aten::scatter_": scatter,
    "aten::scatter_add_": scatter,
    "aten::scatter_reduce_": scatter,
    "aten::index_copy_": index_copy,
    "aten::index_add_": index_copy,
    "aten::index_fill_": index_fill,
    "aten::index": index,
    "aten::index_put_": index_put,
    "aten::_index_put_impl_": index_put,
    "_C::rms_norm": _rms_norm,
    "_C::fused_add_rms_norm": _rms_norm,
    "_C::silu_and_mul": _out_of_input,
    "_C::gelu_and_mul": _out_of_input,
    "_C::static_scaled_fp8_quant": _out_of_input,
    "_C_cache_ops::reshape_and_cache_flash": _cache_write,
}
"""For each op's name the function that counts it."""
