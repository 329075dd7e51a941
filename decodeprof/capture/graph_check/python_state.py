"""What does a step change in Python, which a replay of its kernels leaves alone?

A counter, an attribute that is bound to a new and longer tensor, a list that grows. All that can
be reached from the step's function and arguments is noted before a step, compared after it, and
put back so that the step can run again from the same state.
"""

from __future__ import annotations

import functools
import random
import types
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from decodeprof import units
from decodeprof.model.graph_check import PythonChange

_MOST_HOLDERS = 50_000
"""Objects that are looked into; a model of a hundred layers has some ten thousand."""
_MOST_ITEMS = 20_000
"""A longer list is data, such as a vocabulary, and no state of a step."""
_SHOWN_LENGTH = 40
_OWN = "decodeprof.capture."
_PLAIN = (bool, int, float, complex, str, bytes, type(None))
_LIBRARIES = ("torch", "transformers", "numpy", "functools", "contextlib")
_OPAQUE = (type, types.ModuleType, types.BuiltinFunctionType, torch.dtype, torch.device)


_ABSENT = object()


class _Cells:
    """The variables of the functions around one, as a mapping."""

    def __init__(self, function: types.FunctionType) -> None:
        cells = function.__closure__ or ()
        self._cells = dict(zip(function.__code__.co_freevars, cells, strict=False))

    def items(self) -> list[tuple[str, Any]]:
        """Those that are bound."""
        found = ((name, self.get(name, _ABSENT)) for name in self._cells)
        return [(name, value) for name, value in found if value is not _ABSENT]

    def get(self, name: str, otherwise: Any) -> Any:
        """A variable's value."""
        try:
            return self._cells[name].cell_contents
        except ValueError:
            return otherwise  # Not bound yet.

    def __setitem__(self, name: str, value: Any) -> None:
        self._cells[name].cell_contents = value


class _Slots:
    """The attributes of an object that keeps them in slots, as a mapping."""

    def __init__(self, holder: Any) -> None:
        self._holder = holder
        slots = (vars(kind).get("__slots__", ()) for kind in type(holder).__mro__)
        names = (each for slot in slots for each in ((slot,) if isinstance(slot, str) else slot))
        self._names = [name for name in names if name not in ("__dict__", "__weakref__")]

    def items(self) -> list[tuple[str, Any]]:
        """Those that are set."""
        found = ((name, self.get(name, _ABSENT)) for name in self._names)
        return [(name, value) for name, value in found if value is not _ABSENT]

    def get(self, name: str, otherwise: Any) -> Any:
        """An attribute's value."""
        return getattr(self._holder, name, otherwise)

    def __setitem__(self, name: str, value: Any) -> None:
        setattr(self._holder, name, value)


@dataclass(frozen=True)
class _Held:
    path: str
    holder: Any
    """A list or a deque, or the dict of a mapping or an object, or what stands for one."""
    was: Any
    """A shallow copy."""
    partial: bool = False
    """The copy holds only some of the keys, and the others are nobody's business."""


@dataclass
class Snapshot:
    """What could be reached, as it was."""

    held: list[_Held] = field(default_factory=list)
    random_state: Any = field(default_factory=random.getstate)
    """Of Python's own random numbers."""

    @classmethod
    def take(cls, roots: Mapping[str, Any]) -> Snapshot:
        """Note what can be reached from some named values."""
        taken = cls()
        seen: set[int] = set()
        queue: deque[tuple[str, Any]] = deque(roots.items())
        while queue and len(taken.held) < _MOST_HOLDERS:
            path, value = queue.popleft()
            if id(value) in seen or isinstance(value, (*_PLAIN, *_OPAQUE)):
                continue
            seen.add(id(value))
            queue.extend(taken._look(path, value))
        return taken

    def _look(self, path: str, value: Any) -> Iterator[tuple[str, Any]]:
        """Note one value, if it holds others, and give those."""
        if isinstance(value, Tensor):
            return
        if isinstance(value, list | tuple | deque):
            if len(value) > _MOST_ITEMS:
                return
            if not isinstance(value, tuple):
                self.held.append(_Held(path, value, list(value)))
            yield from ((f"{path}[{index}]", each) for index, each in enumerate(value))
        elif isinstance(value, dict):
            if len(value) > _MOST_ITEMS:
                return
            self.held.append(_Held(path, value, dict(value)))
            yield from ((f"{path}[{key!r:.{_SHOWN_LENGTH}}]", each) for key, each in value.items())
        elif isinstance(value, functools.partial):
            yield from ((f"{path}.{name}", getattr(value, name)) for name in ("func", "args"))
        elif isinstance(value, types.MethodType):
            yield path, value.__self__
            yield path, value.__func__
        elif isinstance(value, types.FunctionType):
            yield from self._look_at_variables("", _Cells(value))
            yield from self._look_at_globals(value)
        else:
            yield from self._look_into_object(path, value)

    def _look_into_object(self, path: str, value: Any) -> Iterator[tuple[str, Any]]:
        if not _is_of_the_program(value):
            return
        slots = _Slots(value)
        if slots.items():
            yield from self._look_at_variables(path, slots)
        attributes = getattr(value, "__dict__", None)
        if not isinstance(attributes, dict):
            return
        self.held.append(_Held(path, attributes, dict(attributes)))
        for name, each in attributes.items():
            # A module's tensors and children are known by their own names.
            inner = name in ("_modules", "_buffers", "_parameters") and isinstance(value, nn.Module)
            if inner and isinstance(each, dict):
                self.held.append(_Held(path, each, dict(each)))
                yield from ((f"{path}.{key}", item) for key, item in each.items())
            else:
                yield f"{path}.{name}", each

    def _look_at_variables(self, path: str, holder: _Cells | _Slots) -> Iterator[tuple[str, Any]]:
        known = dict(holder.items())
        if known:
            self.held.append(_Held(path, holder, known, partial=True))
        yield from ((f"{path}.{name}" if path else name, each) for name, each in known.items())

    def _look_at_globals(self, function: types.FunctionType) -> Iterator[tuple[str, Any]]:
        """The globals that a function names, in code that is no library's."""
        if str(function.__module__).partition(".")[0] in _LIBRARIES:
            return
        names = [name for name in function.__code__.co_names if name in function.__globals__]
        named = {name: function.__globals__[name] for name in names}
        self.held.append(_Held("", function.__globals__, named, partial=True))
        yield from named.items()

    def changes(self) -> list[PythonChange]:
        """What is otherwise now."""
        found: dict[str, PythonChange] = {}
        for held in self.held:
            for name, before, after in _changed(held):
                change = _told(name, before, after)
                if change is not None:
                    found.setdefault(name, change)
        if random.getstate() != self.random_state:
            text = "random numbers of Python's own are drawn"
            found["random"] = PythonChange(name="random", text=text, kind="value")
        return list(found.values())

    def put_back(self) -> None:
        """Make everything as it was; values in tensors are not touched."""
        random.setstate(self.random_state)
        for held in self.held:
            if isinstance(held.holder, list | deque):
                if not _same_items(held.holder, held.was):
                    held.holder.clear()
                    held.holder.extend(held.was)
                continue
            new = () if held.partial else [key for key in held.holder if key not in held.was]
            for key in new:
                del held.holder[key]
            for key, value in held.was.items():
                if held.holder.get(key, _ABSENT) is not value:
                    held.holder[key] = value

    def tensors(self) -> dict[str, Tensor]:
        """Every tensor that was reached and is no parameter, by name."""
        found: dict[str, Tensor] = {}
        for held in self.held:
            items = enumerate(held.was) if isinstance(held.was, list) else held.was.items()
            for key, value in items:
                if isinstance(value, Tensor) and not isinstance(value, nn.Parameter):
                    found[_name(held, key)] = value
        return found


def roots_of(function: Any, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Where the state of a step may hang: its arguments, its object, and what its code names."""
    plain = getattr(function, "__func__", function)
    roots = dict(arguments)
    owner = getattr(function, "__self__", None)
    if owner is not None:
        roots["self"] = owner
    if isinstance(plain, types.FunctionType):
        roots[plain.__name__] = plain
    return roots


def _is_of_the_program(value: Any) -> bool:
    """Whether something of a step's may be in an object's attributes."""
    module = type(value).__module__
    # What watches the step hangs on it too, and must not be put back with it.
    if module.startswith(_OWN):
        return False
    return isinstance(value, nn.Module) or not module.startswith(("torch", "numpy"))


def _same_items(one: list[Any] | deque[Any], two: list[Any]) -> bool:
    return len(one) == len(two) and all(a is b for a, b in zip(one, two, strict=True))


def _name(held: _Held, key: Any) -> str:
    if isinstance(held.holder, list | deque):
        return f"{held.path}[{key}]"
    if not held.path:
        return str(key)
    return f"{held.path}.{key}" if isinstance(key, str) else f"{held.path}[{key!r}]"


def _changed(held: _Held) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(held.holder, list | deque):
        if len(held.holder) != len(held.was):
            yield held.path, held.was, list(held.holder)
        for index, (before, after) in enumerate(zip(held.was, held.holder, strict=False)):
            if before is not after:
                yield _name(held, index), before, after
        return
    for key in held.was if held.partial else {**held.was, **held.holder}:
        before, after = held.was.get(key, _ABSENT), held.holder.get(key, _ABSENT)
        if before is not after:
            yield _name(held, key), before, after


def _told(name: str, before: Any, after: Any) -> PythonChange | None:
    """A change in words; None where it is none that matters."""
    if isinstance(before, Tensor) and isinstance(after, Tensor):
        if before.data_ptr() == after.data_ptr() and before.shape == after.shape:
            return None
        text = f"bound to a new tensor, {_shape(before)} → {_shape(after)}"
        grows = after.numel() > before.numel()
        return PythonChange(name=name, text=text, kind="tensor", grows=grows)
    if isinstance(before, list) and isinstance(after, list):
        text = f"{len(before)} → {units.counted(len(after), 'item')}"
        grows = len(after) > len(before)
        return PythonChange(name=name, text=text, kind="container", grows=grows)
    if isinstance(before, _PLAIN) and isinstance(after, _PLAIN):
        if before == after:
            return None
        text = f"{_short(before)} → {_short(after)}"
        return PythonChange(name=name, text=text, kind="value")
    if before is _ABSENT or after is _ABSENT:
        word = "appears" if before is _ABSENT else "is gone"
        return PythonChange(name=name, text=word, kind="container", grows=before is _ABSENT)
    return None


def _shape(tensor: Tensor) -> str:
    return f"({', '.join(str(int(size)) for size in tensor.shape)})"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN_LENGTH else text[: _SHOWN_LENGTH - 1] + "…"
