"""Where do a trace file's bytes come from: a plain file, memory, or gzip that is unpacked ahead?"""

from __future__ import annotations

import io
import queue
import threading
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

from decodeprof import units
from decodeprof.errors import InputError

try:  # Several times as fast as zlib; the extra `fast` installs it.
    from isal import isal_zlib

    _FASTER: Any = isal_zlib
except ImportError:
    _FASTER = zlib

_decompressor: Callable[[int], Any] = _FASTER.decompressobj
_DAMAGED: tuple[type[Exception], ...] = (zlib.error, _FASTER.error)
_GZIP_WINDOW = 31
GZIP_MAGIC = b"\x1f\x8b"
# The checksum and the size, behind all of the data.
_TRAILER_BYTES = 8
_PIECE_BYTES = 4 << 20
# What is unpacked in one call where it meets damage is lost: it is gone over again in smaller ones,
# until all that lies before the damage came out.
_PACKED_BYTES = (1 << 20, 1 << 10, 1)
# Pieces that are unpacked ahead of the parser: enough that neither waits for a hiccup of the other.
_AHEAD = 2
# Profilers' JSON packs 10 to 60 to 1; deflate cannot exceed 1,032. What unpacks to more than this
# many times its size is no trace but a bomb, and below the floor it can do no harm.
BOMB_RATIO = 200
BOMB_FLOOR_BYTES = 256 << 20


class Source(Protocol):
    """Bytes in order; reading past the end gives 0."""

    damage: str
    """Why the bytes end where they do, when that is not the end of the file; else empty."""

    def readinto(self, target: memoryview, /) -> int:
        """Fill some or all of a buffer; 0 at the end."""
        ...

    def close(self) -> None:
        """Release the file."""
        ...


class PlainSource:
    """A file, or bytes in memory, as they are."""

    damage = ""

    def __init__(self, file: io.BufferedIOBase | io.RawIOBase) -> None:
        self._file = file

    def readinto(self, target: memoryview, /) -> int:
        """Fill some or all of a buffer; 0 at the end."""
        return self._file.readinto(target) or 0

    def close(self) -> None:
        """Release the file."""
        self._file.close()


class SliceSource:
    """The bytes of a plain file from one offset to another."""

    damage = ""

    def __init__(self, path: Path, start: int, stop: int) -> None:
        self._file = path.open("rb", buffering=0)
        self._file.seek(start)
        self._left = max(stop - start, 0)

    def readinto(self, target: memoryview, /) -> int:
        """Fill some or all of a buffer; 0 at the end."""
        count = self._file.readinto(target[: min(len(target), self._left)]) if self._left else 0
        self._left -= count or 0
        return count or 0

    def close(self) -> None:
        """Release the file."""
        self._file.close()


class GzipSource:
    """Gzip that a thread unpacks ahead, while the caller parses; zlib releases Python's lock.

    Damage ends the bytes where it is met: what was unpacked before is good, `damage` says the rest.
    """

    def __init__(self, file: io.BufferedIOBase | io.RawIOBase, *, size_bytes: int) -> None:
        self.damage = ""
        self._file = file
        self._size_bytes = size_bytes
        self._used_bytes = 0
        """Packed bytes before those that are unpacked next."""
        self._pieces: queue.Queue[bytes | InputError] = queue.Queue(_AHEAD)
        self._left = memoryview(b"")
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="decodeprof unpacks", daemon=True)
        self._thread.start()

    def readinto(self, target: memoryview, /) -> int:
        """Fill some or all of a buffer; 0 at the end."""
        if not self._left:
            piece = self._pieces.get()
            if isinstance(piece, InputError):
                raise piece
            if not piece:
                self._pieces.put(piece)  # The end stays the end.
                return 0
            self._left = memoryview(piece)
        count = min(len(self._left), len(target))
        target[:count] = self._left[:count]
        self._left = self._left[count:]
        return count

    def close(self) -> None:
        """Stop the thread and release the file."""
        self._stopped.set()
        while self._thread.is_alive():
            try:
                self._pieces.get(timeout=0.01)
            except queue.Empty:
                continue
        self._file.close()

    def _run(self) -> None:
        end: bytes | InputError = b""
        try:
            self._unpack()
        except OSError as error:
            self.damage = self._after(f"the file could not be read on: {error.strerror}")
        except InputError as error:
            end = error
        self._pieces.put(end)

    def _after(self, what: str) -> str:
        left = max(self._size_bytes - self._used_bytes, 0)
        if left <= _TRAILER_BYTES:
            return (
                "the gzip data is damaged, or its checksum is: it was unpacked to its end, but "
                "some of it may not be what was packed"
            )
        return f"{what}; the last {left:,} of {self._size_bytes:,} packed bytes were not read"

    def _unpack(self) -> None:
        """Put pieces until the end; on damage go over what gave no piece again in smaller ones."""
        done = 0
        for packed_bytes in _PACKED_BYTES:
            self._file.seek(0)
            try:
                for piece in self._unpacked(packed_bytes, skip=done):
                    done += len(piece)
                    self._put(piece)
            except _DAMAGED as error:
                damage = self._after(f"the gzip data is damaged: {error}")
            else:
                return
        self.damage = damage

    def _put(self, piece: bytes) -> None:
        if not self._stopped.is_set():
            self._pieces.put(piece)

    def _unpacked(self, packed_bytes: int, *, skip: int) -> Iterator[bytes]:
        """What follows the first `skip` unpacked bytes, from so many packed ones at a time."""
        total, packed, unpacker = 0, b"", _decompressor(_GZIP_WINDOW)
        while not self._stopped.is_set():
            if len(packed) > packed_bytes and total >= skip:
                self._file.seek(-len(packed), io.SEEK_CUR)
                packed = b""
            if unpacker.eof:  # Another member, or what some writers pad with.
                packed = (packed + (self._file.read(_PACKED_BYTES[0]) or b"")).lstrip(b"\0")
                if not packed.startswith(GZIP_MAGIC):
                    return
                unpacker = _decompressor(_GZIP_WINDOW)
                continue
            size = _PACKED_BYTES[0] if total < skip else packed_bytes
            packed = packed or self._file.read(size) or b""
            last = not packed
            self._used_bytes = self._file.tell() - len(packed)
            most = min(_PIECE_BYTES, skip - total) if total < skip else _PIECE_BYTES
            piece = unpacker.decompress(packed, most)
            packed = unpacker.unused_data if unpacker.eof else unpacker.unconsumed_tail
            total += len(piece)
            if total > max(BOMB_FLOOR_BYTES, BOMB_RATIO * self._size_bytes):
                raise InputError(
                    "the file unpacks to more than a trace can",
                    why=f"{units.counted(self._size_bytes, 'packed byte')} gave over {total:,}; "
                    f"at most {BOMB_RATIO} times the size is read",
                )
            if piece and total > skip:
                yield piece
            if last and not piece:
                # What is gone is no part of the file's size: no share of it can be told.
                self.damage = "the gzip data is cut short"
                return


def is_packed(path: Path) -> bool:
    """Whether a file is gzip; its first bytes say so, whatever its name.

    Raises:
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        return file.read(len(GZIP_MAGIC)) == GZIP_MAGIC


def open_source(path: Path) -> Source:
    """Open a file; its first bytes say whether it is packed.

    Raises:
        OSError: it cannot be opened.
    """
    file = path.open("rb", buffering=0)
    return _source(file, size_bytes=path.stat().st_size)


def source_of(data: bytes) -> Source:
    """Bytes that are in memory already."""
    return _source(io.BytesIO(data), size_bytes=len(data))


def _source(file: io.BufferedIOBase | io.RawIOBase, *, size_bytes: int) -> Source:
    packed = file.read(len(GZIP_MAGIC)) == GZIP_MAGIC
    file.seek(0)
    return GzipSource(file, size_bytes=size_bytes) if packed else PlainSource(file)
