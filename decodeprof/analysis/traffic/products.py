"""What do matrix products and attention move and compute, and which operand is the weight?"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from decodeprof.analysis.traffic.operands import (
    ITEM_BYTES,
    Arguments,
    Operand,
    UnknownSizeError,
    Work,
    broadcast,
)
from decodeprof.model.trace import OpDetail

# Position of the left operand, by op; the right one follows. What stands before is added.
_PRODUCTS = {
    "aten::mm": 0,
    "aten::bmm": 0,
    "aten::matmul": 0,
    "aten::mv": 0,
    "aten::dot": 0,
    "aten::addmm": 1,
    "aten::addmm_": 1,
    "aten::_addmm_activation": 1,
    "aten::baddbmm": 1,
    "aten::addmv": 1,
    "aten::_scaled_mm": 0,
    "aten::_int_mm": 0,
    "aten::linear": 0,
}
_LINEAR = "aten::linear"
# Position of out_dtype in _scaled_mm(a, b, scale_a, scale_b, bias, scale_result, out_dtype, …).
_SCALED_MM_BIAS, _SCALED_MM_DTYPE = 4, 6

# Attention ops by the order of their operands' dimensions: (batch, heads, length, width), or
# (batch, length, heads, width) for the two that take them so; the latter also take packed
# sequences as (length, heads, width).
_HEADS_FIRST = frozenset(
    {
        "aten::scaled_dot_product_attention",
        "aten::_scaled_dot_product_flash_attention",
        "aten::_scaled_dot_product_efficient_attention",
        "aten::_scaled_dot_product_cudnn_attention",
        "aten::_scaled_dot_product_attention_math",
        "aten::_scaled_dot_product_fused_attention_overrideable",
        "aten::_cudnn_attention_forward",
    }
)
_LENGTH_FIRST = frozenset({"aten::_flash_attention_forward", "aten::_efficient_attention_forward"})
ATTENTION = _HEADS_FIRST | _LENGTH_FIRST
# Where each op says whether it is causal, and where a mask or bias stands.
_CAUSAL_AT = {
    "aten::scaled_dot_product_attention": 5,
    "aten::_scaled_dot_product_flash_attention": 4,
    "aten::_scaled_dot_product_efficient_attention": 6,
    "aten::_scaled_dot_product_cudnn_attention": 6,
    "aten::_scaled_dot_product_attention_math": 5,
    "aten::_cudnn_attention_forward": 10,
    "aten::_flash_attention_forward": 8,
}
_MASK_AT = 3
_NO_MASK = frozenset(
    {"aten::_scaled_dot_product_flash_attention", "aten::_flash_attention_forward"}
)
_FLASH = "aten::_flash_attention_forward"
_EFFICIENT = "aten::_efficient_attention_forward"
# In _flash_attention_forward and _efficient_attention_forward: offsets of packed sequences, and
# what narrows the keys that are read.
_PACKED_AT = {_FLASH: (3, 4), _EFFICIENT: (4, 5)}
_WINDOW_AT = {_FLASH: (11, 12), _EFFICIENT: (13,)}
_KEYS_USED_AT = {_FLASH: (13, 15), _EFFICIENT: (12,)}
# custom_mask_type of _efficient_attention_forward: 0 none, 1 causal from the top left corner, 2
# causal from the bottom right one.
_EFFICIENT_MASK_TYPE_AT = 9


@dataclass(frozen=True)
class Sizes:
    """The operands of one attention."""

    batch: int
    query_heads: int
    heads: int
    """Heads of keys and values as passed."""
    queries: int
    keys: int
    width: int
    value_width: int
    item_bytes: int
    packed: bool
    """Several sequences laid end to end: lengths are sums over them."""


def attention_sizes(name: str, detail: OpDetail) -> Sizes:
    """Read the sizes of an attention off its operands.

    Raises:
        UnknownSizeError: the operands are not those of attention.
    """
    arguments = Arguments(detail)
    query, key, value = (arguments.tensor(i) for i in range(3))
    if len(query.shape) == 3:
        query, key, value = (_dense((1, *x.shape), x.dtype) for x in (query, key, value))
    if not (len(query.shape) == len(key.shape) == len(value.shape) > 3):
        raise UnknownSizeError("operands of attention have other dimensions")
    heads, length = (-2, -3) if name in _LENGTH_FIRST else (-3, -2)
    return Sizes(
        batch=math.prod(query.shape[:-3]),
        query_heads=query.shape[heads],
        heads=key.shape[heads],
        queries=query.shape[length],
        keys=key.shape[length],
        width=query.shape[-1],
        value_width=value.shape[-1],
        item_bytes=key.item_bytes,
        packed=name in _PACKED_AT and any(arguments.maybe(i) is not None for i in _PACKED_AT[name]),
    )


def _dense(shape: tuple[int, ...], dtype: str) -> Operand:
    return Operand(shape=shape, strides=None, dtype=dtype)


def attention(name: str, detail: OpDetail) -> Work:
    """Bytes and FLOPs of a fused attention: each operand once, the scores never leave the chip.

    The log-sum-exp that some write (4 bytes a query and head) is left out. FLOPs are of the two
    products over the keys that the causal form lets a query see; a mask leaves all of them.

    Raises:
        UnknownSizeError: only part of the keys is read, and the arguments do not say which.
    """
    arguments = Arguments(detail)
    sizes = attention_sizes(name, detail)
    for at in _WINDOW_AT.get(name, ()):
        if arguments.integers(at) not in (None, (), (-1,)):
            raise UnknownSizeError("attention within a window")
    if any(arguments.maybe(at) is not None for at in _KEYS_USED_AT.get(name, ())):
        raise UnknownSizeError("the keys in use are counted on the device")
    if sizes.packed:
        raise UnknownSizeError("packed sequences: their single lengths are on the device")
    mask = None if name in _NO_MASK else arguments.maybe(_MASK_AT)
    read = sum(arguments.tensor(i).bytes for i in range(3)) + (mask.bytes if mask else 0)
    query = arguments.tensor(0)
    outputs = sizes.batch * sizes.query_heads * sizes.queries * sizes.value_width
    pairs = sizes.queries * sizes.keys
    if _is_causal(name, arguments) and sizes.queries <= sizes.keys:
        pairs -= sizes.queries * (sizes.queries - 1) // 2
    flops = 2 * sizes.batch * sizes.query_heads * pairs * (sizes.width + sizes.value_width)
    return Work(read, outputs * query.item_bytes, flops, query.dtype)


def _is_causal(name: str, arguments: Arguments) -> bool:
    if name == _EFFICIENT:
        return arguments.integers(_EFFICIENT_MASK_TYPE_AT) in ((1,), (2,))
    return name in _CAUSAL_AT and arguments.flag(_CAUSAL_AT[name])


def product(name: str, detail: OpDetail) -> Work:
    """Bytes and FLOPs of a matrix product: operands and what is added read once, result written."""
    arguments = Arguments(detail)
    at = _PRODUCTS[name]
    left, right = arguments.tensor(at), arguments.tensor(at + 1)
    if name == _LINEAR:
        right = _dense(tuple(reversed(right.shape)), right.dtype)
    depth = left.shape[-1] if left.shape else 0
    if not left.shape or not right.shape or depth != right.shape[max(len(right.shape) - 2, 0)]:
        raise UnknownSizeError("the operands of a matrix product do not fit each other")
    outputs = _product_elements(left.shape, right.shape)
    added = arguments.tensors(0, at)
    if name == _LINEAR:
        added = arguments.tensors(2, 3)
    elif name == "aten::_scaled_mm":
        added = arguments.tensors(_SCALED_MM_BIAS, _SCALED_MM_BIAS + 1)
    item_bytes = left.item_bytes
    if name == "aten::_scaled_mm":
        item_bytes = ITEM_BYTES[arguments.dtype(_SCALED_MM_DTYPE) or left.dtype]
    elif name == "aten::_int_mm":
        item_bytes = ITEM_BYTES["int"]
    read = left.bytes + arguments.tensor(at + 1).bytes + sum(operand.bytes for operand in added)
    return Work(read, outputs * item_bytes, 2 * outputs * depth, left.dtype)


def _product_elements(left: tuple[int, ...], right: tuple[int, ...]) -> int:
    rows = left[-2] if len(left) > 1 else 1
    columns = right[-1] if len(right) > 1 else 1
    return math.prod(broadcast([left[:-2], right[:-2]])) * rows * columns


def weight(name: str, detail: OpDetail) -> int | None:
    """Bytes of the weight that a matrix product reads, with its bias; None where it has none.

    The right operand of a product of two matrices is taken for a weight. Batched products are of
    activations (attention written out, mostly).
    """
    if name not in _PRODUCTS or name in ("aten::bmm", "aten::baddbmm", "aten::dot"):
        return None
    arguments = Arguments(detail)
    at = _PRODUCTS[name]
    right = arguments.maybe(at + 1)
    if name in ("aten::mv", "aten::addmv"):
        right = arguments.maybe(at)
    if right is None or len(right.shape) != 2:
        return None
    added = arguments.tensors(2, 3) if name == _LINEAR else arguments.tensors(0, at)
    return right.bytes + sum(operand.bytes for operand in added if len(operand.shape) == 1)


Counter = Callable[[str, OpDetail], Work]
COUNTERS: dict[str, Counter] = {
    **dict.fromkeys(_PRODUCTS, product),
    **dict.fromkeys(ATTENTION, attention),
}
"""For each op's name the function that counts it."""
