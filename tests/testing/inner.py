"""Runs pytest on a test file of its own, with the plugin of this checkout."""

from __future__ import annotations

import pytest

MODULE = "decodeprof.testing.plugin"
ENTRY_POINT = "decodeprof"


def arguments() -> list[str]:
    """What an inner run needs, whether or not the package is installed with its entry point."""
    # Loaded twice, under two names, pytest refuses it.
    plugin = ["-p", f"no:{ENTRY_POINT}", "-p", MODULE]
    return [*plugin, "-p", "no:cacheprovider", "-rs", "--strict-markers", "-W", "error"]


def passed_in(pytester: pytest.Pytester, text: str) -> pytest.RunResult:
    """The result of a test file, run in this process."""
    pytester.makepyfile(text)
    return pytester.runpytest_inprocess(*arguments())
