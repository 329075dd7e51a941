"""What of a torch trace must not leave the machine?

Absolute paths, the host's and the user's names. The file is edited as bytes, so that its layout
and the digits of its times stay as torch.profiler wrote them.
"""

from __future__ import annotations

import gzip
import re
from dataclasses import dataclass
from pathlib import Path

from decodeprof.recording import write_whole

_TRACE_NAME = b"trace.json"
_COMPRESSION = 6
# Top-level metadata that tells of the machine and of nothing else.
_DROPPED_KEYS = re.compile(
    rb'^\s*"(?:host_name|hostname|username|user_name)": "[^"]*",?[ \t]*\n', re.M
)
_FILE_NAME = re.compile(rb'("traceName"\s*:\s*)"(?:[^"\\]|\\.)*"')
_SHORTEST_NAME = 3
"""A host or user of fewer letters would be found inside other words."""


@dataclass(frozen=True)
class EventCounts:
    """What a trace holds, as far as its being complete is concerned."""

    kernels: int
    device_activities: int
    launches: int
    ops: int


def count_events(trace: bytes) -> EventCounts:
    """Count a trace's events by their categories, without parsing it."""

    def category(name: bytes) -> int:
        return len(re.findall(rb'"cat":\s*"' + name + rb'"', trace))

    kernels = category(b"kernel")
    launches = len(re.findall(rb'"name":\s*"cu(?:da)?(?:Launch|GraphLaunch)', trace))
    copies = category(b"gpu_memcpy") + category(b"gpu_memset")
    return EventCounts(kernels, kernels + copies, launches, category(b"cpu_op"))


def without_throwaway(counts: EventCounts) -> EventCounts:
    """The target's own events: without the one kernel that wakes the profiler, if it is there."""
    if not counts.kernels:
        return counts
    return EventCounts(
        kernels=counts.kernels - 1,
        device_activities=counts.device_activities - 1,
        launches=max(0, counts.launches - 1),
        ops=counts.ops,
    )


def scrub(trace: bytes, *, prefixes: list[tuple[str, str]], names: list[str]) -> bytes:
    """Shorten paths and drop names of machine and user.

    Args:
        trace: the file's text.
        prefixes: path prefixes with what they become, longest first.
        names: host and user names, replaced where they stand as a path's part.
    """
    trace = _DROPPED_KEYS.sub(b"", trace)
    trace = _FILE_NAME.sub(rb'\1"' + _TRACE_NAME + rb'"', trace)
    for prefix, short in prefixes:
        trace = trace.replace(prefix.encode(), short.encode())
    for name in names:
        if len(name) >= _SHORTEST_NAME:
            word = re.escape(name.encode())
            trace = re.sub(rb'(?<=[/"_])' + word + rb'(?=[/"])', b"-", trace)
    return trace


def write_trace(path: Path, trace: bytes) -> None:
    """Write a trace as gzip, whole or not at all; equal input gives equal files."""
    write_whole(path, gzip.compress(trace, compresslevel=_COMPRESSION, mtime=0))
