"""Does an operation make the host wait for the device?

The answer comes from what is general: the operator's own tags (an output whose shape or value
depends on data has to be read back), copies between host and device, index tensors that the host
holds. Only where a CUDA implementation reads a value back although nothing in its signature says
so does it stand in a table, with the reason. Checked against what blocking runtime calls CUPTI
saw on an H200 for some 90 operations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

READS_VALUE = "the host reads a value that the device computes"
SHAPE_FROM_DATA = "the size of the result depends on values, which the host must read"
TO_HOST = "a blocking copy from the device to the host"
FROM_HOST = "a blocking copy from the host to the device"
HOST_INDEX = "an index that the host holds is copied to the device, blocking"
INSIDE = "its CUDA implementation reads a value back"

_ISIN_FACTOR = 10.0
_ISIN_POWER = 0.145
"""aten's isin sorts when the test elements number at least 10 × elements^0.145, and only then
reads back."""


@dataclass(frozen=True)
class Wait:
    """Why the host waits, and how often in one call."""

    reason: str
    count: int = 1


DeviceOf = Callable[[Tensor], torch.device]
Rule = Callable[[Sequence[Any], dict[str, Any], DeviceOf], Wait | None]


def rule_of(func: Any) -> Rule | None:
    """The rule for an operator; None: it never makes the host wait.

    A rule is asked only where some tensor among the arguments is on a GPU.

    Args:
        func: an `OpOverload`.
    """
    name = func._schema.name.removeprefix("aten::")
    if name in _COPIES:
        return _COPIES[name]
    if name in _INDEXING:
        return _index
    if name in _INDEX_WRITES:
        return _index_put
    if name in _INSIDE:
        return _INSIDE[name]
    if name == "equal":
        return _equal
    if torch.Tag.data_dependent_output in func.tags:
        return lambda _args, _kwargs, _device_of: Wait(READS_VALUE)
    if torch.Tag.dynamic_output_shape in func.tags:
        return _sized_by_data
    return None


def _sized_by_data(
    _args: Sequence[Any], _kwargs: dict[str, Any], _device_of: DeviceOf
) -> Wait | None:
    return Wait(SHAPE_FROM_DATA)


def _repeat(_args: Sequence[Any], kwargs: dict[str, Any], _device_of: DeviceOf) -> Wait | None:
    # Where the caller states the size, nothing is left to read.
    return None if kwargs.get("output_size") is not None else Wait(SHAPE_FROM_DATA, 2)


def copy_wait(*, source: torch.device, target: torch.device, non_blocking: bool) -> Wait | None:
    """Why a copy makes the host wait; None: it does not.

    Only copies between host and device do, of at least one element, and unless the caller said
    `non_blocking`: the runtime then stages pageable memory, without a blocking call.
    """
    if non_blocking or (source.type == "cpu") == (target.type == "cpu"):
        return None
    return Wait(TO_HOST if target.type == "cpu" else FROM_HOST)


def _copy(args: Sequence[Any], kwargs: dict[str, Any], device_of: DeviceOf) -> Wait | None:
    if not args[1].numel():
        return None
    non_blocking = args[2] if len(args) > 2 else kwargs.get("non_blocking", False)
    return copy_wait(
        source=device_of(args[1]), target=device_of(args[0]), non_blocking=bool(non_blocking)
    )


def _to_copy(args: Sequence[Any], kwargs: dict[str, Any], device_of: DeviceOf) -> Wait | None:
    if not args[0].numel():
        return None
    source = device_of(args[0])
    return copy_wait(
        source=source,
        target=kwargs.get("device") or source,
        non_blocking=bool(kwargs.get("non_blocking")),
    )


def _lift(args: Sequence[Any], _kwargs: dict[str, Any], device_of: DeviceOf) -> Wait | None:
    """`torch.tensor` of Python values: where it ends on a device, a copy to it went before."""
    fresh = args[0]
    return Wait(FROM_HOST) if device_of(fresh).type != "cpu" and fresh.numel() else None


def _is_mask(index: Tensor) -> bool:
    return index.dtype in (torch.bool, torch.uint8)


def _indices(args: Sequence[Any]) -> list[Tensor]:
    return [each for each in args[1] if isinstance(each, Tensor)]


def _index(args: Sequence[Any], _kwargs: dict[str, Any], device_of: DeviceOf) -> Wait | None:
    indices = _indices(args)
    masks = sum(_is_mask(each) for each in indices)
    if masks:
        return Wait(SHAPE_FROM_DATA, masks)
    if device_of(args[0]).type == "cpu":
        return None
    held = sum(device_of(each).type == "cpu" for each in indices)
    return Wait(HOST_INDEX, held) if held else None


def _index_put(args: Sequence[Any], kwargs: dict[str, Any], device_of: DeviceOf) -> Wait | None:
    value = args[2]
    accumulate = args[3] if len(args) > 3 else kwargs.get("accumulate", False)
    fills = value.numel() == 1 and device_of(value).type == "cpu" and not accumulate
    indices = _indices(args)
    if fills and len(indices) == 1 and _is_mask(indices[0]):
        return None  # One value under one mask is a masked_fill.
    return _index(args, kwargs, device_of)


def _equal(args: Sequence[Any], _kwargs: dict[str, Any], _device_of: DeviceOf) -> Wait | None:
    one, other = args[0], args[1]
    if one.shape != other.shape:
        return None
    same = one.data_ptr() == other.data_ptr() and one.stride() == other.stride()
    return None if same else Wait(READS_VALUE)


def _inside(count: int = 1) -> Rule:
    return lambda _args, _kwargs, _device_of: Wait(INSIDE, count)


def _argument(args: Sequence[Any], kwargs: dict[str, Any], place: int, name: str) -> Any:
    return args[place] if len(args) > place else kwargs.get(name)


def _value_tensor(place: int, name: str) -> Rule:
    """A fill value given as a tensor of the device is read by the host."""

    def rule(args: Sequence[Any], kwargs: dict[str, Any], device_of: DeviceOf) -> Wait | None:
        value = _argument(args, kwargs, place, name)
        on_device = isinstance(value, Tensor) and device_of(value).type != "cpu"
        return Wait(READS_VALUE) if on_device else None

    return rule


def _ends(args: Sequence[Any], kwargs: dict[str, Any], device_of: DeviceOf) -> Wait | None:
    """Each end that is given as a tensor of the device is read by the host."""
    ends = [_argument(args, kwargs, place, name) for place, name in enumerate(("start", "end"))]
    count = sum(isinstance(each, Tensor) and device_of(each).type != "cpu" for each in ends)
    return Wait(READS_VALUE, count) if count else None


def _histc(args: Sequence[Any], kwargs: dict[str, Any], _device_of: DeviceOf) -> Wait | None:
    low = _argument(args, kwargs, 2, "min") or 0
    high = _argument(args, kwargs, 3, "max") or 0
    return Wait(INSIDE, 2) if low == high else None  # Both are then taken from the data.


def _isin(args: Sequence[Any], kwargs: dict[str, Any], _device_of: DeviceOf) -> Wait | None:
    elements = _argument(args, kwargs, 0, "elements")
    tests = _argument(args, kwargs, 1, "test_elements")
    if not isinstance(elements, Tensor) or not isinstance(tests, Tensor):
        return None
    few = tests.numel() < _ISIN_FACTOR * float(elements.numel()) ** _ISIN_POWER
    return None if few else Wait(INSIDE, 3)


def _normal(args: Sequence[Any], kwargs: dict[str, Any], _device_of: DeviceOf) -> Wait | None:
    # A standard deviation given as a tensor is checked for negative values, twice.
    return Wait(INSIDE, 2) if isinstance(_argument(args, kwargs, 1, "std"), Tensor) else None


def _searchsorted(
    _args: Sequence[Any], kwargs: dict[str, Any], _device_of: DeviceOf
) -> Wait | None:
    # The sorter's smallest and largest index are checked.
    return Wait(INSIDE, 2) if kwargs.get("sorter") is not None else None


_COPIES: dict[str, Rule] = {
    "copy_": _copy,
    "copy": _copy,
    "_to_copy": _to_copy,
    "lift_fresh": _lift,
}
_INDEXING = frozenset({"index", "_unsafe_index"})
_INDEX_WRITES = frozenset({"index_put", "index_put_", "_unsafe_index_put", "_index_put_impl_"})
_INSIDE: dict[str, Rule] = {
    "histc": _histc,
    "isin": _isin,
    "normal": _normal,
    "searchsorted": _searchsorted,
    "masked_fill": _value_tensor(2, "value"),
    "masked_fill_": _value_tensor(2, "value"),
    "index_fill": _value_tensor(3, "value"),
    "index_fill_": _value_tensor(3, "value"),
    "linspace": _ends,
    "logspace": _ends,
    "repeat_interleave": _repeat,
    "bincount": _inside(2),
    "unique_dim": _inside(3),
    "embedding_renorm_": _inside(),
    # An error code that the solver leaves on the device is looked at.
    "_linalg_check_errors": _inside(),
    "_linalg_eigh": _inside(),
    "_linalg_svd": _inside(),
    "linalg_eig": _inside(),
    "linalg_lstsq": _inside(),
}
