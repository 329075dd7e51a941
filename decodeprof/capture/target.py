"""Which Python object does a target name, and how is its script loaded?

A spec is read without running anything (`parse_spec`), so that a typing error costs no import.
"""

from __future__ import annotations

import ast
import difflib
import importlib
import importlib.util
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from decodeprof.errors import UsageError

_MAX_LISTED = 12
_FALLBACK_MODULE = "decodeprof_target_script"


@dataclass(frozen=True)
class Spec:
    """A target as the user named it."""

    text: str
    path: Path | None
    """The script; None for a module."""
    module: str | None
    name: str
    """Dotted below the module: ``generate``, ``Engine.generate``, ``engine.generate``."""

    @property
    def short(self) -> str:
        """As it stands in a recording: as it was named, but with no folder outside this one."""
        if self.path is None:
            return f"{self.module}:{self.name}"
        outside = self.path.is_absolute() or ".." in self.path.parts
        return f"{self.path.name if outside else self.path}:{self.name}"


def parse_spec(text: str) -> Spec:
    """Read ``path/to/script.py:name`` or ``package.module:name``.

    Raises:
        UsageError: there is no such file, or no name is given (the candidates are listed).
    """
    where, colon, name = text.rpartition(":")
    if not colon:
        where, name = text, ""
    if ".py:" in where:
        raise UsageError(
            f"`{text}` does not say what to run",
            why="a script and a name are parted by one colon",
            hint=f"write it as `{where}`, or `{where}.{name}` for a method",
        )
    is_path = where.endswith(".py") or "/" in where or Path(where).is_file()
    path = Path(where) if is_path else None
    if path is not None and not path.is_file():
        raise _no_such_file(path)
    if not where:
        raise UsageError(f"`{text}` names no script", hint="write it as `my_script.py:generate`")
    if not name or not all(part.isidentifier() for part in name.split(".")):
        why = f"`{name}` is no function's name" if name else "no function was named"
        listed = callables_in_source(path) if path is not None else []
        hint = (
            f"name one of these: {_listed([f'{where}:{each}' for each in listed])}"
            if listed
            else f"write it as `{where}:generate`"
        )
        raise UsageError(f"`{text}` does not say what to run", why=why, hint=hint)
    return Spec(text, path, None if path is not None else where, name)


def _no_such_file(path: Path) -> UsageError:
    folder = path.parent
    scripts = [each.name for each in folder.glob("*.py")] if folder.is_dir() else []
    near = difflib.get_close_matches(path.name, sorted(scripts), n=3)
    if near:
        hint = f"did you mean {_listed([str(folder / each) for each in near])}?"
    else:
        hint = "the path is relative to the current folder"
    return UsageError(
        f"there is no file `{path}`",
        why="" if folder.is_dir() else f"there is no folder `{folder}` either",
        hint=hint,
    )


def _listed(names: list[str]) -> str:
    shown = ", ".join(f"`{name}`" for name in names[:_MAX_LISTED])
    return shown + (f" and {len(names) - _MAX_LISTED} more" if len(names) > _MAX_LISTED else "")


def callables_in_source(path: Path) -> list[str]:
    """Functions and public methods defined at a script's top level; [] if it does not parse."""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError, OSError):
        return []
    names = []
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            names.append(node.name)
        elif isinstance(node, ast.ClassDef):
            names += [
                f"{node.name}.{each.name}"
                for each in node.body
                if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
                and not each.name.startswith("_")
            ]
    return names


def import_target(spec: Spec) -> ModuleType:
    """Import the target's script or module, running its top level once, not as ``__main__``.

    A script's folder comes first on the path, as when Python runs it; its name in `sys.modules`
    is its own, so that what it defines can be pickled for its worker processes. Whatever the
    script raises passes through.

    Raises:
        UsageError: there is no such module.
    """
    if spec.path is None:
        assert spec.module is not None
        sys.path.insert(0, "")
        return _import_module(spec.module)
    path = spec.path.resolve()
    sys.path.insert(0, str(path.parent))
    sys.argv = [str(spec.path)]
    # A script that bears the name of a module in use must not replace it.
    taken = path.stem in sys.modules or path.stem in sys.stdlib_module_names
    name = _FALLBACK_MODULE if taken else path.stem
    found = importlib.util.spec_from_file_location(name, path)
    if found is None or found.loader is None:
        raise UsageError(f"`{spec.path}` is no Python file", hint="a script ends in `.py`")
    module = importlib.util.module_from_spec(found)
    sys.modules[name] = module
    found.loader.exec_module(module)
    return module


def _import_module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        # A module that the user's module lacks is the user's error, with its traceback.
        if error.name is not None and (name == error.name or name.startswith(error.name + ".")):
            raise UsageError(
                f"there is no module `{name}`",
                why=f"Python finds no `{error.name}` from the current folder",
                hint="a script is named by its path: `path/to/script.py:generate`",
            ) from None
        raise


def lookup(module: ModuleType, dotted: str) -> Any:
    """Follow a dotted name below a module.

    Raises:
        AttributeError: with the longest part that does not exist as its `name`.
    """
    value: Any = module
    done: list[str] = []
    for part in dotted.split("."):
        done.append(part)
        try:
            value = getattr(value, part)
        except AttributeError:
            raise AttributeError(f"no `{'.'.join(done)}`", name=".".join(done)) from None
    return value


def find_function(module: ModuleType, spec: Spec) -> tuple[Any, type | None]:
    """Find what to call, and the class that it needs an instance of, if any.

    Raises:
        UsageError: no such name (near names and the callables are listed), nothing callable, or a
            class, which makes instances and no tokens.
    """
    where = spec.text.rpartition(":")[0]
    function, owner = _find(module, spec.name, where=where)
    if isinstance(function, type):
        own = f"{spec.name}."
        methods = [name for name in callables_of(module) if name.startswith(own)]
        named = _listed([f"{where}:{each}" for each in methods])
        raise UsageError(
            f"`{spec.name}` in `{where}` is a class",
            why="calling it makes an instance, and no tokens",
            hint=f"name a method: {named}" if methods else "name one of its instances, or a method",
        )
    return function, owner


def find_setup(module: ModuleType, name: str, *, where: str) -> Any:
    """Find the set-up function; errors as in `find_function`."""
    return _find(module, name, where=where)[0]


def _find(module: ModuleType, name: str, *, where: str) -> tuple[Any, type | None]:
    try:
        function = lookup(module, name)
    except AttributeError:
        raise _no_such_name(module, name, where) from None
    if not callable(function):
        kind = type(function).__name__
        raise UsageError(
            f"`{name}` in `{where}` is no function",
            why=f"it is a value of type {kind}",
            hint=_name_one_of(callables_of(module), where),
        )
    owner = lookup(module, name.rpartition(".")[0]) if "." in name else None
    needs_instance = isinstance(owner, type) and not isinstance(
        _static(owner, name.rpartition(".")[2]), staticmethod | classmethod
    )
    return function, owner if needs_instance else None


def _static(owner: type, name: str) -> Any:
    return next((vars(base)[name] for base in owner.__mro__ if name in vars(base)), None)


def _no_such_name(module: ModuleType, name: str, where: str) -> UsageError:
    names = callables_of(module)
    near = difflib.get_close_matches(name, names, n=3)
    if not near:
        last = {each.rpartition(".")[2]: each for each in names}
        near = [last[each] for each in difflib.get_close_matches(name, sorted(last), n=3)]
    if near:
        hint = f"did you mean {_listed([f'{where}:{each}' for each in near])}?"
    else:
        hint = _name_one_of(names, where)
    return UsageError(f"`{where}` has no `{name}`", hint=hint)


def _name_one_of(names: list[str], where: str) -> str:
    if not names:
        return "the script defines no function; put the loop into one"
    return f"name one of these: {_listed([f'{where}:{each}' for each in names])}"


def callables_of(module: ModuleType) -> list[str]:
    """Functions and public methods that a module defines itself, in order of definition."""
    names = []
    for name, value in vars(module).items():
        if name.startswith("_") or getattr(value, "__module__", None) != module.__name__:
            continue
        if isinstance(value, type):
            names += [
                f"{name}.{method}"
                for method, each in vars(value).items()
                if (callable(each) or isinstance(each, classmethod)) and not method.startswith("_")
            ]
        elif callable(value):
            names.append(name)
    return names
