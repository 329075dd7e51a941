"""Runs pytest on a test file of its own, with the plugin loaded as an installed package's is."""

from __future__ import annotations

from importlib.metadata import entry_points

import pytest

MODULE = "decodeprof.testing.plugin"


def arguments() -> list[str]:
    """What an inner run needs: nothing, where the package's entry point is installed."""
    installed = any(point.value == MODULE for point in entry_points(group="pytest11"))
    plugin = [] if installed else ["-p", MODULE]
    return [*plugin, "-p", "no:cacheprovider", "-rs", "--strict-markers", "-W", "error"]


def passed_in(pytester: pytest.Pytester, text: str) -> pytest.RunResult:
    """The result of a test file, run in this process."""
    pytester.makepyfile(text)
    return pytester.runpytest_inprocess(*arguments())
