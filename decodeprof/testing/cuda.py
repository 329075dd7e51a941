"""How are blocking calls of one thread seen on a CUDA device, without changing what runs?

Three sources, since no single one sees all of it:

- torch's gpu_trace callbacks fire at the call, before the wait, for every stream, event and device
  synchronisation. Unlike sync-debug warnings they pass through no warning filter, see event and
  device synchronisations, and fire from compiled code too.
- A dispatch mode sees the copies that were asked not to block and do so all the same, because
  their host memory is pageable: such a copy makes no synchronising call. It names operators too.
- Operators that wait inside a library, where neither looks, are known by name.

The callbacks belong to the process and cannot be taken away again, so that each launch costs about
a microsecond more from the first use on. What they tell of other threads is dropped.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch.profiler import record_function
from torch.utils._python_dispatch import TorchDispatchMode

from decodeprof import mark
from decodeprof.capture.composite import made_of_others, take_apart
from decodeprof.capture.places import Frame, stack_from
from decodeprof.capture.profiler import new_profiler
from decodeprof.capture.syncs import gpu_trace
from decodeprof.errors import DecodeprofError
from decodeprof.testing.backend import Blocked, CannotWatch, Profiled

_HERE = str(Path(__file__).resolve().parent)
_WHYS = {
    "stream": "waits for a stream",
    "event": "waits for an event",
    "device": "waits for the device",
}
_PAGEABLE = "copies pageable memory, which non_blocking does not make asynchronous"
_INSIDE = "waits inside a library"
# thrust synchronises in these with calls of its own, which torch's callbacks do not see.
_WAITS_INSIDE = frozenset({"aten::unique_dim"})


class _Listener:
    """One open context."""

    def __init__(self, note: Callable[[Blocked], None]) -> None:
        self._note = note
        self.ops: list[str] = []
        """Operators that are running, outermost first."""

    def heard(self, why: str, stack: tuple[Frame, ...]) -> None:
        op = self.ops[-1] if self.ops else None
        frames = tuple(frame for frame in stack if not frame.file.startswith(_HERE))
        self._note(Blocked(why, op, frames))


class _Router:
    """Passes what happens in a thread to the contexts that are open in it."""

    def __init__(self) -> None:
        self._listeners: dict[int, list[_Listener]] = {}
        self._hooked = False
        self._lock = threading.Lock()

    def note(self, kind: str) -> None:
        """A synchronisation is about to happen in this thread."""
        listeners = self._listeners.get(threading.get_ident())
        if listeners:
            stack = stack_from(sys._getframe(1))
            for listener in listeners:
                listener.heard(_WHYS[kind], stack)

    @contextlib.contextmanager
    def open(self, listener: _Listener) -> Iterator[None]:
        """Pass on to a listener what happens in this thread while this is open."""
        self._hook()
        thread = threading.get_ident()
        self._listeners.setdefault(thread, []).append(listener)
        try:
            yield
        finally:
            listeners = self._listeners[thread]
            listeners.remove(listener)
            if not listeners:
                del self._listeners[thread]

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Pass nothing on that this thread does while this is open: it is not the test's doing."""
        thread = threading.get_ident()
        listeners = self._listeners.pop(thread, None)
        try:
            yield
        finally:
            if listeners is not None:
                self._listeners[thread] = listeners

    def _hook(self) -> None:
        with self._lock:
            if not self._hooked:
                if not hasattr(torch._C, "_activate_gpu_trace"):
                    raise CannotWatch(f"torch {torch.__version__} has no gpu_trace callbacks")
                gpu_trace(self)
                self._hooked = True


_router = _Router()


class _Operators(TorchDispatchMode):
    """Notes the operators that run, and those that block without a synchronising call."""

    supports_higher_order_operators = True

    def __init__(self, listener: _Listener) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._listener = listener

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """True: torch.compile compiles as if this mode were not there."""
        return True

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Run an operator as it would have been run, and note it."""
        del types
        kwargs = kwargs or {}
        if made_of_others(func):
            with self:
                return take_apart(func, args, kwargs)
        ops = self._listener.ops
        ops.append(operator_name(func))
        try:
            why = blocks_unseen(ops[-1], args, kwargs)
            if why is not None:
                self._listener.heard(why, stack_from(sys._getframe(1)))
            return func(*args, **kwargs)
        finally:
            ops.pop()


def operator_name(func: Any) -> str:
    """``aten::copy_``, without its overload."""
    schema = getattr(func, "_schema", None)
    return str(getattr(schema, "name", None) or func)


def blocks_unseen(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str | None:
    """Why an operator blocks although torch's callbacks see no call of it; None: it does not.

    Args:
        name: the operator, without its overload.
        args: its positional arguments.
        kwargs: its keyword arguments.
    """
    if name == "aten::_to_copy":
        source, target = args[0], torch.device(kwargs.get("device") or args[0].device)
        pinned = source.device.type != "cpu" or source.is_pinned()
        asynchronous = bool(kwargs.get("non_blocking"))
        # Copied to the host like this, torch itself makes the new tensor pinned.
        crosses = source.device.type == "cpu" and target.type == "cuda"
    elif name == "aten::copy_":
        into, source = args[0], args[1]
        asynchronous = bool(args[2] if len(args) > 2 else kwargs.get("non_blocking"))
        crosses = {into.device.type, source.device.type} == {"cpu", "cuda"}
        pinned = not crosses or (into if into.device.type == "cpu" else source).is_pinned()
    else:
        on_device = bool(args) and getattr(getattr(args[0], "device", None), "type", "") == "cuda"
        return _INSIDE if name in _WAITS_INSIDE and on_device else None
    if asynchronous and crosses and not pinned and source.numel():
        return _PAGEABLE
    return None


class CudaBackend:
    """Sees what really happens on a CUDA device."""

    predicts = False
    why_uncounted = ""

    def surroundings(self) -> contextlib.AbstractContextManager[None]:
        """Nothing: the device is there."""
        return contextlib.nullcontext()

    @contextlib.contextmanager
    def watching(self, note: Callable[[Blocked], None]) -> Iterator[None]:
        """Tell `note` of each time that this thread is blocked while the context is open."""
        listener = _Listener(note)
        # Where a mode would turn torch.compile off, what runs would no longer be what is tested:
        # pageable copies then go unseen, and operators unnamed.
        can_see_operators = hasattr(TorchDispatchMode, "ignore_compile_internals")
        operators = _Operators(listener) if can_see_operators else contextlib.nullcontext()
        with _router.open(listener), operators:
            yield

    @contextlib.contextmanager
    def profiling(self, into: Profiled) -> Iterator[None]:
        """Profile all threads while the context is open, and write the trace.

        What runs inside is enclosed by `mark.CALL`. Before it stands one kernel in
        `mark.THROWAWAY`, which wakes the profiler and shows that it sees launches at all.
        """
        autograd: Any = torch.autograd
        if autograd._profiler_enabled():
            raise DecodeprofError(
                "launches cannot be counted while another profiler runs",
                why="only one torch.profiler can run in a process",
                hint="end it before, or count launches in a test of their own",
            )
        profiler = new_profiler(on_device=True)
        with _router.paused():
            one = torch.zeros(1, device="cuda")
            torch.cuda.synchronize()
            profiler.start()
        try:
            with _router.paused(), record_function(mark.THROWAWAY):
                one.add_(1)
                torch.cuda.synchronize()
            with record_function(mark.CALL):
                yield
        finally:
            with _router.paused():
                torch.cuda.synchronize()
                profiler.stop()
        path = into.folder / "trace.json"
        profiler.export_chrome_trace(str(path))
        into.traces.append(path)
