"""How does a target become something that can be called: its script imported, its set-up run?"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from decodeprof.capture.arguments import Arguments, bind, parse_arguments
from decodeprof.capture.failure import IMPORTING
from decodeprof.capture.invoke import Caller
from decodeprof.capture.job import Job
from decodeprof.capture.target import Spec, find_function, find_setup, import_target
from decodeprof.errors import DecodeprofError, UsageError


class UserCodeFailed(Exception):
    """The user's code raised `error`; `during` says what was going on."""

    def __init__(self, error: BaseException, *, during: str) -> None:
        super().__init__(during)
        self.error = error
        self.during = during


@dataclass(frozen=True)
class Target:
    """A target, ready to be called."""

    spec: Spec
    module: ModuleType
    function: Callable[..., Any]
    """Bound to its instance, where it is a method."""
    arguments: Arguments


def load(job: Job, spec: Spec, *, caller: Caller, on_phase: Callable[[str], None]) -> Target:
    """Import the script, run the set-up function, and check the arguments.

    Args:
        job: what the user asked for.
        spec: the target's name.
        caller: runs the set-up function, in the event loop that the target's calls will share.
        on_phase: told ``import``, ``setup`` and ``call`` as each begins.

    Raises:
        UsageError: a name or an argument is wrong.
        UserCodeFailed: the script or its set-up raised.
    """
    on_phase("import")
    given = parse_arguments(job.args)
    module = _user_code(lambda: import_target(spec), IMPORTING)
    where = spec.text.rpartition(":")[0]
    function, owner = find_function(module, spec)
    setup = find_setup(module, job.setup, where=where) if job.setup is not None else None
    on_phase("setup")
    instance, from_setup = None, dict[str, Any]()
    if setup is not None:
        _check_setup(setup, str(job.setup))
        value = _user_code(lambda: caller.plain(setup), f"in the set-up function `{job.setup}`")
        instance, from_setup = _split(value, owner, name=str(job.setup), shown=spec.text)
    if owner is not None:
        if instance is None:
            instance = _instantiate(owner, module, spec)
        function = getattr(instance, spec.name.rpartition(".")[2])
    arguments = bind(
        function,
        given=given,
        from_setup=from_setup,
        module=module,
        shown=spec.text,
        setup=job.setup,
        varied=job.varied,
    )
    on_phase("call")
    return Target(spec, module, function, arguments)


def _user_code(function: Callable[[], Any], during: str) -> Any:
    try:
        return function()
    except DecodeprofError:
        raise
    # User code: it may raise or exit in any way, and all of it is reported.
    except BaseException as error:
        raise UserCodeFailed(error, during=during) from error


def _check_setup(setup: Any, name: str) -> None:
    required = _required(setup)
    if required:
        raise UsageError(
            f"the set-up function `{name}` needs arguments",
            why="required: " + ", ".join(f"`{each}`" for each in required),
            hint="a set-up function is called with none; give its parameters defaults",
        )


def _required(function: Any) -> list[str]:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (ValueError, TypeError):
        return []
    optional = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    return [
        each.name
        for each in parameters
        if each.default is inspect.Parameter.empty and each.kind not in optional
    ]


def _split(value: Any, owner: type | None, *, name: str, shown: str) -> tuple[Any, dict[str, Any]]:
    """What a set-up function returned: the instance, the keyword arguments, or both in a tuple."""
    instance, keywords = value, None
    if isinstance(value, tuple) and len(value) == 2:
        instance, keywords = value
    elif isinstance(value, dict):
        instance, keywords = None, value
    right_instance = instance is None or (owner is not None and isinstance(instance, owner))
    right_keywords = keywords is None or (
        isinstance(keywords, dict) and all(isinstance(key, str) for key in keywords)
    )
    if value is not None and right_instance and right_keywords:
        return instance, keywords or {}
    if owner is None:
        wanted = "a dict of keyword arguments"
    else:
        wanted = f"an instance of `{owner.__name__}`, or a dict of keyword arguments"
    raise UsageError(
        f"the set-up function `{name}` returned {type(value).__name__}",
        why=f"for `{shown}` it must return {wanted}",
        hint="add a `return`" if value is None else "",
    )


def _instantiate(owner: type, module: ModuleType, spec: Spec) -> Any:
    method = spec.name.rpartition(".")[2]
    where = spec.text.rpartition(":")[0]
    instances = [name for name, value in vars(module).items() if type(value) is owner]
    if not _required(owner) and not instances:
        return _user_code(owner, f"while making a `{owner.__name__}`")
    if instances:
        names = ", ".join(f"`{where}:{name}.{method}`" for name in instances)
        hint = f"name the script's own: {names}"
    else:
        hint = (
            f"write a function in the script that returns a `{owner.__name__}`, and add "
            "`--setup its_name`"
        )
    needed = ", ".join(f"`{name}`" for name in _required(owner))
    why = f"`{owner.__name__}` needs {needed}" if needed else "the script has one already"
    raise UsageError(f"`{spec.text}` is a method and needs an instance", why=why, hint=hint)


def seconds_since(begin: float) -> float:
    """Seconds since a reading of `time.monotonic`, to the millisecond."""
    return round(time.monotonic() - begin, 3)
