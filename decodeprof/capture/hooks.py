"""How does `Watch` hear of modules and graphs without disturbing them?

While discovering, hooks that torch calls for every module; later, hooks on the few modules that
matter, since the former slow every module call down. Inside code that torch.compile traces, a
hook returns at once: dynamo folds the question away, so there is neither a graph break nor an
entry in the compiled code. Hooks are never there while something is compiled for the first time
(the first call runs without any), and dynamo does not guard on hooks that were absent.
"""

from __future__ import annotations

import contextlib
import gc
import sys
from collections.abc import Callable, Hashable, Mapping
from typing import Any

import torch
from torch import nn
from torch.nn.modules import module as torch_module

from decodeprof import mark
from decodeprof.capture.places import Frame, stack_from
from decodeprof.capture.watch import NO_SHAPE, Shape, Watch

_INTEGERS = (torch.int64, torch.int32, torch.int16, torch.uint8, torch.int8)
# Arguments that are as long as the whole sequence, or tell places in it.
_NOT_TOKENS = ("mask", "position", "pos", "cache", "labels", "past")


def shape_of(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Shape:
    """Query length and batch of a forward, from the shapes of its tensors alone.

    Tokens are the first integer tensor (batch, query), or (query,); embeddings the first floating
    one (batch, query, width). `input_ids` and `inputs_embeds` come first where they are named so.
    """
    named = [("", value) for value in args] + list(kwargs.items())
    named.sort(key=lambda each: each[0] not in ("input_ids", "inputs_embeds"))
    floating = NO_SHAPE
    for name, value in named:
        if not isinstance(value, torch.Tensor) or any(word in name for word in _NOT_TOKENS):
            continue
        if value.dtype in _INTEGERS and value.dim() == 2:
            return Shape(int(value.shape[1]), int(value.shape[0]))
        if value.dtype in _INTEGERS and value.dim() == 1:
            return Shape(int(value.shape[0]), 1)
        if value.is_floating_point() and value.dim() == 3 and floating is NO_SHAPE:
            floating = Shape(int(value.shape[1]), int(value.shape[0]))
    return floating


class ModuleHooks:
    """Connects modules to a `Watch`; at most one kind of hooks is installed at a time."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._handles: list[Any] = []
        self.modules: dict[Hashable, nn.Module] = {}
        """Each module that was seen while discovering, by its key; held so that no key recurs."""
        self._wrapped: set[int] = set()

    def watch_all(self, *, by_type: bool = False) -> None:
        """Hook every module, for discovering.

        Args:
            by_type: take a module's class for its key: modules are made anew in each call.
        """
        self.remove()
        key_of = _type_key if by_type else self._instance_key
        watch = self._watch

        def before(module: nn.Module, args: tuple[Any, ...]) -> None:
            if not torch.compiler.is_compiling():
                watch.enter(mark.FORWARD, key_of(module), shape_of(args, {}))

        def after(_module: nn.Module, _args: Any, _output: Any) -> None:
            if not torch.compiler.is_compiling():
                watch.leave()

        self._handles = [
            torch_module.register_module_forward_pre_hook(before),
            torch_module.register_module_forward_hook(after, always_call=True),
        ]
        if "torch._dynamo" in sys.modules:
            for module in all_modules():
                self._wrap_compiled(module)

    def _instance_key(self, module: nn.Module) -> Hashable:
        key = id(module)
        self.modules[key] = module
        return key

    def _wrap_compiled(self, module: nn.Module) -> None:
        """Watch a module that was compiled in place: its hooks are part of what is compiled."""
        compiled = module.__dict__.get("_compiled_call_impl")
        if compiled is None or id(module) in self._wrapped:
            return
        watch = self._watch
        key = self._instance_key(module)

        def called(*args: Any, **kwargs: Any) -> Any:
            if torch.compiler.is_compiling():
                return compiled(*args, **kwargs)
            watch.enter(mark.FORWARD, key, shape_of(args, kwargs))
            try:
                return compiled(*args, **kwargs)
            finally:
                watch.leave()

        object.__setattr__(module, "_compiled_call_impl", called)
        self._wrapped.add(id(module))

    def watch_these(self, keys: set[Hashable]) -> None:
        """Hook a few modules that were discovered, and let go of the others."""
        self.remove()
        watch = self._watch
        scripted: set[Hashable] = set()
        for key in keys:
            module = self.modules.get(key)
            if module is None or id(module) in self._wrapped:
                continue
            if isinstance(module, torch.jit.ScriptModule):
                scripted.add(key)  # It takes no hooks of its own.
                continue

            def before(
                _module: nn.Module,
                args: tuple[Any, ...],
                kwargs: dict[str, Any],
                key: Hashable = key,
            ) -> None:
                if not torch.compiler.is_compiling():
                    watch.enter(mark.FORWARD, key, shape_of(args, kwargs))

            def after(_module: nn.Module, _args: Any, _output: Any) -> None:
                if not torch.compiler.is_compiling():
                    watch.leave()

            self._handles += [
                module.register_forward_pre_hook(before, with_kwargs=True),
                module.register_forward_hook(after, always_call=True),
            ]
        if scripted:
            self._watch_scripted(scripted)
        kept = keys | self._wrapped
        self.modules = {key: module for key, module in self.modules.items() if key in kept}

    def _watch_scripted(self, keys: set[Hashable]) -> None:
        """Hook every module, and listen to a few that TorchScript compiled."""
        watch = self._watch

        def before(module: nn.Module, args: tuple[Any, ...]) -> None:
            if id(module) in keys and not torch.compiler.is_compiling():
                watch.enter(mark.FORWARD, id(module), shape_of(args, {}))

        def after(module: nn.Module, _args: Any, _output: Any) -> None:
            if id(module) in keys and not torch.compiler.is_compiling():
                watch.leave()

        self._handles += [
            torch_module.register_module_forward_pre_hook(before),
            torch_module.register_module_forward_hook(after, always_call=True),
        ]

    def remove(self) -> None:
        """Take all hooks away."""
        for handle in self._handles:
            handle.remove()
        self._handles = []


def _type_key(module: nn.Module) -> Hashable:
    kind = type(module)
    return f"{kind.__module__}.{kind.__qualname__}"


def type_key(modules: Mapping[Hashable, nn.Module], key: Hashable) -> Hashable:
    """The key by type of what has another key; a graph keeps its own."""
    module = modules.get(key)
    return key if module is None else _type_key(module)


def all_modules() -> list[nn.Module]:
    """Every module that is alive in the process."""
    # type() and not isinstance(): the latter runs code of proxies and lazily loaded packages.
    return [each for each in gc.get_objects() if issubclass(type(each), nn.Module)]


def watch_graphs(watch: Watch, on_capture: Callable[[], None]) -> None:
    """Tell of every replay and every capture of a CUDA graph from now on.

    It comes before the script is imported, since an engine may keep `graph.replay` itself.
    """
    graph_class: Any = torch.cuda.CUDAGraph
    replay = graph_class.replay
    capture_begin = graph_class.capture_begin
    numbers = iter(range(sys.maxsize))

    def watched_replay(self: Any) -> None:
        key = getattr(self, "_decodeprof_key", None)
        if key is None:
            key = self._decodeprof_key = ("graph", next(numbers))
        watch.replays += 1
        watch.enter(mark.REPLAY, key, NO_SHAPE)
        around = watch.around_replays or contextlib.nullcontext
        try:
            with around():
                replay(self)
        finally:
            watch.leave()

    def watched_capture_begin(self: Any, *args: Any, **kwargs: Any) -> None:
        on_capture()
        capture_begin(self, *args, **kwargs)

    graph_class.replay = watched_replay
    graph_class.capture_begin = watched_capture_begin


class ProfilerWatch:
    """Notices that the target runs a torch profiler of its own.

    A profiler started inside another one ends it without an error, so it must be known before.
    """

    def __init__(self) -> None:
        self.places: list[tuple[Frame, ...]] = []
        """The stack, innermost first, in which each was started."""
        self.ours = False
        profile: Any = torch.autograd.profiler.profile
        start = profile._start_trace

        def watched_start(profiler: Any) -> None:
            if not self.ours:
                self.places.append(stack_from(sys._getframe(1)))
            start(profiler)

        profile._start_trace = watched_start
