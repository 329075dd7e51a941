"""What does a CUDA or HIP API call do? Classified by its name, the one thing all traces agree on.

`cuda_sync` rows and nsys's syncType change meaning between versions; names do not. An unknown name
is OTHER: it is never taken for a launch or for a wait.
"""

from __future__ import annotations

import enum
import re


class CallKind(enum.IntEnum):
    """What an API call does, as far as step analysis needs to know."""

    OTHER = 0
    LAUNCH = 1
    """Launches one kernel."""
    GRAPH_LAUNCH = 2
    """Launches a whole graph: one call, many device activities."""
    COPY = 3
    """Enqueues a copy; may block when the host memory is pageable."""
    SET = 4
    """Enqueues a memset."""
    SYNC = 5
    """Blocks until a stream, an event or the device is done."""
    BLOCKING_COPY = 6
    """Enqueues a copy and blocks until it is done."""
    STREAM_WAIT = 7
    """Makes a stream wait for an event; the host goes on."""
    EVENT_RECORD = 8
    ALLOCATE = 9
    """Allocates device or pinned memory; slow, may wait for the device."""
    FREE = 10
    """Frees device or pinned memory; waits for the device."""


LAUNCHING = (CallKind.LAUNCH, CallKind.GRAPH_LAUNCH, CallKind.COPY, CallKind.SET)
"""Kinds that put work on a device queue."""

_RULES: tuple[tuple[CallKind, str], ...] = (
    (CallKind.GRAPH_LAUNCH, r"(cuda|cu|hip)GraphLaunch"),
    (
        CallKind.LAUNCH,
        r"cudaLaunch(CooperativeKernel(MultiDevice)?|Kernel(ExC)?)"
        r"|cuLaunch(CooperativeKernel|Kernel(Ex)?)"
        r"|hip(Ext|ExtModule|Module)?Launch(CooperativeKernel|Kernel(ExC)?)"
        r"|hipLaunchByPtr",
    ),
    (
        CallKind.BLOCKING_COPY,
        r"(cuda|hip)Memcpy(2D|3D|ToSymbol|FromSymbol)?|hipMemcpyWithStream"
        r"|(cu|hip)Memcpy(HtoD|DtoH|DtoD)",
    ),
    (CallKind.COPY, r"(cuda|cu|hip)Memcpy\w*Async|(cuda|cu|hip)MemcpyPeer\w*"),
    (CallKind.SET, r"(cuda|cu|hip)Memset\w*"),
    (
        CallKind.SYNC,
        r"(cuda|hip)(Stream|Device|Event|Thread)Synchronize|(cu|hip)(Stream|Event|Ctx)Synchronize",
    ),
    (CallKind.STREAM_WAIT, r"(cuda|cu|hip)StreamWaitEvent"),
    (CallKind.EVENT_RECORD, r"(cuda|cu|hip)EventRecord(WithFlags)?"),
    (
        CallKind.ALLOCATE,
        r"(cuda|hip)(Malloc\w*|HostAlloc|HostMalloc|ExtMallocWithFlags)"
        r"|cuMem(Alloc\w*|Create|AddressReserve|Map|HostAlloc|SetAccess)",
    ),
    (
        CallKind.FREE,
        # A free in stream order (cudaFreeAsync) does not wait: it is OTHER.
        r"(?!\w*Async)((cuda|hip)(Free\w*|HostFree)|cuMem(Free\w*|Unmap|Release|AddressFree))",
    ),
)
_COMPILED = tuple((kind, re.compile(pattern)) for kind, pattern in _RULES)
# nsys appends the API version to a name (cudaLaunchKernel_v7000); per-thread-default-stream
# builds append _ptsz or _ptds.
_SUFFIX = re.compile(r"(_v\d+|_ptsz|_ptds|_spt)+$")


def call_kind(name: str) -> CallKind:
    """Classify an API call by its name, with any version suffix taken off."""
    bare = _SUFFIX.sub("", name)
    for kind, pattern in _COMPILED:
        if pattern.fullmatch(bare):
            return kind
    return CallKind.OTHER


def bare_name(name: str) -> str:
    """The API's name without the suffixes that nsys and per-thread builds add."""
    return _SUFFIX.sub("", name)
