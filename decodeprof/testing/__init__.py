"""Tests that fail when a step blocks the host, or launches too much.

With pytest nothing has to be set up: the fixtures `no_syncs` and `max_launches` and the markers of
the same names are there. The context managers work in any test runner::

    from decodeprof.testing import no_syncs

    with no_syncs(allow=1):
        decode_one_token()

Importing this package imports no torch; entering a context manager does.
"""

from __future__ import annotations

import typing
from importlib import import_module

if typing.TYPE_CHECKING:
    from decodeprof.testing.backend import CannotWatch
    from decodeprof.testing.launches import TooManyLaunches, max_launches
    from decodeprof.testing.syncs import SyncsFound, no_syncs

__all__ = ["CannotWatch", "SyncsFound", "TooManyLaunches", "max_launches", "no_syncs"]

_MODULES = {
    "CannotWatch": "backend",
    "SyncsFound": "syncs",
    "no_syncs": "syncs",
    "TooManyLaunches": "launches",
    "max_launches": "launches",
}


def __getattr__(name: str) -> typing.Any:
    if name in _MODULES:
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
