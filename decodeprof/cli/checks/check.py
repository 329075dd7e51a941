"""What does one check answer? One of three: it works, it does not, or that cannot be told."""

from __future__ import annotations

from typing import Literal

import msgspec


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was tried."""

    name: str
    answer: Literal["works", "does not", "cannot tell"]
    detail: str = ""
    """Versions where it works, the reason where it does not."""
    hint: str = ""
    """What to do about it."""
