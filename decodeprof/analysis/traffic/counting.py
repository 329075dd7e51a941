"""How much does one op move and compute? By its name, its arguments and its kernel's name."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

from decodeprof.analysis.traffic import movement, pointwise, products
from decodeprof.analysis.traffic.operands import ITEM_BYTES, Arguments, UnknownSizeError, Work
from decodeprof.model.trace import OpDetail

_COUNTERS: dict[str, Callable[[str, OpDetail], Work]] = {
    **pointwise.COUNTERS,
    **movement.COUNTERS,
    **products.COUNTERS,
}
_CAT = frozenset({"aten::cat", "aten::_cat", "aten::concat"})
# torch concatenates elements of equal size by one kernel, whose name holds the size; older ones
# hold the type.
_OPAQUE = re.compile(r"OpaqueType<(\d+)u?>")
_ELEMENT = re.compile(r"CatArray\w*<([\w: ]+?),")
# A template (a matrix product, attention) visits its operands in its own way: its loop sizes do not
# bound what it reads.
_COMPILED = re.compile(r"triton_(?!tem_)")


def is_compiled(name: str) -> bool:
    """Whether an op is a kernel that torch.compile wrote; its arguments are the kernel's own."""
    return _COMPILED.match(name) is not None


def count(name: str, detail: OpDetail, kernel: str) -> Work | None:
    """Count an op.

    Args:
        name: the op's, such as ``aten::mm``.
        detail: its arguments.
        kernel: the name of the kernel that did the work.

    Returns:
        Bytes and FLOPs; None when they cannot be told.
    """
    try:
        if name in _CAT:
            return movement.concatenation(detail, _element_bytes(kernel))
        if is_compiled(name):
            return _compiled(detail)
        counter = _COUNTERS.get(name)
        return counter(name, detail) if counter is not None else None
    except (UnknownSizeError, IndexError):
        # IndexError: a dimension beyond the operand's, in a trace that is not torch's own.
        return None


def _element_bytes(kernel: str) -> int:
    size = _OPAQUE.search(kernel)
    if size is not None:
        return int(size.group(1))
    element = _ELEMENT.search(kernel)
    if element is None or element.group(1) not in ITEM_BYTES:
        raise UnknownSizeError("the kernel's name does not tell the size of an element")
    return ITEM_BYTES[element.group(1)]


def _compiled(detail: OpDetail) -> Work:
    """A kernel written by torch.compile: each pointer argument once, the last one written.

    It visits as many points as its last arguments (the sizes of its loops) multiply to, so that of
    a larger argument (an embedding, a cache) it touches no more elements than that. Which arguments
    are written is not recorded: an argument that is updated in place counts once, not twice, so
    that this is the least that it moves.
    """
    arguments = Arguments(detail)
    sizes = []
    for at in reversed(range(len(arguments))):
        numbers = arguments.integers(at)
        if arguments.maybe(at) is not None or not numbers:
            break
        sizes.append(numbers[0])
    pointers = arguments.tensors()
    if not sizes or not pointers:
        raise UnknownSizeError("a compiled kernel without sizes or arguments")
    points = math.prod(sizes)
    moved = [min(x.touched_elements, points) * x.item_bytes for x in pointers]
    return Work(sum(moved[:-1]), moved[-1])
