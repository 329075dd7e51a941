"""What is in a recording, and how is it read and written?

A recording is a directory of open formats: `recording.json` (this module's `Recording`),
`trace.json.gz` (torch.profiler's file, scrubbed), and what was made of them. It is the only thing
that passes from capture to analysis, so that a report can be made again anywhere without the GPU.

Nothing in it holds values of environment variables, absolute paths or host names.
"""

from __future__ import annotations

import contextlib
import gzip
import os
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Annotated, Any

import msgspec

from decodeprof.errors import InputError
from decodeprof.model.ceilings import Ceilings
from decodeprof.model.graph_check import GraphCheck
from decodeprof.model.ops import OpRecord

SCHEMA_VERSION = 1
RECORDING_FILE = "recording.json"
TRACE_FILE = "trace.json.gz"
FIRST_CALL_TRACE_FILE = "first_call.json.gz"
OPS_FILE = "operations.json.gz"
"""The operations of two decode steps, a `decodeprof.model.ops.OpRecord`."""
NSYS_FILE = "nsys.sqlite"
DIAGNOSIS_FILE = "diagnosis.json"
MOST_STEPS = 10_000_000
"""Of one call: a description of more is damaged, and tables by step would fill the memory."""


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """What was run."""

    spec: str
    """As the user named it, paths relative: ``my_script.py:generate``."""
    kind: str  # function | generator | coroutine | async_generator
    arguments: dict[str, str] = {}
    """Each argument's name and a short text of its value."""
    setup: str | None = None
    given: list[str] = []
    """``name=JSON`` and ``name=@attribute`` as they were given, long values as ``name=…``."""
    new_tokens: int | None = None
    """Tokens of one call, for each sequence of the batch; None: could not be counted."""
    new_tokens_from: str = "unknown"
    """yields | yielded lists | returned list | returned lists | --new-tokens | forwards | unknown:
    how they were counted; of lists it is not known whether they are batches."""
    batch: int | None = None


class Environment(msgspec.Struct, frozen=True, kw_only=True):
    """Versions and machine, as far as a reader of the report needs them."""

    python: str
    torch: str
    decodeprof: str
    cuda: str | None = None
    driver: str | None = None
    platform: str = ""
    cpu: str = ""
    cpu_count: int = 0
    packages: dict[str, str] = {}
    """Versions of transformers, triton, numpy and the like, where imported."""


class Device(msgspec.Struct, frozen=True, kw_only=True):
    """The device that ran the target."""

    name: str
    index: int = 0
    sm_count: int | None = None
    memory_bytes: int | None = None
    compute_capability: str | None = None
    l2_bytes: int | None = None


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One unprofiled call of the target."""

    total_ns: int
    """Wall time of the call, closed by a device synchronisation."""
    tokens: int | None = None
    steps: Annotated[int, msgspec.Meta(ge=0, le=MOST_STEPS)] = 0
    ttft_ns: int | None = None
    """Call's start until the second forward begins on the device, or the call ends: the prefill
    with what comes before and after it, and a ceiling of the time to the first token."""
    first_token_ns: int | None = None
    """Call's start to the first sign of the first token; None: there was none but the above."""
    first_token_by: str = ""
    """yield | forward | mark: what that sign was: the first item, the end of the first forward, or
    the end of what the target marks as its prefill. Sampling and reading come after a forward."""
    step_ns: list[int] = []
    """Each decode step, from boundary to boundary on the device's clock."""
    host_step_ns: list[int] = []
    """The same boundaries by the host's clock: the cadence at which the host issues steps."""

    def inner_step_ns(self) -> list[int]:
        """The steps that stand for the decode: without the first and the last, if that leaves any.

        The first may do one-off work; the last is closed by the call's end and not by the next
        forward, so that of two it is the one to leave out.
        """
        return self.step_ns[1:-1] or self.step_ns[:-1] or self.step_ns


class Timing(msgspec.Struct, frozen=True, kw_only=True):
    """Unprofiled timing: every sample, and how it was taken."""

    method: str  # cuda_events | host_clock | none: how a step's boundaries were timed
    runs: list[Run] = []
    slope_ns_per_token: int | None = None
    """Wall-time difference of two token counts ÷ tokens: the cross-check; None: not possible."""
    stopped_by: str = ""  # interval | budget | runs: why repetition ended
    half_interval_share: float | None = None
    """Half the 95 % interval of the median, over the median, when it ended."""
    graph_ns: list[int] = []
    """Device time of each graph replay of one more call, in order, queued behind other work: a
    profiler distorts the gaps between a graph's nodes, so a trace does not show what it takes."""
    graph_host_ns: list[int] = []
    """Host time of the same replays' calls, which a profiler makes a hundred times longer."""


class Site(msgspec.Struct, frozen=True, kw_only=True):
    """A place in Python code from which a sync was called."""

    file: str
    line: int
    function: str
    code: str = ""  # the source line's text
    stack: list[str] = []
    """``file:line function``, outermost first; the site itself last."""


class SyncEvent(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """One sync, in the order in which it happened."""

    step: int
    """0: prefill (or before the first boundary); i: the i-th decode step; -1: no boundaries."""
    site: int
    """Index into the pass's sites."""
    kind: str  # warned (sync-debug) | stream | device | event (gpu_trace)


class SyncPass(msgspec.Struct, frozen=True, kw_only=True):
    """What one detector saw in one call of the target: sync-debug, or gpu_trace."""

    sites: list[Site] = []
    events: list[SyncEvent] = []
    steps: Annotated[int, msgspec.Meta(ge=0, le=MOST_STEPS)] = 0  # decode steps in this pass

    def __post_init__(self) -> None:
        if any(not 0 <= event.site < len(self.sites) for event in self.events):
            raise ValueError("a sync names a site that is not listed")


class CudagraphSkip(msgspec.Struct, frozen=True, kw_only=True):
    """One reason for which compile used no graph, as it was logged."""

    reason: str
    where: str | None = None
    """Source line that the message names."""
    count: int = 1


class CompileEvent(msgspec.Struct, frozen=True, kw_only=True):
    """A graph break or a recompile, with its line."""

    kind: str  # graph_break | recompile
    reason: str
    """Its first line; the whole text is in `graph_breaks` or `recompiles`."""
    where: str | None = None
    """``file:line``: the line that breaks, or that led to the guard that failed."""
    function: str = ""
    count: int = 1


class CompileInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What torch.compile did in this process; present only when it was used."""

    graph_breaks: list[str] = []
    recompiles: list[str] = []
    events: list[CompileEvent] = []
    """Both of them, by line; empty in recordings made before they were kept."""
    cudagraph_skips: list[CudagraphSkip] = []
    cudagraphs_asked: bool | None = None
    partitions: int | None = None
    """Parts that one function was cut into, at most; None: none was told of."""
    partition_reasons: list[str] = []
    compiled_graphs: int | None = None


class Allocator(msgspec.Struct, frozen=True, kw_only=True):
    """The caching allocator's figures for one unprofiled call."""

    peak_allocated_bytes: int
    peak_reserved_bytes: int
    device_allocs: int
    """cudaMalloc calls during the call."""
    device_frees: int
    alloc_retries: int
    out_of_memory_errors: int = 0
    inactive_split_bytes: int = 0


class ModelInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What the outermost modules hold."""

    name: str | None = None
    parameter_bytes: int = 0
    buffer_bytes: int = 0
    parameters: int = 0
    embedding_bytes: int = 0
    """Storage of input embeddings that no other module shares: read only by row."""
    dtypes: dict[str, int] = {}
    """Parameter bytes by dtype."""


class PassReport(msgspec.Struct, frozen=True, kw_only=True):
    """What one pass could and could not do."""

    name: str
    """warmup | timing | ceilings | profile | sync_debug | operations | gpu_trace | first_call |
    nsys."""
    status: str
    """done | partial | failed | skipped."""
    reason: str = ""
    seconds: float = 0.0
    new_tokens: int | None = None


class Recording(msgspec.Struct, frozen=True, kw_only=True):
    """recording.json: all that is known beside the trace."""

    schema_version: int = SCHEMA_VERSION
    target: Target
    environment: Environment
    device: Device | None = None
    """None: a CPU run."""
    ceilings: Ceilings | None = None
    timing: Timing | None = None
    sync_debug: SyncPass | None = None
    gpu_trace: SyncPass | None = None
    compile: CompileInfo | None = None
    allocator: Allocator | None = None
    model: ModelInfo | None = None
    passes: list[PassReport] = []
    sources: dict[str, dict[int, str]] = {}
    """Source text by file and line, for the lines that a report may quote."""
    graph_check: GraphCheck | None = None
    """What came of capturing the step, in a process of its own; None: it was not tried."""
    caveats: list[str] = []
    scenario: str | None = None


def read_recording(directory: Path) -> Recording:
    """Read a recording's description.

    Raises:
        InputError: it is no recording, is damaged, or was written by a newer decodeprof.
    """
    path = directory / RECORDING_FILE
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise InputError(
            f"`{directory}` is no recording",
            why=f"it holds no {RECORDING_FILE}",
            hint="record one with `decodeprof diagnose my_script.py:generate`",
        ) from None
    except OSError as error:
        raise InputError(f"cannot read `{path}`", why=str(error.strerror)) from None
    try:
        version = msgspec.json.decode(data, type=_Versioned).schema_version
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InputError(f"`{path}` is damaged", why=str(error)) from None
    if version > SCHEMA_VERSION:
        raise InputError(
            f"`{directory}` was written by a newer decodeprof",
            why=f"its schema version is {version}; this decodeprof reads up to {SCHEMA_VERSION}",
            hint="pip install --upgrade decodeprof",
        )
    if version < 1:
        raise InputError(f"`{path}` is damaged", why=f"schema version {version} never existed")
    try:
        return msgspec.json.decode(data, type=Recording)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InputError(f"`{path}` is damaged", why=str(error)) from None


def read_operations(directory: Path) -> OpRecord | None:
    """Read the operations of two decode steps; None: they were not recorded.

    Raises:
        InputError: the file is damaged.
    """
    path = directory / OPS_FILE
    try:
        data = gzip.decompress(path.read_bytes())
        return msgspec.json.decode(data, type=OpRecord)
    except FileNotFoundError:
        return None
    except (OSError, EOFError, zlib.error, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InputError(f"`{path}` is damaged", why=str(error)) from None


def write_operations(directory: Path, record: OpRecord) -> None:
    """Write the operations of two decode steps, whole or not at all."""
    write_whole(directory / OPS_FILE, gzip.compress(msgspec.json.encode(record), mtime=0))


class _Versioned(msgspec.Struct):
    schema_version: int


def write_json(path: Path, value: Any) -> None:
    """Write a value as indented JSON, whole or not at all."""
    # Keys that are numbers, such as those of source lines, sort only as text.
    plain = msgspec.to_builtins(value, str_keys=True, order="deterministic")
    text = msgspec.json.format(msgspec.json.encode(plain), indent=1)
    write_whole(path, text + b"\n")


def write_recording(directory: Path, recording: Recording) -> None:
    """Write recording.json into an existing directory, whole or not at all."""
    write_json(directory / RECORDING_FILE, recording)


def write_whole(path: Path, data: bytes) -> None:
    """Write a file under a temporary name and rename it: a reader never sees half a file.

    Raises:
        InputError: the folder cannot be written, or the disk is full.
    """
    with whole_file(path) as file:
        file.write(data)


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """A file to write into, which takes its name only if the block ends without an error.

    Raises:
        InputError: the folder cannot be written, the disk is full, or the name is that of a device,
            a pipe or a socket, which a rename would remove.
    """
    temporary = None
    try:
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise InputError(
                f"cannot write `{path}`",
                why="it is no ordinary file",
                hint="name another place",
            )
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(handle, "wb") as file:
            yield file
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
        temporary = None
    except OSError as error:
        raise InputError(
            f"cannot write `{path}`",
            why=str(error.strerror),
            hint="name another folder with `--out`",
        ) from None
    finally:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)
