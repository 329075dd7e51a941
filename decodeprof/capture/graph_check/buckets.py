"""Which values of an argument is a step captured for?"""

from __future__ import annotations

import json
from typing import Any

from decodeprof.errors import UsageError


def parse_bucket(text: str) -> tuple[str, list[Any]]:
    """Read ``batch=1,2,4``: an argument's name, and its values as JSON.

    Raises:
        UsageError: it is not of that form.
    """
    name, equals, values = text.partition("=")
    try:
        parsed = json.loads(f"[{values}]")
    except json.JSONDecodeError:
        parsed = []
    if not equals or not name.isidentifier() or not parsed:
        raise UsageError(
            f"`--bucket {text}` is not of the form argument=value,value",
            hint="write `--bucket batch=1,2,4`, where `batch` is an argument of the target",
        )
    return name, parsed


def overrides(buckets: list[str]) -> list[tuple[str, dict[str, Any] | None]]:
    """Each bucket's label and what it replaces in the arguments; one without either for none."""
    if not buckets:
        return [("", None)]
    return [
        (f"{name}={json.dumps(value)}", {name: value})
        for name, values in (parse_bucket(text) for text in buckets)
        for value in values
    ]
