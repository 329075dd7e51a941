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


needs_traces = pytest.mark.skipif(
    folder() is None, reason=f"{VARIABLE} does not name the folder of the real traces"
)
