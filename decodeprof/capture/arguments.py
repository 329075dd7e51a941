"""What is the target called with?

Arguments come from `--arg name=JSON`, `--arg name=@attribute_of_the_script`, and the set-up
function. JSON is decoded again for each call, so that a target that changes its arguments gets
the same ones every time.
"""

from __future__ import annotations

import difflib
import inspect
import json
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from decodeprof.capture.target import lookup
from decodeprof.errors import UsageError

_SHOWN_LENGTH = 60
_MAX_FINGERPRINT_ITEMS = 100_000


@dataclass(frozen=True)
class Argument:
    """One `--arg`."""

    name: str
    text: str
    """JSON text, or the attribute's dotted name."""
    is_attribute: bool

    def shown(self) -> str:
        """As it was given, without a value that is too long for a command to paste."""
        value = self.text if len(self.text) <= _SHOWN_LENGTH else "…"
        return f"{self.name}={'@' if self.is_attribute else ''}{value}"


def parse_arguments(texts: list[str]) -> list[Argument]:
    """Read `--arg` values.

    Raises:
        UsageError: no name, invalid JSON, or a name given twice.
    """
    parsed: dict[str, Argument] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.isidentifier():
            raise UsageError(
                f"`--arg {text}` is not of the form name=value",
                hint="write `--arg max_new_tokens=32`, or `--arg model=@model` for an attribute "
                "of the script",
            )
        if name in parsed:
            raise UsageError(f"`--arg {name}` is given twice")
        is_attribute = value.startswith("@")
        if not is_attribute:
            _check_json(name, value)
        parsed[name] = Argument(name, value.removeprefix("@"), is_attribute)
    return list(parsed.values())


def _check_json(name: str, value: str) -> None:
    try:
        json.loads(value)
    except json.JSONDecodeError as error:
        suggestion = {"True": "true", "False": "false", "None": "null"}.get(
            value, json.dumps(value, ensure_ascii=False)
        )
        raise UsageError(
            f"the value of `--arg {name}` is not JSON",
            why=f"`{value}`: {error.msg} at character {error.pos + 1}",
            hint=f"write `--arg '{name}={suggestion}'`, or `--arg {name}=@{value}` for an "
            "attribute of the script"
            if value.isidentifier()
            else f"for text, write `--arg '{name}={suggestion}'`",
        ) from None


@dataclass(frozen=True)
class Arguments:
    """All that a call needs; `build` makes the values."""

    given: tuple[Argument, ...]
    module: ModuleType
    from_setup: dict[str, Any]
    positional: tuple[str, ...] = ()
    """Names of positional-only parameters, in order."""

    def build(self, *, override: dict[str, Any] | None = None) -> dict[str, Any]:
        """Make the arguments of one call, by name; JSON ones are new objects."""
        values = dict(self.from_setup)
        for argument in self.given:
            values[argument.name] = (
                lookup(self.module, argument.text)
                if argument.is_attribute
                else json.loads(argument.text)
            )
        return values | (override or {})

    def call(self, function: Callable[..., Any], values: dict[str, Any]) -> Any:
        """Call the target with values that `build` made."""
        rest = dict(values)
        leading = [rest.pop(name) for name in self.positional if name in rest]
        return function(*leading, **rest)

    def described(self, values: dict[str, Any]) -> dict[str, str]:
        """A short text for each argument, with no path, address or data of a tensor in it."""
        texts = {argument.name: argument for argument in self.given}
        described = {}
        for name, value in values.items():
            argument = texts.get(name)
            if argument is None or argument.is_attribute:
                described[name] = describe(value)
            else:
                described[name] = _cut(argument.text)
        return described


def describe(value: Any) -> str:
    """A value in a few words: a number itself, a tensor's shape, else the type's name."""
    if value is None or isinstance(value, bool | int | float):
        return repr(value)
    shape = getattr(value, "shape", None)
    if shape is not None and hasattr(value, "dtype"):
        dtype = str(value.dtype).removeprefix("torch.")
        return f"{dtype} {tuple(int(size) for size in shape)}"
    if isinstance(value, list | tuple | dict | set | str | bytes):
        return f"{type(value).__name__} of {len(value)}"
    return type(value).__name__


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN_LENGTH else text[: _SHOWN_LENGTH - 1] + "…"


def bind(
    function: Callable[..., Any],
    *,
    given: list[Argument],
    from_setup: dict[str, Any],
    module: ModuleType,
    shown: str,
    setup: str | None = None,
    varied: str | None = None,
) -> Arguments:
    """Check the arguments against the target's signature.

    Args:
        function: the target, already bound to its instance.
        given: what `--arg` gave.
        from_setup: what the set-up function gave.
        module: the script, for its attributes.
        shown: the target as the user named it, for messages.
        setup: the set-up function's name as it was given, for the command to paste.
        varied: the argument that `--vary` gave.

    Raises:
        UsageError: an attribute that does not exist, an unknown name, or a required parameter
            with no value; the message shows the `--arg` lines to add.
    """
    for argument in given:
        if argument.is_attribute:
            _check_attribute(module, argument)
    try:
        parameters = dict(inspect.signature(function).parameters)
    except (ValueError, TypeError):
        return Arguments(tuple(given), module, from_setup)  # Written in C: it will say so itself.
    names = {argument.name for argument in given} | from_setup.keys()
    kinds = inspect.Parameter
    takes_any = any(each.kind is kinds.VAR_KEYWORD for each in parameters.values())
    named = [
        name
        for name, each in parameters.items()
        if each.kind not in (kinds.VAR_KEYWORD, kinds.VAR_POSITIONAL)
    ]
    for name in sorted(names - set(named)):
        if not takes_any:
            source = f"`--{'vary' if name == varied else 'arg'} {name}` was given"
            if name in from_setup:
                source = "the set-up function returned it"
            raise _unknown_argument(name, named, shown=shown, source=source)
    missing = [
        parameters[name]
        for name in named
        if parameters[name].default is kinds.empty and name not in names
    ]
    if missing:
        # A whole command where there is nothing yet to add to.
        command = shlex.join(
            ["decodeprof", "diagnose", shown, *(["--setup", setup] if setup else [])]
        )
        lead = "add" if names else command
        raise _missing_arguments(missing, module=module, shown=shown, lead=lead)
    positional = tuple(n for n in named if parameters[n].kind is kinds.POSITIONAL_ONLY)
    return Arguments(tuple(given), module, from_setup, positional)


def _check_attribute(module: ModuleType, argument: Argument) -> None:
    try:
        lookup(module, argument.text)
    except AttributeError as error:
        public = [name for name in vars(module) if not name.startswith("_")]
        near = difflib.get_close_matches(argument.text, public, n=3)
        hint = f"did you mean {', '.join(f'`@{name}`' for name in near)}?" if near else ""
        raise UsageError(
            f"`--arg {argument.name}=@{argument.text}` names nothing in the script",
            why=str(error),
            hint=hint or "what `if __name__ == '__main__':` makes does not exist for an import",
        ) from None


def _unknown_argument(name: str, named: list[str], *, shown: str, source: str) -> UsageError:
    near = difflib.get_close_matches(name, named, n=2)
    known = ", ".join(f"`{each}`" for each in (near or named)) or "none"
    return UsageError(
        f"`{shown}` has no parameter `{name}`",
        why=source,
        hint=f"did you mean {known}?" if near else f"its parameters: {known}",
    )


def _missing_arguments(
    missing: list[inspect.Parameter], *, module: ModuleType, shown: str, lead: str
) -> UsageError:
    words = [_suggestion(parameter, module) for parameter in missing]
    lines = [" ".join([lead, *(f"--arg {word}" for word in words)])]
    if not all("=@" in word for word in words):
        lines.append(
            "values are JSON; `name=@attribute` takes an attribute of the script; "
            "`--setup NAME` names a function that returns them as a dict"
        )
    names = ", ".join(f"`{parameter.name}`" for parameter in missing)
    plural = "arguments" if len(missing) > 1 else "argument"
    return UsageError(
        f"`{shown}` needs {len(missing)} {plural} more",
        why=f"required and not given: {names}",
        hint="\n".join(lines),
    )


def _suggestion(parameter: inspect.Parameter, module: ModuleType) -> str:
    name = parameter.name
    if not name.startswith("_") and hasattr(module, name):
        return f"{name}=@{name}"
    annotation = parameter.annotation
    kind = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    placeholder = {"int": "N", "float": "X", "str": "'\"text\"'", "bool": "true"}.get(kind, "JSON")
    return f"{name}={placeholder}"


def fingerprint(values: dict[str, Any]) -> dict[str, Any]:
    """What shows whether a call changed its arguments: of containers alone.

    Tensors are left out: a cache is meant to be written to.
    """
    return {
        name: _fingerprint(value)
        for name, value in values.items()
        if isinstance(value, list | dict | set | bytearray) and len(value) <= _MAX_FINGERPRINT_ITEMS
    }


def _fingerprint(value: Any) -> tuple[Any, ...]:
    items = list(value.items()) if isinstance(value, dict) else list(value)
    return (len(items), *(_token(item) for item in items))


def _token(item: Any) -> Any:
    if isinstance(item, tuple | list):
        return tuple(_token(each) for each in item)
    return item if isinstance(item, int | float | str | bytes | None) else id(item)
