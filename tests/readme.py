"""The commands of the README: what stands after `$ ` in its console blocks."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"
_BLOCK = re.compile(
    r"(?:<!-- needs: (?P<needs>[\w ,-]+) -->\n+)?```console\n(?P<body>.*?)```", re.S
)


@dataclass(frozen=True)
class Block:
    """One console block."""

    line: int
    """Where it starts in the README."""
    needs: tuple[str, ...]
    """What the comment above it asks for: gpu, network."""
    commands: tuple[str, ...]


def blocks(text: str) -> list[Block]:
    """Every console block; a command goes on in the next line after a backslash."""
    found = []
    for match in _BLOCK.finditer(text):
        body = match["body"].replace("\\\n", "")
        commands = [line[2:] for line in body.splitlines() if line.startswith("$ ")]
        needs = tuple(part.strip() for part in (match["needs"] or "").split(",") if part.strip())
        line = text.count("\n", 0, match.start("body"))
        found.append(Block(line, needs, tuple(commands)))
    return found
