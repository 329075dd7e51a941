"""What if a kernel exists on a GPU for a type, and on a CPU does not?

`histc` of whole numbers is one; models choose such a way where they see a GPU. The operation then
runs in a type that holds all its values and that the CPU has a kernel for.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

_NO_KERNEL = "not implemented for '"
_WIDER = {
    torch.float16: torch.float32,
    torch.bfloat16: torch.float32,
    torch.int8: torch.float64,
    torch.uint8: torch.float64,
    torch.int16: torch.float64,
    torch.int32: torch.float64,
    torch.int64: torch.float64,
    torch.bool: torch.float64,
}


def run(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Run an operation, in a wider type where the CPU has no kernel for its own."""
    try:
        return func(*args, **kwargs)
    except NotImplementedError as error:
        if _NO_KERNEL not in str(error) or _writes(func):
            raise
        narrow = next(_narrow([*args, *kwargs.values()]), None)
        if narrow is None:
            raise
        return _mapped(
            func(*_mapped(args, to_wider=True), **_mapped(kwargs, to_wider=True)), back_to=narrow
        )


def _writes(func: Any) -> bool:
    schema = getattr(func, "_schema", None)
    return schema is None or any(each.alias_info is not None for each in schema.arguments)


def _narrow(values: list[Any]) -> Iterator[torch.dtype]:
    for value in values:
        if isinstance(value, Tensor) and value.dtype in _WIDER:
            yield value.dtype
        elif isinstance(value, list | tuple):
            yield from _narrow(list(value))


def _mapped(value: Any, *, to_wider: bool = False, back_to: torch.dtype | None = None) -> Any:
    """The same with its tensors in wider types, or those in the wider type in the narrow one."""
    if isinstance(value, Tensor):
        if to_wider:
            return value.to(_WIDER.get(value.dtype, value.dtype))
        same = back_to is not None and value.dtype == _WIDER[back_to]
        return value.to(back_to) if same else value
    if isinstance(value, list | tuple):
        return type(value)(_mapped(each, to_wider=to_wider, back_to=back_to) for each in value)
    if isinstance(value, dict):
        return {
            name: _mapped(each, to_wider=to_wider, back_to=back_to) for name, each in value.items()
        }
    return value
