"""The page's parts, as files beside this one."""

from __future__ import annotations

from importlib.resources import files


def read(name: str) -> str:
    """The text of one of them."""
    return files(__name__).joinpath(name).read_text(encoding="utf-8")
