"""Which traces do some globs and URLs name? Through fsspec: local files, s3://, gs://, hdfs://."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import typing
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from decodeprof.errors import DecodeprofError, InputError, UsageError
from decodeprof.recording import RECORDING_FILE

if typing.TYPE_CHECKING:
    from fsspec import AbstractFileSystem

TRACES = (".json", ".json.gz", ".sqlite", ".nsys-rep")
"""What a folder's files are taken for traces by; a file that is named needs none of these."""
_PACKAGES = ("dask", "distributed", "fsspec", "pyarrow")
_GLOB = frozenset("*?[")
_MARKED = f"/{RECORDING_FILE}"
_CREDENTIALS = "credentials and endpoints are taken from where the store's own tools take them"


@dataclass(frozen=True)
class Source:
    """One trace, or one recording."""

    url: str
    bytes: int
    fingerprint: str
    """Changes when the file does (size, times, the store's own tag), and is known unread."""
    recording: bool = False
    """It is a directory, a recording of decodeprof's."""


def check_installed() -> None:
    """Raise where a package of the extra is missing.

    Raises:
        DecodeprofError: one is.
    """
    missing = [name for name in _PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise DecodeprofError(
            f"a rollup needs {', '.join(missing)}",
            why="the packages of the extra `fleet` are not installed",
            hint="pip install 'decodeprof[fleet]'",
        )


def open_url(url: str) -> tuple[AbstractFileSystem, str]:
    """The file system of a URL or a path, and the path in it.

    Raises:
        DecodeprofError: the protocol is not known, or its package is not installed.
    """
    from fsspec.core import url_to_fs

    with store_errors(f"cannot open `{url}`", hint=_needs(url)):
        # A listing that was kept would hide what came since.
        filesystem, path = url_to_fs(url, use_listings_cache=False)
    return filesystem, str(path)


_HADOOP = (
    "hdfs:// needs a Hadoop client with its libhdfs and Java (HADOOP_HOME, CLASSPATH, JAVA_HOME); "
    "webhdfs:// needs none"
)
_NEEDS = {
    "s3": "pip install 'decodeprof[fleet]', which has s3fs",
    "s3a": "pip install 'decodeprof[fleet]', which has s3fs",
    "gs": "pip install gcsfs, also where the workers run",
    "gcs": "pip install gcsfs, also where the workers run",
    "hdfs": _HADOOP,
    "abfs": "pip install adlfs, also where the workers run",
    "az": "pip install adlfs, also where the workers run",
}
"""What a protocol's file system is made of."""


def _needs(url: str) -> str:
    """What to install for a URL; of a protocol that is not known, what is."""
    protocol = url.partition("://")[0]
    return _NEEDS.get(
        protocol, "s3://, gs://, hdfs:// and whatever else fsspec knows can be opened"
    )


@contextlib.contextmanager
def store_errors(what: str, *, hint: str) -> Iterator[None]:
    """Turn whatever a store raises in the block into an error that says what could not be done.

    Raises:
        InputError: the store raised something.
    """
    try:
        yield
    except DecodeprofError:
        raise
    # Each store raises errors of its own kind; whichever it is, it is told.
    except Exception as error:
        # Some list every place in which they looked, one a line.
        first = str(error).strip().partition("\n")[0]
        raise InputError(
            what,
            why=f"{type(error).__name__}: {first}" if first else type(error).__name__,
            hint=hint,
        ) from error


def find_sources(patterns: Sequence[str]) -> list[Source]:
    """List what the patterns name, each trace once, in order of URL.

    A directory with a recording.json is one recording; any other stands for all traces below it.

    Args:
        patterns: globs, URLs, paths.

    Raises:
        UsageError: a pattern names nothing.
        DecodeprofError: a store cannot be listed.
    """
    found: dict[str, Source] = {}
    for pattern in patterns:
        filesystem, path = open_url(pattern)
        try:
            with store_errors(f"cannot list `{pattern}`", hint=_CREDENTIALS):
                host = _host_of(filesystem, pattern)
                sources = [_at(source, host) for source in _sources(filesystem, path)]
        except InputError as error:
            # A bucket that is not there holds no trace; some stores call that an error.
            if not isinstance(error.__cause__, FileNotFoundError):
                raise
            sources = []
        if not sources:
            raise UsageError(
                f"`{pattern}` names no trace",
                why="nothing of that name is there, or no trace in it that may be read",
                hint=f"a trace's name ends in {', '.join(TRACES)}",
            )
        found |= {source.url: source for source in sources}
    return [found[url] for url in sorted(found)]


def _host_of(filesystem: AbstractFileSystem, url: str) -> str | None:
    """The host that a URL names, where it is no part of the paths of its store (hdfs://, sftp://).

    A password in it is left out: URLs stand in the table.
    """
    if "host" not in type(filesystem)._get_kwargs_from_urls(url):
        return None
    user, at, host = url.partition("://")[2].partition("/")[0].rpartition("@")
    return f"{user.partition(':')[0]}{at}{host}" or None


def _at(source: Source, host: str | None) -> Source:
    """The source with its host, without which a worker would look on another one."""
    if host is None:
        return source
    protocol, _, path = source.url.partition("://")
    return replace(source, url=f"{protocol}://{host}/{path.lstrip('/')}")


def _sources(filesystem: AbstractFileSystem, path: str) -> Iterator[Source]:
    globbed = bool(_GLOB & set(path)) and not filesystem.exists(path)
    for name in filesystem.glob(path) if globbed else [path]:
        try:
            info = filesystem.info(name)
        except FileNotFoundError:
            continue
        if info["type"] != "directory":
            yield _source(filesystem, name, [info])
            continue
        yield from _below(filesystem, filesystem.find(name, detail=True))


def _below(
    filesystem: AbstractFileSystem, files: dict[str, dict[str, typing.Any]]
) -> Iterator[Source]:
    """The recordings in a tree, and the traces that are in none of them."""
    folders = {name.removesuffix(_MARKED) for name in files if name.endswith(_MARKED)}
    for folder in folders:
        inside = [info for name, info in files.items() if name.startswith(f"{folder}/")]
        yield _source(filesystem, folder, inside, recording=True)
    for name, info in files.items():
        hidden = name.rpartition("/")[2].startswith((".", "_"))
        if name.endswith(TRACES) and not hidden and not _is_in(name, folders):
            yield _source(filesystem, name, [info])


def _is_in(name: str, folders: Iterable[str]) -> bool:
    return any(name.startswith(f"{folder}/") for folder in folders)


_TAGS = ("ETag", "etag", "md5Hash", "checksum")
"""What stores say of an object that changes with its content; a listing and a look say the same."""
_TIMES = ("mtime", "LastModified", "updated", "modified", "last_modified")


def _source(
    filesystem: AbstractFileSystem,
    name: str,
    infos: list[dict[str, typing.Any]],
    *,
    recording: bool = False,
) -> Source:
    said = sorted(
        (
            str(info["name"]),
            int(info.get("size") or 0),
            next((str(info[key]).strip('"') for key in (*_TAGS, *_TIMES) if info.get(key)), ""),
        )
        for info in infos
    )
    return Source(
        url=filesystem.unstrip_protocol(name),
        bytes=sum(int(info.get("size") or 0) for info in infos),
        fingerprint=hashlib.sha256(repr(said).encode()).hexdigest(),
        recording=recording,
    )
