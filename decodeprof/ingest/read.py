"""Which kind of file is this, and what is its `Trace`?"""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

from decodeprof.errors import InputError
from decodeprof.ingest import nsys_convert, torch_trace
from decodeprof.ingest.foreign import HEAD_BYTES, refuse_foreign
from decodeprof.ingest.nsys.database import MAGIC as SQLITE
from decodeprof.ingest.nsys.export import Export, read_export
from decodeprof.model.trace import Trace

_DATABASES = (".sqlite", ".sqlite3", ".db")


def is_nsys(path: Path) -> bool:
    """Whether a file is one of Nsight Systems: a report by its name, an export by its content."""
    if path.suffix in nsys_convert.REPORTS or path.suffix in _DATABASES:
        return path.is_file()
    return _is_database(path)


def _is_database(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(SQLITE)) == SQLITE
    except OSError:
        return False


def read_nsys(path: Path) -> Export:
    """Read an export of Nsight Systems, or a report by way of the `nsys` on this machine.

    Raises:
        InputError: it cannot be read, or cannot be exported here.
    """
    if path.suffix not in nsys_convert.REPORTS or _is_database(path):
        return read_export(path)
    with nsys_convert.exported(path) as database:
        try:
            export = read_export(database)
        except InputError as error:
            raise InputError(
                f"what `nsys export` made of `{path.name}` cannot be read",
                why="\n".join(filter(None, (error.what, error.why))),
                hint="export it by hand, where there is room, and name the .sqlite: "
                f"`nsys export --type sqlite {shlex.quote(path.name)}`",
            ) from None
    return replace(export, whole=replace(export.whole, name=path.name))


def read_trace(path: Path) -> Trace:
    """Read a trace file; its content decides what it is, not its name.

    Of an export of Nsight Systems that holds several processes it is the busiest one's.

    Raises:
        InputError: it is missing, unreadable, or holds no trace.
    """
    if path.is_dir():
        raise InputError(
            f"`{path}` is a folder with no recording in it",
            hint="name the trace file itself, or a folder that `decodeprof diagnose` made",
        )
    if is_nsys(path):
        return read_nsys(path).process()
    try:
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
    except FileNotFoundError:
        raise InputError(f"there is no file `{path}`") from None
    except OSError as error:
        raise InputError(f"cannot read `{path}`", why=str(error.strerror)) from None
    refuse_foreign(head, name=path.name)
    return torch_trace.parse_file(path)
