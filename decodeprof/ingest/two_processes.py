"""How do two processes read one large file, each its own half, in less time?

Python's lock lets one thread parse at a time, so the second half is read by a process of its own,
which hands its columns back through a pipe. The result is that of one process, or none at all:
wherever anything is unusual (damage, another layout, no second process), the caller reads the file
alone.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from decodeprof.ingest.blocks import Surroundings, UnknownLayoutError, surrounded
from decodeprof.ingest.gather import Rows
from decodeprof.ingest.halves import plan_halves, read_first_half, read_second_half

WORTH_BYTES = 96 << 20
"""From this size on the second process saves more than its start costs (about 0.2 s)."""
# The second process starts late, and its columns have to be merged.
_FIRST_SHARE = 0.54


class _Half(msgspec.Struct):
    """What the second process found; columns as bytes, in the order of each table's fields."""

    next_at: int
    names: list[str]
    threads: list[str]
    details: list[bytes]
    tables: dict[str, list[bytes]]
    overhead: list[tuple[int, int]]
    dropped: dict[str, int]
    events: int
    tail: bytes


@dataclass(frozen=True)
class BothHalves:
    """A file that two processes read, as one would have."""

    rows: Rows
    surroundings: Surroundings


def can_use_two() -> bool:
    """Whether a second process has a processor of its own, and can be started."""
    processors = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    )
    return (processors or 1) > 1 and bool(sys.executable)


def read_in_two(path: Path) -> BothHalves | None:
    """Read a plain file in two processes; None where one must do it.

    Raises:
        OSError: the file cannot be read.
    """
    try:
        plan = plan_halves(path, share=_FIRST_SHARE)
    except UnknownLayoutError:
        return None
    command = [sys.executable, "-m", __name__, str(path)]
    try:
        second = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
    except OSError:
        return None
    with second:
        rows, around = Rows(), Surroundings()
        try:
            for events in read_first_half(path, plan, around):
                rows.add(events)
        except UnknownLayoutError:
            second.kill()
            return None
        answer = second.stdout.read() if second.stdout else b""
    if second.returncode or around.losses.any():
        return None
    try:
        half = msgspec.msgpack.decode(answer, type=_Half)
    except msgspec.DecodeError:
        return None
    if half.next_at != plan.next_at:  # The file changed in between.
        return None
    _merge(rows, half)
    if not surrounded(plan.head, half.tail, around):
        return None
    around.total_bytes = path.stat().st_size
    return BothHalves(rows=rows, surroundings=around)


def _merge(rows: Rows, half: _Half) -> None:
    """Append the second half's rows, with its names and arguments put in terms of the first's."""
    names = rows.names.column(half.names)
    threads = rows.threads.column(half.threads)
    details = rows.details.indices(half.details)
    maps = {"name": names, "thread": threads, "detail": details}
    for table, columns in rows.tables().items():
        dtypes = columns.table.dtypes()
        arrays: dict[str, np.ndarray[Any, Any]] = {}
        for field, data in zip(fields(columns.table), half.tables[table], strict=True):
            array = np.frombuffer(data, dtypes[field.name])
            if field.name in maps:
                known = maps[field.name]
                array = np.where(array >= 0, known[array], array) if len(known) else array
            arrays[field.name] = array
        columns.add(**arrays)
    rows.overhead += half.overhead
    rows.dropped.update(half.dropped)
    rows.events += half.events


def main(path: str) -> int:
    """Read the second half of a file and write it to stdout; 1 where one process must read it."""
    try:
        plan = plan_halves(Path(path), share=_FIRST_SHARE)
        rows, around = Rows(), Surroundings()
        for events in read_second_half(Path(path), plan, around):
            rows.add(events)
    except (UnknownLayoutError, OSError):
        return 1
    if around.losses.any() or around.cut_short or around.tail_lost_bytes:
        return 1
    half = _Half(
        next_at=plan.next_at,
        names=list(rows.names.all()),
        threads=list(rows.threads.all()),
        details=rows.details.keys(),
        tables={name: columns.as_bytes() for name, columns in rows.tables().items()},
        overhead=rows.overhead,
        dropped=dict(rows.dropped),
        events=rows.events,
        tail=around.tail,
    )
    sys.stdout.buffer.write(msgspec.msgpack.encode(half))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
