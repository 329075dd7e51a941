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
from typing import IO, Any

import msgspec
import numpy as np

from decodeprof.ingest.blocks import Surroundings, UnknownLayoutError, surrounded
from decodeprof.ingest.gather import Rows
from decodeprof.ingest.halves import plan_halves, read_first_half, read_second_half
from decodeprof.ingest.kineto_lines import KinetoLines

WORTH_BYTES = 96 << 20
"""From this size on the second process saves more than its start costs (about 0.2 s)."""
# The second process starts late, and its columns have to be merged.
_FIRST_SHARE = 0.56
_LENGTH_BYTES = 8
_PIECE_BYTES = 1 << 20


class _Half(msgspec.Struct):
    """What the second process found, but the columns: their bytes follow, one after the other.

    The columns are most of it: they are neither packed nor held twice.
    """

    next_at: int
    names: list[str]
    threads: list[str]
    details: list[bytes]
    rows: dict[str, int]
    """Rows of each table."""
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
            for events in read_first_half(path, plan, around, KinetoLines(rows)):
                rows.add(events)
        except UnknownLayoutError:
            second.kill()
            return None
        half = _added(rows, second.stdout, next_at=plan.next_at) if second.stdout else None
        if half is None:
            second.kill()
            return None
    if second.returncode or around.losses.any():
        return None
    if not surrounded(plan.head, half.tail, around):
        return None
    around.total_bytes = path.stat().st_size
    return BothHalves(rows=rows, surroundings=around)


def _added(rows: Rows, answer: IO[bytes], *, next_at: int) -> _Half | None:
    """Add what the second process sends; None where it is not all of the half from `next_at` on."""
    size = int.from_bytes(answer.read(_LENGTH_BYTES), "little")
    try:
        half = msgspec.msgpack.decode(answer.read(size), type=_Half)
    except msgspec.DecodeError:
        return None
    # A file that changed in between has another cut.
    return half if half.next_at == next_at and _merge(rows, half, answer) else None


def _sent(half: _Half, rows: Rows, out: IO[bytes]) -> None:
    head = msgspec.msgpack.encode(half)
    out.write(len(head).to_bytes(_LENGTH_BYTES, "little") + head)
    for columns in rows.tables().values():
        for column in columns.take():
            if len(column):
                out.write(column.data.cast("B"))


def _merge(rows: Rows, half: _Half, answer: IO[bytes]) -> bool:
    """Append the second half's rows, with its names and arguments put in terms of the first's.

    Returns:
        Whether all of them came.
    """
    names = rows.names.column(half.names)
    threads = rows.threads.column(half.threads)
    details = rows.details.indices(half.details)
    maps = {"name": names, "thread": threads, "detail": details}
    for table, columns in rows.tables().items():
        dtypes = columns.table.dtypes()
        arrays: dict[str, np.ndarray[Any, Any]] = {}
        for field in fields(columns.table):
            array = np.empty(half.rows.get(table, 0), dtypes[field.name])
            if _filled(array, answer) < array.nbytes:
                return False
            if field.name in maps:
                known = maps[field.name]
                array = np.where(array >= 0, known[array], array) if len(known) else array
            arrays[field.name] = array
        columns.add(**arrays)
    rows.overhead += half.overhead
    rows.dropped.update(half.dropped)
    rows.events += half.events
    return True


def _filled(array: np.ndarray[Any, Any], answer: IO[bytes]) -> int:
    """Bytes that came for a column."""
    target = array.data.cast("B") if len(array) else memoryview(b"")
    at = 0
    while at < len(target):
        piece = answer.read(min(len(target) - at, _PIECE_BYTES))
        if not piece:
            break
        target[at : at + len(piece)] = piece
        at += len(piece)
    return at


def main(path: str) -> int:
    """Read the second half of a file and write it to stdout; 1 where one process must read it."""
    try:
        plan = plan_halves(Path(path), share=_FIRST_SHARE)
        rows, around = Rows(), Surroundings()
        for events in read_second_half(Path(path), plan, around, KinetoLines(rows)):
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
        rows={name: len(columns) for name, columns in rows.tables().items()},
        overhead=rows.overhead,
        dropped=dict(rows.dropped),
        events=rows.events,
        tail=around.tail,
    )
    _sent(half, rows, sys.stdout.buffer)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
