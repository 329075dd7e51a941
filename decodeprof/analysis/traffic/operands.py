"""What tensors was an op called with, and how many bytes does each hold?

Bytes are of storage that is touched: a dimension of stride 0 (an expanded tensor) counts once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from decodeprof.model.trace import OpDetail

ITEM_BYTES = {
    "bool": 1,
    "unsigned char": 1,
    "signed char": 1,
    "c10::Float8_e4m3fn": 1,
    "c10::Float8_e4m3fnuz": 1,
    "c10::Float8_e5m2": 1,
    "c10::Float8_e5m2fnuz": 1,
    "c10::Float8_e8m0fnu": 1,
    "short": 2,
    "short int": 2,
    "unsigned short": 2,
    "c10::Half": 2,
    "c10::BFloat16": 2,
    "int": 4,
    "unsigned int": 4,
    "float": 4,
    "long": 8,
    "long int": 8,
    "long long": 8,
    "unsigned long": 8,
    "double": 8,
    "c10::complex<float>": 8,
    "c10::complex<double>": 16,
}
"""Bytes of an element by the name of its type as traces write it."""

_NO_TENSOR = frozenset({"", "Scalar", "ScalarList", "TensorList", "GenericList", "None"})
_FLOATS = frozenset({"float", "double"})
# torch.dtype by the number that traces write for a dtype argument.
_DTYPE_BY_CODE = {
    0: "unsigned char",
    1: "signed char",
    2: "short int",
    3: "int",
    4: "long int",
    5: "c10::Half",
    6: "float",
    7: "double",
    11: "bool",
    15: "c10::BFloat16",
}


class UnknownSizeError(LookupError):
    """The op's arguments do not say how much it moves."""


class Work(NamedTuple):
    """What an op moves and computes, at the least: each operand once."""

    read_bytes: int
    written_bytes: int
    flops: int = 0
    dtype: str = ""
    """Element type of the operands of a matrix product or attention; empty for all else."""


@dataclass(frozen=True)
class Operand:
    """One tensor argument."""

    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    dtype: str

    @property
    def item_bytes(self) -> int:
        """Bytes of an element.

        Raises:
            UnknownSizeError: the type is not known.
        """
        try:
            return ITEM_BYTES[self.dtype]
        except KeyError:
            raise UnknownSizeError(self.dtype) from None

    @property
    def elements(self) -> int:
        """Elements that the shape counts."""
        return math.prod(self.shape)

    @property
    def touched_elements(self) -> int:
        """Elements of storage behind it: no more than the shape counts, nor than it spans."""
        if self.strides is None or len(self.strides) != len(self.shape) or not self.elements:
            return self.elements
        pairs = list(zip(self.shape, self.strides, strict=True))
        distinct = math.prod(size for size, stride in pairs if stride)
        span = 1 + sum((size - 1) * abs(stride) for size, stride in pairs)
        return min(distinct, span)

    @property
    def bytes(self) -> int:
        """Bytes of storage that reading it once touches."""
        return self.touched_elements * self.item_bytes

    @property
    def full_bytes(self) -> int:
        """Bytes of a dense tensor of this shape: what writing one takes."""
        return self.elements * self.item_bytes

    def rows(self) -> int:
        """Number of rows along the last dimension."""
        return math.prod(self.shape[:-1])


@dataclass(frozen=True)
class Arguments:
    """An op's arguments by position."""

    detail: OpDetail

    def __len__(self) -> int:
        return len(self.detail.shapes)

    def tensor(self, at: int) -> Operand:
        """The tensor at a position.

        Raises:
            UnknownSizeError: there is none.
        """
        found = self.maybe(at)
        if found is None:
            raise UnknownSizeError(f"argument {at} is no tensor")
        return found

    def maybe(self, at: int) -> Operand | None:
        """The tensor at a position; None for anything else."""
        detail = self.detail
        if at >= len(detail.shapes) or at >= len(detail.dtypes):
            return None
        shape, dtype = detail.shapes[at], detail.dtypes[at]
        if shape is None or dtype in _NO_TENSOR:
            return None
        strides = detail.strides[at] if at < len(detail.strides) else None
        return Operand(shape=shape, strides=strides, dtype=dtype)

    def tensors(self, start: int = 0, stop: int | None = None) -> list[Operand]:
        """All tensors in a range of positions."""
        found = (self.maybe(i) for i in range(start, len(self) if stop is None else stop))
        return [operand for operand in found if operand is not None]

    def text(self, at: int) -> str:
        """The text of a scalar argument; empty when it was not given or not recorded."""
        return self.detail.scalars[at] if at < len(self.detail.scalars) else ""

    def integers(self, at: int) -> tuple[int, ...] | None:
        """A whole number, or a list of such, as a tuple; None when it was not given."""
        try:
            return tuple(int(part) for part in self.text(at).strip("[]").split(",") if part.strip())
        except ValueError:
            return None

    def flag(self, at: int) -> bool:
        """A true or false argument; False when it was not given."""
        return self.text(at) in ("True", "true", "1")

    def dtype(self, at: int) -> str | None:
        """A dtype argument; None when it was not given or is not known."""
        numbers = self.integers(at)
        return _DTYPE_BY_CODE.get(numbers[0]) if numbers else None

    def shapes_of_list(self, at: int) -> tuple[tuple[int, ...], ...]:
        """The shapes in a tensor list.

        Raises:
            UnknownSizeError: the profiler recorded none.
        """
        lists = self.detail.lists
        if at >= len(lists) or not lists[at]:
            raise UnknownSizeError(f"argument {at} is no list of tensors")
        return lists[at]


def broadcast(shapes: Iterable[tuple[int, ...]]) -> tuple[int, ...]:
    """The shape that operands of these shapes broadcast to.

    Raises:
        UnknownSizeError: they do not fit each other.
    """
    result: list[int] = []
    for shape in shapes:
        padded = [1] * (len(result) - len(shape)) + list(shape)
        result = [1] * (len(padded) - len(result)) + result
        for i, size in enumerate(padded):
            if result[i] == 1:
                result[i] = size
            elif size not in (1, result[i]):
                raise UnknownSizeError("operands do not broadcast")
    return tuple(result)


def is_float(dtype: str) -> bool:
    """Whether it is a floating-point or complex type."""
    return dtype in _FLOATS or dtype.startswith("c10::")


def promote(operands: list[Operand]) -> str:
    """The element type that torch's type promotion gives.

    Tensors with dimensions decide; one without (a Python number, mostly) only raises the category,
    and then to the default float, since Python's floats arrive as double.

    Raises:
        UnknownSizeError: there is no operand.
    """
    sized = [operand.dtype for operand in operands if operand.shape]
    single = [operand.dtype for operand in operands if not operand.shape]
    if not sized:
        if not single:
            raise UnknownSizeError("no tensor")
        return _widest(single)
    result = _widest(sized)
    for dtype in single:
        if _category(dtype) > _category(result):
            result = "float" if dtype == "double" else dtype
    return result


def _category(dtype: str) -> int:
    if dtype == "bool":
        return 0
    if not is_float(dtype):
        return 1
    return 3 if dtype.startswith("c10::complex") else 2


def _widest(dtypes: list[str]) -> str:
    result = dtypes[0]
    for dtype in dtypes[1:]:
        if _category(dtype) != _category(result):
            result = max(result, dtype, key=_category)
        elif {dtype, result} == {"c10::Half", "c10::BFloat16"}:
            result = "float"
        elif ITEM_BYTES.get(dtype, 0) > ITEM_BYTES.get(result, 0):
            result = dtype
    return result
