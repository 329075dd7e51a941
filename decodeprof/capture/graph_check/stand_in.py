"""How is the target's step called through us: a function that was named, or a module's forward?"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch
from torch import nn

from decodeprof.capture.target import Spec, find_function, lookup
from decodeprof.errors import UsageError

Handler = Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]
"""Is given the step and what it was called with, and answers in its place."""


class StandIn:
    """Stands before a step; without a handler it passes everything on."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.handler: Handler | None = None
        self._inside = False

    def call(self, step: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The step was called."""
        # What is traced by torch.compile is no call that could be captured by hand.
        if self.handler is None or self._inside or torch.compiler.is_compiling():
            return step(*args, **kwargs)
        # What a step calls inside, such as another module of its class, is no step.
        self._inside = True
        try:
            return self.handler(step, args, kwargs)
        finally:
            self._inside = False


def before_forward(module: nn.Module) -> StandIn:
    """Stand before a module's forward, whose signature stays what it was."""
    stand = StandIn(type(module).__name__)
    original = module.forward

    @functools.wraps(original)
    def forward(*args: Any, **kwargs: Any) -> Any:
        return stand.call(original, args, kwargs)

    object.__setattr__(module, "forward", forward)
    return stand


def before_class(kind: type[nn.Module]) -> StandIn:
    """Stand before the forward of every module of a class: they are made anew in each call."""
    stand = StandIn(kind.__name__)
    kind.forward = _method(stand, kind, "forward")
    return stand


def before_function(script: ModuleType, name: str, *, where: str) -> StandIn:
    """Stand before a function that a person named.

    Args:
        script: the target's module.
        name: ``step``, ``Decoder.step``, ``decoder.step``, or ``package.module:Class.method``.
        where: the script as the user named it, for messages.

    Raises:
        UsageError: there is no such function.
    """
    module, dotted = _module_of(script, name)
    found, _ = find_function(module, Spec(f"{where}:{dotted}", None, None, dotted))
    if isinstance(found, nn.Module):
        return before_forward(found)
    parent, _, attribute = dotted.rpartition(".")
    owner = lookup(module, parent) if parent else module
    stand = StandIn(dotted)
    if isinstance(owner, type):
        setattr(owner, attribute, _method(stand, owner, attribute))
        return stand

    @functools.wraps(found)
    def function(*args: Any, **kwargs: Any) -> Any:
        return stand.call(found, args, kwargs)

    setattr(owner, attribute, function)
    return stand


def _module_of(script: ModuleType, name: str) -> tuple[ModuleType, str]:
    module, colon, dotted = name.rpartition(":")
    if not colon:
        return script, dotted
    try:
        return importlib.import_module(module), dotted
    except ModuleNotFoundError:
        raise UsageError(
            f"`--step {name}` names no module", why=f"Python finds no `{module}`"
        ) from None


def _method(stand: StandIn, owner: type, attribute: str) -> Any:
    static = next(vars(base)[attribute] for base in owner.__mro__ if attribute in vars(base))
    if isinstance(static, staticmethod | classmethod):
        plain = static.__func__

        @functools.wraps(plain)
        def unbound(*args: Any, **kwargs: Any) -> Any:
            return stand.call(plain, args, kwargs)

        return type(static)(unbound)

    @functools.wraps(static)
    def method(instance: Any, *args: Any, **kwargs: Any) -> Any:
        return stand.call(static.__get__(instance, owner), args, kwargs)

    return method
