"""What is a file that is no trace, by its first bytes, and how does one get at a trace in it?"""

from __future__ import annotations

import shlex
import zlib

from decodeprof.errors import InputError
from decodeprof.ingest.byte_source import GZIP_MAGIC
from decodeprof.ingest.nsys.database import MAGIC as SQLITE
from decodeprof.ingest.nsys.database import REPORT_MAGIC as REPORT

HEAD_BYTES = 4096
_OTHERS = {
    b"PK\x03\x04": "a zip archive",
    b"7z\xbc\xaf\x27\x1c": "a 7z archive",
    b"\x7fELF": "a program",
}
# With the program that unpacks it.
_PACKED = {
    GZIP_MAGIC: ("a gzip file", "gzip -dc"),
    b"\x28\xb5\x2f\xfd": ("a zstd file", "zstd -dc"),
    b"\xfd7zXZ\x00": ("an xz file", "xz -dc"),
    b"BZh": ("a bzip2 file", "bzip2 -dc"),
}
_TAR, _TAR_AT = b"ustar", 257
# The mark of UTF-32LE begins with that of UTF-16LE.
_WIDE = {"UTF-32LE": 4, "UTF-32BE": 4, "UTF-16LE": 2, "UTF-16BE": 2}
# The byte order mark.
_MARK = "\ufeff"
# What JSON may begin with.
_JSON_BEGINS = tuple("{[ \t\r\n")


def refuse_foreign(head: bytes, *, name: str) -> None:
    """Refuse a file of which the first bytes say that it is no trace, or none as it is.

    Args:
        head: the first `HEAD_BYTES`.
        name: the file's name.

    Raises:
        InputError: says what it is, and what to do.
    """
    packed = head.startswith(GZIP_MAGIC)
    inner = _unpacked(head) if packed else head
    if packed and inner.startswith((SQLITE, REPORT)):
        raise InputError(
            f"`{name}` is packed, and a file of Nsight Systems is not read from a packed one",
            hint=f"unpack it first: `gunzip --keep {shlex.quote(name)}`",
        )
    found = _what(inner, may_be_gzip=not packed)
    if found is None:
        return
    what, advice, command = found
    if command:
        quoted = shlex.quote(name)
        whole = f"gzip -dc {quoted} | {command}" if packed else f"{command} {quoted}"
        advice += f": `{whole} > readable.json`"
    raise InputError(
        f"`{name}` is {what}{' packed with gzip' if packed else ''}, no trace that can be read",
        hint=advice,
    )


def _what(head: bytes, *, may_be_gzip: bool) -> tuple[str, str, str] | None:
    """What a file is, what to do about it, and the command that does it; None: it may be read."""
    for magic, what in _OTHERS.items():
        if head.startswith(magic):
            reads = (
                "decodeprof reads torch.profiler's .json and .json.gz, reports and SQLite exports "
                "of nsys, and its own recordings"
            )
            return what, reads, ""
    if head.startswith(_TAR, _TAR_AT) and b"\0" in head[:_TAR_AT]:
        return "a tar archive", "unpack it, and name the trace that was in it", ""
    for magic, (what, command) in _PACKED.items():
        if head.startswith(magic) and not (may_be_gzip and magic == GZIP_MAGIC):
            return what, "unpack it first", command
    for encoding, width in _WIDE.items():
        begins = head[: 2 * width].decode(encoding, "replace")
        if begins[:1] == _MARK or (begins[:1] in _JSON_BEGINS and begins.isascii()):
            return f"text in {encoding}", "write it as UTF-8", f"iconv -f {encoding} -t UTF-8"
    return None


def _unpacked(packed: bytes) -> bytes:
    try:
        return zlib.decompressobj(wbits=31).decompress(packed, HEAD_BYTES)
    except zlib.error:
        return b""
