"""Which limits does the project itself set? `[tool.decodeprof.check]` in its pyproject.toml."""

from __future__ import annotations

import difflib
import tomllib
from pathlib import Path
from typing import Any

import msgspec

from decodeprof.errors import InputError, UsageError
from decodeprof.model.gate import Count, Share

FILE = "pyproject.toml"
TABLE = "tool.decodeprof.check"


class CheckSettings(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """The options of `check`, by their names on the command line."""

    max_syncs: Count | None = None
    max_launches: Count | None = None
    max_kernels: Count | None = None
    min_mbu: Share | None = None
    baseline: str | None = None
    """Relative to the folder of the pyproject.toml."""
    no_new_syncs: bool | None = None


def check_settings(folder: Path) -> tuple[CheckSettings, Path | None]:
    """The settings of the nearest pyproject.toml upwards that has some, and its path.

    Raises:
        InputError: a pyproject.toml on the way cannot be read, or is no TOML.
        UsageError: the table holds an unknown option, or a value that it does not take.
    """
    for parent in (folder, *folder.parents):
        path = parent / FILE
        if not path.is_file():
            continue
        table = _table(path)
        if table is not None:
            return _settings(table, path), path
    return CheckSettings(), None


def _table(path: Path) -> dict[str, Any] | None:
    try:
        value: Any = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot read `{path}`", why=str(error.strerror)) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"`{path}` is no TOML", why=str(error)) from None
    for key in TABLE.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else None


def _settings(table: dict[str, Any], path: Path) -> CheckSettings:
    names = [field.encode_name for field in msgspec.structs.fields(CheckSettings)]
    for name in table:
        if name not in names:
            near = difflib.get_close_matches(name.replace("_", "-"), names, n=1)
            hint = f"did you mean `{near[0]}`?" if near else f"it takes {', '.join(names)}"
            raise UsageError(
                f"`[{TABLE}]` has no option `{name}`", why=f"it stands in `{path}`", hint=hint
            )
    try:
        return msgspec.convert(table, CheckSettings)
    except msgspec.ValidationError as error:
        raise UsageError(f"`[{TABLE}]` in `{path}` is not right", why=str(error)) from None
