"""Which kind of file is this, and what is its `Trace`?"""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

from decodeprof.errors import InputError
from decodeprof.ingest import torch_trace
from decodeprof.model.trace import Trace

_GZIP = b"\x1f\x8b"
_MAGIC = {
    b"SQLite format 3\x00": "an SQLite database",
    b"PK\x03\x04": "a zip archive",
    b"\x28\xb5\x2f\xfd": "a zstd file",
    b"\x7fELF": "a program",
}


def read_trace(path: Path) -> Trace:
    """Read a trace file; its content decides what it is, not its name.

    Raises:
        InputError: it is missing, unreadable, or holds no trace.
    """
    if path.is_dir():
        raise InputError(
            f"`{path}` is a folder with no recording in it",
            hint="name the trace file itself, or a folder that `decodeprof diagnose` made",
        )
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise InputError(f"there is no file `{path}`") from None
    except OSError as error:
        raise InputError(f"cannot read `{path}`", why=str(error.strerror)) from None
    for magic, what in _MAGIC.items():
        if data.startswith(magic):
            raise InputError(
                f"`{path.name}` is {what}, no trace that can be read",
                hint="decodeprof reads torch.profiler's .json and .json.gz, and its own recordings",
            )
    if data.startswith(_GZIP):
        data = _unzip(data, path.name)
    return torch_trace.parse(data, name=path.name)


def _unzip(data: bytes, name: str) -> bytes:
    try:
        return gzip.decompress(data)
    except (EOFError, OSError, zlib.error) as error:
        raise InputError(
            f"`{name}` cannot be unpacked",
            why=f"the gzip data is damaged or cut short: {error}",
            hint="was the program that wrote it ended while writing? export it again",
        ) from None
