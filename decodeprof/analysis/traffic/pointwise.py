"""What do elementwise ops, reductions, softmax, norms and sorts move? Each operand once.

None of them counts FLOPs: a step that they dominate is bound by bytes long before arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from decodeprof.analysis.traffic.operands import (
    ITEM_BYTES,
    Arguments,
    Operand,
    UnknownSizeError,
    Work,
    broadcast,
    is_float,
    promote,
)
from decodeprof.model.trace import OpDetail

_INDEX_BYTES = ITEM_BYTES["long int"]
_STATISTIC_BYTES = ITEM_BYTES["float"]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_SAME = _words(
    "abs neg sign square relu silu gelu mish elu leaky_relu hardswish hardsigmoid softplus"
    " threshold floor ceil round trunc frac bitwise_not tril triu flip roll cumsum cumprod"
    " nan_to_num clamp_min clamp_max hardtanh dropout clone _to_copy"
)
_FLOAT = _words(
    "exp exp2 expm1 log log2 log10 log1p sqrt rsqrt reciprocal sin cos tan asin acos atan sinh"
    " cosh tanh sigmoid erf erfc erfinv logit log_sigmoid"
)
_TO_BOOL = _words("logical_not isnan isinf isfinite isneginf isposinf")
_TWO = _words(
    "add sub rsub mul maximum minimum fmax fmin remainder fmod floor_divide pow atan2 bitwise_and"
    " bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift __and__ __or__ __xor__ hypot"
)
_TWO_FLOAT = _words("div true_divide")
_COMPARE = _words("eq ne lt le gt ge logical_and logical_or logical_xor")
_THREE = _words("addcmul addcdiv lerp clamp")
_BINARY = _TWO | _TWO_FLOAT | _COMPARE
_POINTWISE = _SAME | _FLOAT | _TO_BOOL | _BINARY | _THREE
# Ops that reduce, by the position of the dimensions and what an element of the result is.
_REDUCE = {
    **dict.fromkeys(_words("sum mean amax amin prod nansum var std"), (1, "same")),
    **dict.fromkeys(_words("argmax argmin count_nonzero"), (1, "index")),
    **dict.fromkeys(_words("all any"), (1, "bool")),
    **dict.fromkeys(_words("max min"), (1, "both")),
    **dict.fromkeys(_words("norm linalg_vector_norm"), (2, "same")),
}
_DTYPE_SECOND = ("sum", "mean", "prod", "nansum")
_HALF_TO_FLOAT_AT = 2


def _bare(name: str) -> str:
    return name.removeprefix("aten::")


def _elementwise(inputs: list[Operand], *, out: Operand | None, dtype: str | None) -> Work:
    """Read every operand with dimensions once, write the result once.

    A 0-d operand beside others is a Python number, passed by value, or 8 bytes at the most.
    """
    shape = broadcast(operand.shape for operand in inputs)
    sized = [operand for operand in inputs if operand.shape] or inputs
    read = sum(operand.bytes for operand in sized)
    if out is not None and out.elements:
        return Work(read, out.full_bytes)
    result = Operand(shape=shape, strides=None, dtype=dtype or promote(inputs))
    return Work(read, result.full_bytes)


def pointwise(name: str, detail: OpDetail) -> Work:
    """An elementwise op; in place it reads and writes its first operand."""
    arguments = Arguments(detail)
    bare = _bare(name)
    in_place = bare.endswith("_") and not bare.endswith("__")
    if in_place:
        bare = bare[:-1]
    count = 3 if bare in _THREE else 2 if bare in _BINARY else 1
    inputs = arguments.tensors(0, count)
    if in_place:
        return _elementwise(inputs, out=arguments.tensor(0), dtype=None)
    outputs = arguments.tensors(count)
    dtype = None
    if bare in _COMPARE or bare in _TO_BOOL:
        dtype = "bool"
    elif bare in _FLOAT | _TWO_FLOAT and not is_float(promote(inputs)):
        dtype = "float"
    elif bare == "_to_copy":
        dtype = arguments.dtype(1)
    return _elementwise(inputs, out=outputs[-1] if outputs else None, dtype=dtype)


def where(name: str, detail: OpDetail) -> Work:  # noqa: ARG001
    """`where(condition, self, other)`: the type is that of what is chosen from."""
    arguments = Arguments(detail)
    condition, chosen = arguments.tensor(0), arguments.tensors(1, 3)
    outputs = arguments.tensors(3)
    if not chosen:
        raise UnknownSizeError("where of two numbers, or for the places alone")
    return _elementwise(
        [condition, *chosen], out=outputs[-1] if outputs else None, dtype=promote(chosen)
    )


def masked_fill(name: str, detail: OpDetail) -> Work:
    """`masked_fill(self, mask, value)` reads both and writes a tensor like the first."""
    arguments = Arguments(detail)
    first, mask = arguments.tensor(0), arguments.tensor(1)
    out = first if name.endswith("_") else None
    return _elementwise([first, mask], out=out, dtype=first.dtype)


def reduction(name: str, detail: OpDetail) -> Work:
    """A reduction: the whole operand read, one element for each row that is left written.

    One pass. What a reduction in two passes leaves in between is small, and not counted.
    """
    arguments = Arguments(detail)
    operand = arguments.tensor(0)
    bare = _bare(name)
    at, kind = _REDUCE[bare]
    if bare in ("max", "min") and arguments.maybe(1) is not None:
        return _elementwise(arguments.tensors(0, 2), out=None, dtype=None)
    dimensions = arguments.integers(at)
    # sum(self, dtype) has the dtype's number where sum(self, dim, …) has the dimensions.
    if bare in _DTYPE_SECOND and len(arguments) == 2:
        dimensions = None
    kept = 1
    if dimensions:
        dropped = {d % len(operand.shape) for d in dimensions} if operand.shape else set()
        for i, size in enumerate(operand.shape):
            kept *= 1 if i in dropped else size
    item_bytes = operand.item_bytes
    if kind == "index" or (bare == "sum" and not is_float(operand.dtype)):
        item_bytes = _INDEX_BYTES
    elif kind == "bool":
        item_bytes = 1
    elif kind == "both" and dimensions:
        item_bytes += _INDEX_BYTES
    return Work(operand.bytes, kept * item_bytes)


def softmax(name: str, detail: OpDetail) -> Work:  # noqa: ARG001
    """A softmax over rows, in one pass; half to float where it is asked for."""
    arguments = Arguments(detail)
    operand = arguments.tensor(0)
    wide = arguments.flag(_HALF_TO_FLOAT_AT)
    item_bytes = ITEM_BYTES["float"] if wide else operand.item_bytes
    return Work(operand.bytes, operand.elements * item_bytes)


def norm(name: str, detail: OpDetail) -> Work:
    """Layer or RMS norm of rows: operand, weight and bias read; result and statistics written."""
    arguments = Arguments(detail)
    operand = arguments.tensor(0)
    width = arguments.integers(1)
    rows = operand.rows()
    if width:
        inner = 1
        for size in width:
            inner *= size
        rows = operand.elements // inner if inner else 0
    read = operand.bytes + sum(x.bytes for x in arguments.tensors(2))
    statistics = 2 if "layer_norm" in name else 1
    return Work(read, operand.full_bytes + statistics * rows * _STATISTIC_BYTES)


def topk(name: str, detail: OpDetail) -> Work:  # noqa: ARG001
    """`topk(self, k, dim)`: read once, k values and indices of each row written."""
    arguments = Arguments(detail)
    operand = arguments.tensor(0)
    k = arguments.integers(1)
    if not k or not operand.shape:
        raise UnknownSizeError("topk without k")
    dimensions = arguments.integers(2) or (-1,)
    rows = operand.elements // max(operand.shape[dimensions[0]], 1)
    return Work(operand.bytes, rows * k[0] * (operand.item_bytes + _INDEX_BYTES))


def sort(name: str, detail: OpDetail) -> Work:  # noqa: ARG001
    """A sort: read once, values and indices written; a radix sort's passes are not counted."""
    operand = Arguments(detail).tensor(0)
    return Work(operand.bytes, operand.elements * (operand.item_bytes + _INDEX_BYTES))


Counter = Callable[[str, OpDetail], Work]


def _named(names: Iterable[str], counter: Counter) -> dict[str, Counter]:
    return {f"aten::{name}": counter for name in names}


COUNTERS: dict[str, Counter] = {
    **_named(_POINTWISE, pointwise),
    **_named((f"{name}_" for name in _POINTWISE if not name.endswith("__")), pointwise),
    **_named(_REDUCE, reduction),
    **_named(("_softmax", "_log_softmax", "_safe_softmax"), softmax),
    "aten::where": where,
    "aten::masked_fill": masked_fill,
    "aten::masked_fill_": masked_fill,
    "aten::native_layer_norm": norm,
    "aten::layer_norm": norm,
    "aten::rms_norm": norm,
    "aten::_fused_rms_norm": norm,
    "aten::topk": topk,
    "aten::sort": sort,
}
"""For each op's name the function that counts it."""
