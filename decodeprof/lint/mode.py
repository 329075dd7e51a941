"""Which device does each operation's result live on, and does the host wait in it?

A dispatch mode sees every operation that reaches a kernel, with its real tensors. It runs each on
the CPU, notes on the results' storages where a GPU run would have them, and asks `waiting` about
the host.
"""

from __future__ import annotations

import contextlib
import functools
import threading
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor
from torch._ops import HigherOrderOperator
from torch.utils._python_dispatch import TorchDispatchMode

from decodeprof.capture.composite import made_of_others, take_apart
from decodeprof.capture.op_record import OpRecorder, operator_name, tensors_in
from decodeprof.capture.waiting import READS_VALUE, Rule, Wait, rule_of
from decodeprof.lint import wider
from decodeprof.lint.whereabouts import (
    HOST,
    device_of,
    follows,
    let_follow,
    pin,
    pinned,
    pretended_device,
    put,
    resolved,
)

_COPIES = ("aten::copy_", "aten::_to_copy")
# Beside what torch tags as pointwise, these refuse arguments of two devices, whatever their sizes.
_OF_ONE_DEVICE = frozenset(
    f"aten::{name}" for name in ("addmm", "baddbmm", "bmm", "convolution", "embedding", "linear")
) | {"aten::mm", "aten::mv", "aten::native_layer_norm"}
# Tagged as pointwise, but it takes its value from anywhere.
_OF_ANY_DEVICE = frozenset({"aten::fill_"})


@dataclass(frozen=True)
class Copied:
    """A copy between host and device."""

    to_device: bool
    non_blocking: bool
    pinned: bool
    bytes: int


class Sink(Protocol):
    """Is told of what a GPU run would have the host do, in the frame where it happens."""

    def waited(self, op: str, wait: Wait) -> None:
        """The host waits."""

    def copied(self, op: str, copy: Copied) -> None:
        """Something crosses between host and device."""


class Tape(Protocol):
    """Is told of the operations that a graph captures."""

    def before(self, func: Any, args: Any, kwargs: dict[str, Any]) -> None:
        """An operation is about to run."""

    def after(self, func: Any, args: Any, kwargs: dict[str, Any], out: Any) -> None:
        """It ran."""


@dataclass(frozen=True)
class Traits:
    """What is the same for every call of an operator."""

    name: str
    composite: bool
    rule: Rule | None
    copies: bool
    aliases: bool
    """Results are arguments, or other looks at them."""
    one_device: bool
    """On a GPU it raises when given a tensor of the host, unless that has no dimension."""


class _OfThread(threading.local):
    """What one thread is in the middle of."""

    moving: tuple[torch.device, bool] | None = None
    quiet: int = 0
    stated: int = 0
    """Inside a call of Python's that makes a tensor: the device is the one that it states."""


class PretendMode(TorchDispatchMode):
    """Runs operations on the CPU and keeps account of where their results would live."""

    supports_higher_order_operators = True

    def __init__(self, sink: Sink) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.sink = sink
        self.recorder: OpRecorder | None = None
        self.tape: Tape | None = None
        self.over = False
        """The pretence has ended; a thread that it left behind runs operations as they are."""
        self.on_device = False
        """Something was put on a GPU."""
        self.ran_on_device = 0
        """Operations so far that had or made a tensor on a GPU."""
        self.compiled = False
        """The target asked for torch.compile."""
        self.on_refused: Callable[[str, str], None] | None = None
        """Told of an operation or a call that a GPU would refuse, and why it would."""
        self._of_thread = _OfThread()
        self._open: weakref.WeakSet[torch.UntypedStorage] = weakref.WeakSet()
        """Storages that were made inside of torch, and of which it is open where they live."""
        self._traits: dict[Any, Traits] = {}

    @contextlib.contextmanager
    def moving(self, target: torch.device, *, non_blocking: bool) -> Iterator[None]:
        """The next `_to_copy` of this thread goes there."""
        self._of_thread.moving = (target, non_blocking)
        try:
            yield
        finally:
            self._of_thread.moving = None

    @contextlib.contextmanager
    def stated(self) -> Iterator[None]:
        """What is made by this thread meanwhile is where Python says."""
        self._of_thread.stated += 1
        try:
            yield
        finally:
            self._of_thread.stated -= 1

    @contextlib.contextmanager
    def quiet(self) -> Iterator[None]:
        """Tell of no wait: what runs now checks values on a CPU alone."""
        self._of_thread.quiet += 1
        try:
            yield
        finally:
            self._of_thread.quiet -= 1

    def waited(self, op: str, wait: Wait) -> None:
        """The host waits, in a call that is no operation."""
        if self._of_thread.quiet:
            return
        self._tell(op, wait)
        if self.recorder is not None:
            self.recorder.note_wait(op, wait.reason)

    def _tell(self, op: str, wait: Wait) -> None:
        self.sink.waited(op, wait)
        if self.tape is not None and self.on_refused is not None:
            self.on_refused(op, f"a stream is being captured, and {wait.reason}")

    def refused(self, op: str, why: str) -> None:
        """The host does not wait, but a capture would not let it call this."""
        if self.recorder is not None:
            self.recorder.note_wait(op, why)

    def seeded(self, op: str) -> None:
        """Random numbers of the device are drawn from a new beginning."""
        if self.recorder is not None:
            self.recorder.note_seed(op)

    def _learn(self, func: Any) -> Traits:
        name = operator_name(func)
        schema = getattr(func, "_schema", None)  # Higher-order operators have none.
        returns = schema.returns if schema is not None else ()
        traits = self._traits[func] = Traits(
            name,
            made_of_others(func),
            rule_of(func) if schema is not None else None,
            copies=name in _COPIES,
            aliases=bool(returns) and all(each.alias_info is not None for each in returns),
            one_device=name in _OF_ONE_DEVICE
            or (torch.Tag.pointwise in getattr(func, "tags", ()) and name not in _OF_ANY_DEVICE),
        )
        return traits

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: Any = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Run one operation."""
        if self.over:
            return func(*args, **(kwargs or {}))
        traits = self._traits.get(func) or self._learn(func)
        kwargs = {} if kwargs is None else kwargs
        if isinstance(func, HigherOrderOperator):
            args = self._watched(traits.name, args)
        if traits.composite:
            with self:
                return take_apart(func, args, kwargs)
        device = _device_among(args)
        if not kwargs:
            return self._run(func, traits, args, kwargs, device, device)
        device = device or _device_among(kwargs.values())
        target, pin_it = self._target(kwargs, device)
        moved = False
        if traits.name == "aten::_to_copy":
            # Only what crosses by a method of ours does; aten may state the CPU's own device.
            target = device
            if self._of_thread.moving is not None:
                target, kwargs["non_blocking"] = self._of_thread.moving
                self._of_thread.moving = None
                moved = True
        known = device or target
        open_yet = known is None and self._is_made_inside(args, kwargs, pin_it=pin_it)
        out = self._run(func, traits, args, kwargs, device, target, moved=moved)
        if pin_it:
            pin(out)
        if open_yet:
            self._let_follow(out)
        return out

    def _is_made_inside(self, args: Any, kwargs: dict[str, Any], *, pin_it: bool) -> bool:
        """Whether torch's own code makes a tensor here, where its arguments really are."""
        asked = kwargs.get("device")
        if asked is None or asked.type != "cpu" or self._of_thread.stated or pin_it:
            return False
        return next(tensors_in([args, list(kwargs.values())]), None) is None

    def _let_follow(self, out: Any) -> None:
        for tensor in tensors_in(out):
            storage = let_follow(tensor)
            if storage is not None:
                self._open.add(storage)

    def _watched(self, name: str, args: Any) -> Any:
        """The arguments of a higher-order operator: its functions run in this mode as well."""
        if name == "cond" and args and _is_on_device(args[0]):
            self.waited("torch.cond", Wait(READS_VALUE))

        def watched(function: Any, *, asks: bool) -> Any:
            @functools.wraps(function)
            def call(*given: Any, **named: Any) -> Any:
                with self:
                    out = function(*given, **named)
                    if asks and _is_on_device(out):
                        self.waited("torch.while_loop", Wait(READS_VALUE))
                return out

            return call

        return tuple(
            watched(each, asks=name == "while_loop" and index == 0) if callable(each) else each
            for index, each in enumerate(args)
        )

    def _open_yet(self, args: Any, kwargs: dict[str, Any], device: torch.device | None) -> bool:
        """Settle where arguments live that were made inside; whether it is open for the result."""
        given = list(tensors_in([args, list(kwargs.values())]))
        open_yet = [each for each in given if follows(each)]
        if device is None and not any(_is_array_of_host(each) for each in given):
            return bool(open_yet)
        for tensor in open_yet:
            put(tensor, device or HOST)
            self._open.discard(tensor.untyped_storage())
        return False

    def _target(
        self, kwargs: dict[str, Any], device: torch.device | None
    ) -> tuple[torch.device | None, bool]:
        """Where the result goes; what the CPU cannot do is taken out of the arguments."""
        pin_it = bool(kwargs.get("pin_memory"))
        if pin_it:
            kwargs["pin_memory"] = False
        asked = kwargs.get("device")
        if asked is None or asked.type not in ("cuda", "cpu"):
            return device, pin_it
        kwargs["device"] = HOST
        return (resolved(asked) if asked.type == "cuda" else None), pin_it

    def _run(
        self,
        func: Any,
        traits: Traits,
        args: Any,
        kwargs: dict[str, Any],
        device: torch.device | None,
        target: torch.device | None,
        *,
        moved: bool = False,
    ) -> Any:
        crosses = device is not None or moved
        wait = None
        follow = False
        if self._open:
            follow = self._open_yet(args, kwargs, device) and not moved
        if crosses and traits.rule is not None and not self._of_thread.quiet:
            known = kwargs | {"device": target} if moved else kwargs
            wait = traits.rule(args, known, device_of)
            if wait is not None:
                self._tell(traits.name, wait)
        if crosses and traits.copies:
            self._note_copy(traits.name, args, kwargs, target if moved else None, moved=moved)
        if device is not None and traits.one_device:
            self._look_for_host(traits.name, args, device)
        if self.tape is not None:
            self.tape.before(func, args, kwargs)
        out = wider.run(func, args, kwargs) if crosses else func(*args, **kwargs)
        self.ran_on_device += crosses or target is not None
        if target is not None and target.type == "cuda":
            self._settle(traits, out, target)
        elif follow and not traits.aliases:
            self._let_follow(out)
        if self.tape is not None and (crosses or target is not None):
            self.tape.after(func, args, kwargs, out)
        if self.recorder is not None and self.recorder.recording:
            self.recorder.note(func, args, kwargs, out, wait.reason if wait else "")
        return out

    def _look_for_host(self, op: str, args: Any, device: torch.device) -> None:
        if self.on_refused is not None and any(_is_array_of_host(each) for each in args):
            self.on_refused(op, f"its tensors are on {device} and on the host")

    def _settle(self, traits: Traits, out: Any, target: torch.device) -> None:
        """Note where the results live; one that shares an argument's storage stays there."""
        self.on_device = True
        if traits.aliases:
            return
        if isinstance(out, Tensor):
            put(out, target)
        else:
            for tensor in tensors_in(out):
                put(tensor, target)

    def _note_copy(
        self,
        name: str,
        args: Any,
        kwargs: dict[str, Any],
        target: torch.device | None,
        *,
        moved: bool,
    ) -> None:
        if moved:
            source, to = args[0], target or HOST
            host = source
            non_blocking = bool(kwargs.get("non_blocking"))
        elif name == "aten::copy_":
            source, to = args[1], device_of(args[0])
            host = args[0] if to.type == "cpu" else source
            flag = args[2] if len(args) > 2 else kwargs.get("non_blocking", False)
            non_blocking = bool(flag)
        else:
            return
        if (device_of(source).type == "cpu") == (to.type == "cpu") or not source.numel():
            return
        copy = Copied(
            to_device=to.type != "cpu",
            non_blocking=non_blocking,
            # What a copy to the host allocates is pinned only where the host does not wait for it.
            pinned=pinned(host) or (moved and to.type == "cpu" and non_blocking),
            bytes=source.numel() * source.element_size(),
        )
        self.sink.copied(name, copy)


def _is_on_device(value: Any) -> bool:
    return isinstance(value, Tensor) and pretended_device(value) is not None


def _is_array_of_host(value: Any) -> bool:
    array = isinstance(value, Tensor) and value.dim() > 0
    return array and device_of(value).type == "cpu" and not follows(value)


def _device_among(values: Any) -> torch.device | None:
    """The GPU that an operation runs on: that of the first argument on one."""
    for value in values:
        if isinstance(value, Tensor):
            device = pretended_device(value)
        elif isinstance(value, list | tuple):
            device = _device_among(value)
        else:
            continue
        if device is not None:
            return device
    return None
