"""Which tensors and plain values are in a step's arguments and results, and how do two differ?"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from decodeprof.model.graph_check import Difference

_PLAIN = (bool, int, float, str)
_NOISE_FACTOR = 4.0
"""Two runs of the same step differ by rounding where a kernel adds in no fixed order; a third may
differ somewhat more than those two did."""
_ROUNDING = 2.0
"""In units of the type's precision, of the largest value: other kernels for the same product."""


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Tensors and plain values, by name, in lists, tuples, dicts and dataclasses alone.

    Other objects, such as a cache, are passed as they are and are no leaves.
    """
    if isinstance(value, Tensor | bool | int | float | str):
        yield path, value
    elif isinstance(value, list | tuple):
        for index, each in enumerate(value):
            yield from leaves(each, f"{path}[{index}]")
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield from leaves(each, f"{path}.{key}" if path else str(key))
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for each in dataclasses.fields(value):
            yield from leaves(getattr(value, each.name, None), f"{path}.{each.name}".strip("."))


def replaced(value: Any, tensors: Mapping[str, Tensor], path: str = "") -> Any:
    """The same with some tensors replaced, by the names that `leaves` gives them.

    What holds none of them is passed on as it is.
    """
    if isinstance(value, Tensor):
        return tensors.get(path, value)
    inside = {name for name, each in leaves(value, path) if isinstance(each, Tensor)}
    if not inside & tensors.keys():
        return value
    if isinstance(value, list | tuple):
        items = [replaced(each, tensors, f"{path}[{i}]") for i, each in enumerate(value)]
        if isinstance(value, list):
            return items
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    if isinstance(value, Mapping):
        new = {
            key: replaced(each, tensors, f"{path}.{key}" if path else str(key))
            for key, each in value.items()
        }
        return new if type(value) is dict else type(value)(new)  # type: ignore[call-arg]
    fields = {
        each.name: replaced(getattr(value, each.name), tensors, f"{path}.{each.name}".strip("."))
        for each in dataclasses.fields(value)
        if each.init
    }
    return type(value)(**fields)


def kept(value: Any) -> dict[str, Any]:
    """The leaves, tensors copied: what they are later is another matter."""
    return {
        name: each.detach().clone() if isinstance(each, Tensor) else each
        for name, each in leaves(value)
    }


def distance(one: Tensor, two: Tensor) -> float:
    """The largest difference of two elements; infinite where the shapes differ."""
    if one.shape != two.shape or one.dtype != two.dtype:
        return float("inf")
    if not one.numel() or torch.equal(one, two):
        return 0.0
    if not (one.is_floating_point() or one.is_complex()):
        return float((one != two).sum())
    # Where both are infinite or no number there is nothing to subtract.
    same = (one == two) | (torch.isnan(one) & torch.isnan(two))
    apart = torch.where(same, 0.0, (one.float() - two.float()).abs())
    return float(torch.nan_to_num(apart, nan=float("inf")).max())


def allowed(one: Tensor, noise: float) -> float:
    """How far a value may be from this one and still be the same, up to rounding."""
    if not one.is_floating_point() or not one.numel():
        return 0.0
    largest = float(torch.nan_to_num(one.float(), nan=0.0, posinf=0.0, neginf=0.0).abs().max())
    return max(_NOISE_FACTOR * noise, _ROUNDING * torch.finfo(one.dtype).eps * largest)


def differences(
    wanted: Mapping[Any, Any],
    got: Mapping[Any, Any],
    again: Mapping[Any, Any],
    *,
    kind: str,
    input_number: int,
    name_of: Callable[[Any], str] = str,
) -> list[Difference]:
    """Where a replay's values are not the step's own.

    Args:
        wanted: what the step itself gave.
        got: what the replay gave.
        again: what the step itself gave once more, from the same state: the noise.
        kind: output | state.
        input_number: 1 or 2.
        name_of: names a key for a person.
    """
    found = []
    for key, one in wanted.items():
        two = got.get(key)
        text = ""
        if isinstance(one, Tensor) and isinstance(two, Tensor):
            other = again.get(key)
            noise = distance(one, other) if isinstance(other, Tensor) else 0.0
            text = _told(one, two, noise if noise != float("inf") else 0.0)
        elif isinstance(one, _PLAIN) and one != two:
            text = f"the step returns {one!r}, a replay repeats {two!r}"
        if text:
            found.append(
                Difference(name=name_of(key), kind=kind, input=input_number, text=text)  # type: ignore[arg-type]
            )
    return found


def _told(one: Tensor, two: Tensor, noise: float) -> str:
    if one.shape != two.shape:
        return f"shape {tuple(one.shape)}, and {tuple(two.shape)} from a replay"
    apart = distance(one, two)
    if apart <= allowed(one, noise):
        return ""
    share = float((one != two).float().mean())
    if one.is_floating_point():
        far = f"by up to {apart:.3g}" if apart != float("inf") else "some are infinite or none"
        return f"{100 * share:.3g} % of the elements differ, {far}"
    if one.numel() == 1:
        return f"{one.item()}, and {two.item()} from a replay"
    return f"{100 * share:.3g} % of the elements differ"
