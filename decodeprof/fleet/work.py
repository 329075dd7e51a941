"""What does a worker do with one trace? Read it once, and turn it into rows, or into its error."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal

from decodeprof import __version__
from decodeprof.errors import DecodeprofError, InputError
from decodeprof.fleet.rows import Row, rows_of
from decodeprof.fleet.sources import Source, open_url

_PIECE_BYTES = 4 << 20
_CONVERTED = (".nsys-rep", ".qdstrm")


@dataclass(frozen=True)
class Outcome:
    """What became of one trace."""

    status: Literal["ok", "bad", "failed", "known"]
    """bad: the trace is at fault, and will be for ever; failed: try again; known: the same bytes
    are in the table already."""
    content_hash: str | None
    rows: list[Row]


def installed_version() -> str:
    """The version of decodeprof where this is run: rows of two versions are not to be mixed up."""
    return __version__


def roll_up(source: Source, known: frozenset[str]) -> Outcome:
    """Analyse one trace; whatever goes wrong is its outcome, so that no job dies of it.

    Args:
        source: the trace.
        known: hashes of which the table has rows.
    """
    digest = None
    try:
        with _local_copy(source) as (path, digest):
            if digest in known:
                return Outcome(status="known", content_hash=digest, rows=[])
            return Outcome(status="ok", content_hash=digest, rows=_analysed(source, path, digest))
    except DecodeprofError as error:
        # What was read and refused will be refused again; what could not be read may be there
        # tomorrow, and the program that converts a report may be installed by then.
        again = digest is None or source.url.endswith(_CONVERTED)
        status: Literal["bad", "failed"] = "failed" if again else "bad"
        return error_outcome(source, digest, status=status, what=error.what, why=error.why)
    # Each store raises errors of its own kind, and a fault of decodeprof's own on one trace of a
    # million must not end the rest: either is told in the trace's row.
    except Exception as error:
        return error_outcome(
            source, digest, status="failed", what=type(error).__name__, why=str(error)
        )


def error_outcome(
    source: Source, digest: str | None, *, status: Literal["bad", "failed"], what: str, why: str
) -> Outcome:
    """The outcome of a trace that gave no figures: one row, with the reason."""
    row = {"level": "trace", "status": status, "error": what, "why": why or None}
    return Outcome(status=status, content_hash=digest, rows=[row | _file(source, digest)])


def _analysed(source: Source, path: Path, digest: str) -> list[Row]:
    from decodeprof.diagnosis.pipeline import analyze_path

    file = {"status": "ok", **_file(source, digest)}
    return [row | file for row in rows_of(analyze_path(path))]


def _file(source: Source, digest: str | None) -> Row:
    return {
        "content_hash": digest,
        "url": source.url,
        "bytes": source.bytes,
        "fingerprint": source.fingerprint,
        "decodeprof": __version__,
    }


@contextmanager
def _local_copy(source: Source) -> Iterator[tuple[Path, str]]:
    """A local path of a trace's bytes, and their hash; a copy lives as long as the block."""
    filesystem, name = open_url(source.url)
    local = "file" in filesystem.protocol
    with tempfile.TemporaryDirectory(prefix="decodeprof-") as folder:
        target = Path(folder) / name.rstrip("/").rpartition("/")[2]
        inside = filesystem.find(name) if source.recording else [name]
        hashes = {}
        for remote in sorted(inside):
            part = remote[len(name) :].strip("/")
            copy = None if local else target / part if part else target
            if local and Path(remote).exists() and not Path(remote).is_file():
                raise InputError(
                    f"`{remote}` is no file",
                    why="a pipe or a device is waited on for ever",
                )
            with filesystem.open(remote, "rb") as read:
                hashes[part] = _hash_of(read, copy)
        yield (Path(name) if local else target), hashes.get("") or _joint(hashes)


def _hash_of(read: IO[bytes], copy: Path | None) -> str:
    """The hash of what is left of an open file, which is copied on the way if wanted."""
    digest = hashlib.sha256()
    with ExitStack() as files:
        written = None
        if copy is not None:
            copy.parent.mkdir(parents=True, exist_ok=True)
            written = files.enter_context(copy.open("wb"))
        while piece := read.read(_PIECE_BYTES):
            digest.update(piece)
            if written is not None:
                written.write(piece)
    return digest.hexdigest()


def _joint(hashes: dict[str, str]) -> str:
    """A recording's hash: of its files' names and hashes, less what is made of it afterwards."""
    made = ("report.html", "diagnosis.json", "timeline.pftrace")
    text = "".join(f"{part}\0{one}\n" for part, one in hashes.items() if part not in made)
    return hashlib.sha256(text.encode()).hexdigest()
