"""How is a live function recorded in this very process, where a child could not import it?

A function of a notebook exists in one process alone. The passes are those of a child process, with
the same measures and the same files, less what would stay behind: gpu_trace cannot be switched off
again. A crash, an endless loop or an exit of the target is then this process's own.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from decodeprof.capture.arguments import Arguments
from decodeprof.capture.channel import Channel
from decodeprof.capture.child import connect
from decodeprof.capture.directory import discard_if_empty, prepare
from decodeprof.capture.failure import explain
from decodeprof.capture.hooks import all_modules
from decodeprof.capture.invoke import Caller
from decodeprof.capture.job import Job, Message, Progress, RecordingStopped
from decodeprof.capture.load import Target, UserCodeFailed
from decodeprof.capture.passes import NO_DEVICE
from decodeprof.capture.places import Places
from decodeprof.capture.run_passes import all_passes
from decodeprof.capture.session import Session
from decodeprof.capture.target import Spec
from decodeprof.errors import UsageError
from decodeprof.recording import RECORDING_FILE, Environment, PassReport, Recording, write_recording
from decodeprof.recording import Target as TargetInfo

_ATTACHED = (
    "recorded in the process that holds the function: the profiler's GPU library (CUPTI) stays "
    "attached to it, so launches in this process are slower from now on"
)
_WAS_ATTACHED = (
    "a profile had run in this process before: the profiler's GPU library (CUPTI) was attached "
    "while steps were timed, so each launch took longer than in a fresh process"
)
_NO_GPU_TRACE = (
    "it cannot be switched off again, and the process goes on; `decodeprof diagnose script.py:name`"
    " runs it in a process of its own"
)
_NO_FIRST_CALL = (
    "graphs were captured in this process; `decodeprof diagnose script.py:name` profiles the call "
    "that captures them in a process of its own, which names and sizes their kernels"
)
_NOTEBOOK = "notebook"
_profiled_before = False


def record_here(
    function: Callable[..., Any],
    arguments: Mapping[str, Any],
    *,
    job: Job,
    out: Path,
    progress: Callable[[Progress], None],
) -> Path:
    """Record a function in this process.

    Args:
        function: what generates tokens: a function, a generator function or a coroutine function.
        arguments: its keyword arguments; each call gets the same objects.
        job: what else was asked for; its `target` is not used.
        out: the recording's directory, which must not exist yet unless it is empty.
        progress: told where the recording stands.

    Returns:
        `out`, which then holds a whole recording.

    Raises:
        UsageError: the function cannot be called with these arguments, or `out` is wrong.
        RecordingStopped: the function failed; its `directory` holds what had been recorded, if
            anything was. The function's own exception is its cause.
        KeyboardInterrupt: the user interrupted it; what had been recorded is kept.
    """
    target = _target(function, dict(arguments))
    created = prepare(out)
    places = Places(str(_folder(target.spec)))
    try:
        with _left_as_found():
            _record(target, job=job, out=out, places=places, progress=progress)
    except UserCodeFailed as failed:
        if isinstance(failed.error, KeyboardInterrupt):
            raise failed.error from None
        told = explain(failed.error, during=failed.during, places=places)
        discard_if_empty(out, created=created)
        kept = (out / RECORDING_FILE).is_file()
        raise RecordingStopped(
            told.what, why=told.why, hint=told.hint, directory=out if kept else None
        ) from failed.error
    finally:
        discard_if_empty(out, created=created)
    return out


def _record(
    target: Target,
    *,
    job: Job,
    out: Path,
    places: Places,
    progress: Callable[[Progress], None],
) -> None:
    global _profiled_before
    watches = connect()
    watches.phase = "call"
    caller = Caller(watches.steps)
    session = Session(
        job=job,
        out=out,
        channel=_Told(progress),
        places=places,
        watches=watches,
        caller=caller,
        target=target,
        recording=Recording(
            target=TargetInfo(spec=target.spec.short, kind="function"),
            environment=Environment(python="", torch="", decodeprof=""),
        ),
    )
    before = _profiled_before
    try:
        all_passes(session, last=_no_gpu_trace)
        if session.on_device:
            session.caveat(_WAS_ATTACHED if before else _ATTACHED)
        if session.graphs_captured_in is not None:
            report = PassReport(name="first_call", status="skipped", reason=_NO_FIRST_CALL)
            session.change(passes=[*session.recording.passes, report])
        write_recording(out, session.recording)
    finally:
        _profiled_before = before or any(p.name == "profile" for p in session.recording.passes)
        watches.modules.remove()
        caller.close()


def _no_gpu_trace(session: Session) -> PassReport:
    reason = _NO_GPU_TRACE if session.on_device else NO_DEVICE
    return PassReport(name="gpu_trace", status="skipped", reason=reason)


class _Told(Channel):
    """Hands progress to a function; there is no parent to send anything to."""

    def __init__(self, progress: Callable[[Progress], None]) -> None:
        self._tell = progress

    def send(self, message: Message) -> None:
        """Pass progress on."""
        if isinstance(message, Progress):
            self._tell(message)


def _target(function: Callable[..., Any], arguments: dict[str, Any]) -> Target:
    """Check what was given, before anything runs."""
    if not callable(function):
        raise UsageError(
            f"a value of type {type(function).__name__} cannot be called",
            why="the function itself is needed, not what a call of it returned",
            hint="decodeprof.diagnose(generate, prompt=prompt, max_new_tokens=32)",
        )
    name = _name(function)
    for key, value in arguments.items():
        if isinstance(value, Iterator):
            raise UsageError(
                f"the argument `{key}` is used up by the first call",
                why=f"it is an iterator ({type(value).__name__}), and the function is called "
                "several times",
                hint="give a list, or a function without arguments that makes it anew",
            )
    positional = _positional(function, arguments, name)
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        _check_no_loop(name)
    path = _source(function)
    module = getattr(function, "__module__", None)
    spec = Spec(
        text=name,
        path=path,
        module=None if path else _NOTEBOOK if module in (None, "__main__") else module,
        name=name,
    )
    loaded = sys.modules.get(module or "", ModuleType(_NOTEBOOK))
    return Target(spec, loaded, function, Arguments((), loaded, arguments, positional))


def _name(function: Callable[..., Any]) -> str:
    name: str = getattr(function, "__qualname__", type(function).__qualname__)
    return name.replace("<locals>.", "")


def _positional(
    function: Callable[..., Any], arguments: dict[str, Any], name: str
) -> tuple[str, ...]:
    """Names of the positional-only parameters; the arguments must fit."""
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError):
        return ()  # Written in C: it will say so itself.
    kind = inspect.Parameter.POSITIONAL_ONLY
    names = tuple(each for each, p in signature.parameters.items() if p.kind is kind)
    rest = dict(arguments)
    leading = [rest.pop(each) for each in names if each in rest]
    try:
        signature.bind(*leading, **rest)
    except TypeError as error:
        raise UsageError(
            f"`{name}` cannot be called with these arguments",
            why=str(error),
            hint=f"give its arguments by name: {', '.join(signature.parameters) or 'it has none'}",
        ) from None
    return names


def _check_no_loop(name: str) -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise UsageError(
        f"`{name}` is asynchronous, and an event loop runs here already",
        why="a notebook's loop cannot run another one inside",
        hint="put it into a script, and run `decodeprof diagnose script.py:name`",
    )


def _source(function: Callable[..., Any]) -> Path | None:
    """The file that a function was written in; None: in no file, as in a notebook."""
    try:
        file = inspect.getsourcefile(inspect.unwrap(function))
    except TypeError:
        return None
    return Path(file) if file is not None and Path(file).is_file() else None


def _folder(spec: Spec) -> Path:
    return spec.path.resolve().parent if spec.path is not None else Path.cwd()


@contextlib.contextmanager
def _left_as_found() -> Iterator[None]:
    """Take back what the capture changes in torch for its own process's life."""
    absent = object()
    wrapper: Any = getattr(torch, "_TorchCompileInductorWrapper", None)
    patched = [
        (torch.cuda.CUDAGraph, "replay"),
        (torch.cuda.CUDAGraph, "capture_begin"),
        (torch.autograd.profiler.profile, "_start_trace"),
        *([(wrapper, "__init__")] if wrapper is not None else []),
    ]
    attributes = [(owner, name, vars(owner).get(name, absent)) for owner, name in patched]
    handlers = {logger: list(logger.handlers) for logger in _inductor_loggers()}
    key = "_compiled_call_impl"
    compiled = [(m, m.__dict__[key]) for m in all_modules() if m.__dict__.get(key) is not None]
    try:
        yield
    finally:
        for owner, name, value in attributes:
            if value is absent:
                if name in vars(owner):
                    delattr(owner, name)
            else:
                setattr(owner, name, value)
        for logger in _inductor_loggers():
            for handler in set(logger.handlers) - set(handlers.get(logger, [])):
                logger.removeHandler(handler)
        for module, value in compiled:
            object.__setattr__(module, key, value)


def _inductor_loggers() -> list[logging.Logger]:
    known = logging.root.manager.loggerDict
    return [
        logger
        for name, logger in known.items()
        if name.startswith("torch._inductor") and isinstance(logger, logging.Logger)
    ]
