"""Where the real traces are, and what a correct reader finds in them."""

from __future__ import annotations

import os
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import pytest

VARIABLE = "DECODEPROF_TRACES"


def folder() -> Path | None:
    """The folder that holds h200/ and torch/; None when the variable is not set."""
    text = os.environ.get(VARIABLE)
    return Path(text) if text else None


@cache
def expected() -> dict[str, dict[str, Any]]:
    """The committed counts by file, ``h200/toy_b1.json.gz``."""
    text = Path(__file__).with_name("traces.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def intact(path: Path) -> bool:
    """Whether a file has the size of the one whose counts are known, or none are known of it."""
    known = expected().get(f"{path.parent.name}/{path.name}")
    return known is None or path.stat().st_size == known["bytes"]


def path_of(name: str) -> Path:
    """The file of that name; skips the test where another lies in its place."""
    where = folder()
    assert where is not None
    path = where / name
    if not intact(path):
        pytest.skip(f"{name} is not the file that was counted: its size is another one")
    return path


needs_traces = pytest.mark.skipif(
    folder() is None, reason=f"{VARIABLE} does not name the folder of the real traces"
)
