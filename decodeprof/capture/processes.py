"""Did a process that the target started have the GPU open?

Read from `/proc` by the parent, so that the process being measured is not disturbed. Elsewhere
than on Linux nothing is found, and nothing is claimed.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

GPU_DEVICE_PREFIX = "/dev/nvidia"
_COMMAND_LENGTH = 80


@dataclass(frozen=True)
class Holder:
    """A process that has a device file open."""

    pid: int
    command: str


def descendants(pid: int) -> list[int]:
    """All processes below `pid`, in order of their ids."""
    children: dict[int, list[int]] = {}
    try:
        entries = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return []
    for entry in entries:
        try:
            stat = Path(f"/proc/{entry}/stat").read_text(errors="replace")
        except OSError:
            continue  # It ended meanwhile.
        # The command, in brackets, may hold anything; the parent's id is the second field after.
        parent = int(stat.rpartition(")")[2].split()[1])
        children.setdefault(parent, []).append(entry)
    found: list[int] = []
    waiting = [pid]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return sorted(found)


def holders(pids: list[int], *, prefix: str = GPU_DEVICE_PREFIX) -> list[Holder]:
    """Those of the processes that have a file open whose path starts with `prefix`."""
    return [Holder(pid, _command(pid)) for pid in pids if _holds(pid, prefix)]


def _holds(pid: int, prefix: str) -> bool:
    folder = f"/proc/{pid}/fd"
    try:
        names = os.listdir(folder)
    except OSError:
        return False
    for name in names:
        try:
            if os.readlink(f"{folder}/{name}").startswith(prefix):
                return True
        except OSError:
            continue
    return False


def _command(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return "?"
    shown = [os.path.basename(words[0].decode(errors="replace"))]
    shown += [word.decode(errors="replace") for word in words[1:] if word]
    text = " ".join(shown)
    return text if len(text) <= _COMMAND_LENGTH else text[: _COMMAND_LENGTH - 1] + "…"
