"""How are names of torch replaced for a while, and put back exactly?"""

from __future__ import annotations

from typing import Any

_ABSENT = object()


class Patches:
    """Replaced attributes; `undo` puts each one back, the last first."""

    def __init__(self) -> None:
        self._undo: list[tuple[Any, str, Any]] = []

    def set(self, owner: Any, name: str, value: Any) -> None:
        """Replace an attribute of a module or a class."""
        # Its own, not an inherited one: what was inherited must be so again.
        before = vars(owner).get(name, _ABSENT)
        self._undo.append((owner, name, before))
        setattr(owner, name, value)

    def undo(self) -> None:
        """Put everything back."""
        while self._undo:
            owner, name, before = self._undo.pop()
            if before is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, before)
