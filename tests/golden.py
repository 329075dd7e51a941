"""Compares output with a committed file, byte for byte; rewrites it only when asked by hand."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

UPDATE = "DECODEPROF_UPDATE_GOLDENS"


def check_golden(path: Path, found: bytes) -> None:
    """Fail unless the file at `path` holds exactly `found`."""
    if os.environ.get(UPDATE) == "1":
        if os.environ.get("CI"):
            pytest.fail(f"{UPDATE} is set under CI: a golden is never rewritten there")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(found)
        return
    if not path.exists():
        pytest.fail(
            f"{path.name} is missing; write it with {UPDATE}=1 and read it before you commit"
        )
    wanted = path.read_bytes()
    # Text first: pytest shows which line differs.
    assert found.decode() == wanted.decode()
    assert found == wanted
