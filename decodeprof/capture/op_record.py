"""Which operations did two consecutive steps run, on which storages, from which lines?

The recorder is told of each operation by a dispatch mode. Storages are numbered as they are met,
and the number stays with the storage: torch keeps a storage's Python object for as long as the
storage lives.
"""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode

from decodeprof.capture.composite import made_of_others, take_apart
from decodeprof.capture.places import Frame, Places, stack_from
from decodeprof.capture.waiting import READS_VALUE, DeviceOf, Rule, Wait, rule_of
from decodeprof.model.ops import OpCall, OpRecord, Place, StepOps, TensorRef

_NUMBER = "decodeprof_number"
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
_MAX_SCALAR_LENGTH = 80
_LONGEST_STEP = 200_000
"""Operations of one step beyond which it is no decode step; the list would fill the memory."""

Stack = tuple[Frame, ...]
StackFrom = Callable[[FrameType | None], Stack]

_numbers = itertools.count(1)


def tensors_in(value: Any) -> Iterator[Tensor]:
    """The tensors among an operation's arguments or results, lists looked into."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for each in value:
            yield from tensors_in(each)


def operator_name(func: Any) -> str:
    """``aten::copy_``, without its overload."""
    schema = getattr(func, "_schema", None)
    return str(getattr(schema, "name", None) or func)


def storage_number(tensor: Tensor) -> int:
    """The number of a tensor's storage; 0 for a tensor that has none (sparse, nested)."""
    try:
        known = tensor.untyped_storage().__dict__
    except (NotImplementedError, RuntimeError):
        return 0
    number = known.get(_NUMBER)
    if number is None:
        number = known[_NUMBER] = next(_numbers)
    return int(number)


def real_device(tensor: Tensor) -> torch.device:
    """Where a tensor lives, in a program that runs on a real device."""
    return tensor.device


class OpRecorder:
    """Gathers two steps."""

    def __init__(self, device_of: DeviceOf, *, stack_of: StackFrom = stack_from) -> None:
        """Start with nothing.

        Args:
            device_of: where a tensor lives; on a machine that only pretends, where it would.
            stack_of: the target's frames from a frame outwards.
        """
        self._device_of = device_of
        self._stack_of = stack_of
        self._places: dict[Stack, int] = {}
        self._steps: list[tuple[int, list[OpCall]]] = []
        self._forward_calls: list[int | None] = []
        self._made: list[tuple[int, StorageWeakRef]] = []
        self._kept: tuple[int, ...] = ()
        self._recording = False

    @property
    def recording(self) -> bool:
        """Whether operations are being noted."""
        return self._recording

    def begin(self, step: int) -> None:
        """The operations that follow belong to this step."""
        self._steps.append((step, []))
        self._forward_calls.append(None)
        self._recording = True

    def forward_over(self) -> None:
        """The forward that began the step is over; what follows is the loop's own."""
        if self._recording and self._forward_calls[-1] is None:
            self._forward_calls[-1] = len(self._steps[-1][1])

    def stop(self) -> None:
        """Note no more operations, and see what the program still holds of the first step's."""
        self._recording = False
        held = {index for index, storage in self._made if not storage.expired()}
        self._kept = tuple(sorted(held))
        self._made.clear()

    def note(self, func: Any, args: Any, kwargs: dict[str, Any], out: Any, wait: str) -> None:
        """Note one operation, called from the place where it happened.

        Args:
            func: the `OpOverload`.
            args: its arguments.
            kwargs: its keyword arguments.
            out: what it returned.
            wait: why the host waits in it; empty: it does not.
        """
        calls = self._steps[-1][1]
        if len(calls) >= _LONGEST_STEP:
            return
        inputs = [self._ref(each) for each in tensors_in([*args, *kwargs.values()])]
        outputs = [self._ref(each) for each in tensors_in(out)]
        generator = kwargs.get("generator")
        schema = getattr(func, "_schema", None)  # Higher-order operators have none.
        returns = schema.returns if schema is not None else ()
        overload = f".{func._overloadname}" if schema is not None else ""
        calls.append(
            OpCall(
                name=operator_name(func) + overload,
                inputs=tuple(inputs),
                outputs=tuple(outputs),
                scalars=_scalars(args, kwargs, self._device_of),
                place=self._place(sys._getframe(1)),
                view=_is_view(returns),
                random=torch.Tag.nondeterministic_seeded in getattr(func, "tags", ()),
                own_generator=generator is not None,
                wait=wait,
            )
        )
        if len(self._steps) == 1:
            self._follow(len(calls) - 1, inputs, out, waited=bool(wait))

    def note_wait(self, name: str, wait: str) -> None:
        """Note a call that is no operation and in which the host waits."""
        if self._recording:
            place = self._place(sys._getframe(1))
            self._steps[-1][1].append(OpCall(name=name, place=place, wait=wait))

    def note_seed(self, name: str) -> None:
        """Note a call that is no operation and that sets where random numbers begin."""
        if self._recording:
            place = self._place(sys._getframe(1))
            self._steps[-1][1].append(OpCall(name=name, place=place, random=True))

    def _follow(self, index: int, inputs: list[TensorRef], out: Any, *, waited: bool) -> None:
        """Remember, without holding it, a storage that the first step's operation made.

        Memory of the host as well, where the device writes to it: a replay would, too.
        """
        known = {each.storage for each in inputs}
        from_device = any(each.on_device for each in inputs) and not waited
        for tensor in tensors_in(out):
            number = storage_number(tensor)
            written = from_device or self._device_of(tensor).type != "cpu"
            if number and number not in known and written:
                self._made.append((index, StorageWeakRef(tensor.untyped_storage())))

    def _ref(self, tensor: Tensor) -> TensorRef:
        device = self._device_of(tensor)
        pinned = device.type == "cpu" and is_pinned(tensor)
        return TensorRef(
            storage_number(tensor),
            tuple(int(size) for size in tensor.shape),
            str(tensor.dtype).removeprefix("torch."),
            "pinned" if pinned else str(device),
        )

    def _place(self, frame: FrameType | None) -> int:
        return self._places.setdefault(self._stack_of(frame), len(self._places))

    def record(self, places: Places) -> OpRecord | None:
        """The two steps; None: there were not two."""
        if len(self._steps) < 2:
            return None
        (one, first), (two, second) = self._steps[:2]
        return OpRecord(
            first=StepOps(
                step=one,
                calls=tuple(first),
                forward_calls=self._forward_calls[0],
                kept=self._kept,
            ),
            second=StepOps(step=two, calls=tuple(second), forward_calls=self._forward_calls[1]),
            places=tuple(place_of(places, stack) for stack in self._places),
        )


def is_pinned(tensor: Tensor) -> bool:
    """Whether memory of the host is page-locked; False where nothing can be."""
    try:
        return bool(tensor.is_pinned())
    except (RuntimeError, NotImplementedError):
        return False


def place_of(places: Places, stack: Stack) -> Place:
    """A stack, innermost first, as a place: its innermost frame outside torch."""
    site = places.site(stack)
    return Place(
        file=site.file, line=site.line, function=site.function, code=site.code, stack=site.stack
    )


def _is_view(returns: Any) -> bool:
    infos = [each.alias_info for each in returns]
    return bool(infos) and all(info is not None and not info.is_write for info in infos)


def _scalars(args: Any, kwargs: dict[str, Any], device_of: DeviceOf) -> tuple[str, ...]:
    found: list[str] = []

    def look(value: Any) -> None:
        if isinstance(value, torch._C.Generator) or value is None:
            return
        if isinstance(value, Tensor):
            # A number that the host holds is given to the kernel as it is now.
            if not value.dim() and device_of(value).type == "cpu":
                found.append(str(value.item()))
            return
        if isinstance(value, list | tuple):
            for each in value:
                look(each)
            return
        # Where a function or an object lies is no value.
        found.append(_ADDRESS.sub("", str(value))[:_MAX_SCALAR_LENGTH])

    for value in (*args, *kwargs.values()):
        look(value)
    return tuple(found)


class RecordingMode(TorchDispatchMode):
    """Tells a recorder of the operations of a program that runs on a real device."""

    supports_higher_order_operators = True

    def __init__(self, recorder: OpRecorder, device_of: DeviceOf = real_device) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._recorder = recorder
        self._device_of = device_of
        self._rules: dict[Any, Rule | None] = {}

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: Any = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Run the operation, and note it."""
        kwargs = kwargs or {}
        if not self._recorder.recording:
            return func(*args, **kwargs)
        if made_of_others(func):
            with self:
                return take_apart(func, args, kwargs)
        wait = self._wait(func, args, kwargs)
        out = func(*args, **kwargs)
        self._recorder.note(func, args, kwargs, out, wait.reason if wait else "")
        return out

    def _wait(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Wait | None:
        if operator_name(func) == "cond":
            asked = args[0] if args else None
            on_device = isinstance(asked, Tensor) and self._device_of(asked).type != "cpu"
            return Wait(READS_VALUE) if on_device else None
        if func not in self._rules:
            self._rules[func] = rule_of(func) if hasattr(func, "_schema") else None
        rule = self._rules[func]
        where = self._device_of
        tensors = tensors_in([*args, *kwargs.values()])
        if rule is None or all(where(each).type == "cpu" for each in tensors):
            return None
        return rule(args, kwargs, where)
