"""Which memory from before a step does the step write to, and what was in it?

The operations say so themselves: their schemas mark what they write. A kernel that does not go
through torch's dispatcher, such as a Triton kernel, is not seen; whoever restores a state checks
that the step gives the same twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from decodeprof.capture.op_record import storage_number, tensors_in


@dataclass
class Saved:
    """Storages, as they were."""

    tensors: dict[int, Tensor] = field(default_factory=dict)
    """By the storage's number: one of the tensors that see it."""
    was: dict[int, Any] = field(default_factory=dict)
    """The same storages' content."""
    random: list[tuple[Any, Any]] = field(default_factory=list)
    """Generators, and the state of each."""

    def add(self, tensor: Tensor) -> None:
        """Keep the whole storage that a tensor sees, if it is not kept already."""
        number = storage_number(tensor)
        if number and number not in self.was and tensor.device.type == "cuda":
            self.tensors[number] = tensor
            self.was[number] = tensor.untyped_storage().clone()

    def put_back(self) -> None:
        """Write everything back, and let the generators draw the same numbers again."""
        for generator, state in self.random:
            generator.set_state(state)
        for number, tensor in self.tensors.items():
            tensor.untyped_storage().copy_(self.was[number])

    def now(self) -> dict[int, Tensor]:
        """What the tensors hold now, copied."""
        return {number: tensor.detach().clone() for number, tensor in self.tensors.items()}

    def again(self) -> Saved:
        """The same storages, with what they hold now."""
        fresh = Saved(random=[(each, each.get_state()) for each, _ in self.random])
        for tensor in self.tensors.values():
            fresh.add(tensor)
        return fresh

    @property
    def bytes(self) -> int:
        """Memory that the copies take."""
        return sum(int(tensor.untyped_storage().nbytes()) for tensor in self.tensors.values())


class WriteWatch(TorchDispatchMode):
    """Keeps, just before each operation, what the operation is about to overwrite."""

    def __init__(self, extra: Iterable[Tensor] = ()) -> None:
        """Keep some tensors from the start, whoever writes to them."""
        super().__init__()  # type: ignore[no-untyped-call]
        self.saved = Saved()
        self._made: set[int] = set()
        for generator in default_generators():
            self.saved.random.append((generator, generator.get_state()))
        for tensor in extra:
            self.saved.add(tensor)

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: Any = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Keep what is about to be written, then run the operation."""
        kwargs = kwargs or {}
        values = dict(zip((each.name for each in func._schema.arguments), args, strict=False))
        values.update(kwargs)
        for argument in func._schema.arguments:
            info = argument.alias_info
            if info is not None and info.is_write:
                for tensor in tensors_in(values.get(argument.name)):
                    if storage_number(tensor) not in self._made:
                        self.saved.add(tensor)
        generator = values.get("generator")
        if generator is not None and all(generator is not known for known, _ in self.saved.random):
            self.saved.random.append((generator, generator.get_state()))
        out = func(*args, **kwargs)
        if not any(each.alias_info is not None for each in func._schema.returns):
            known = {storage_number(each) for each in tensors_in(list(values.values()))}
            self._made |= {storage_number(each) for each in tensors_in(out)} - known
        return out


def default_generators() -> list[Any]:
    """The generators that are drawn from where none is named: the host's, and each device's."""
    return [torch.default_generator, *torch.cuda.default_generators]
