"""What can a device and its host do at best, as measured in a recording?"""

from __future__ import annotations

from typing import Annotated

import msgspec


class Ceilings(msgspec.Struct, frozen=True, kw_only=True):
    """What this very device and host can do, measured in the recording; None: not measured."""

    launch_ns: int | None = None
    """Host time of an eager launch of an in-place add on one element (median)."""
    graph_node_ns: int | None = None
    """Time per node of a graph of 1,000 such kernels, kernel included."""
    node_gap_ns: int | None = None
    """What each activity of a graph costs beside its duration when launched by itself."""
    node_gap_large_ns: int | None = None
    """The same for kernels of many blocks, which hide much of it; None: as the others."""
    node_gap_set_ns: int | None = None
    """What a memset costs as a graph's node: the gaps on both sides of it; None: as the others."""
    node_gap_copy_ns: int | None = None
    """The same for a copy within the device."""
    profiled_block_ps: float | None = None
    """What a profiler adds to a kernel's duration for each of its blocks, in ps; None: nothing."""
    node_gap_samples_ns: list[int] = []
    """The same again and again while recording, the first right after the timing: `node_gap_ns`."""
    graph_start_ns: int | None = None
    """Device time of a queued graph before its first node."""
    graph_launch_ns: int | None = None
    """Host time of one graph launch call."""
    kernel_latency_ns: int | None = None
    """Launch call's start to kernel start on an idle device with an empty queue (p1)."""
    copy_bytes_per_s: float | None = None
    """Device-to-device copy, bytes read plus bytes written."""
    read_bytes_per_s: float | None = None
    queue_depth: Annotated[int, msgspec.Meta(ge=1)] | None = None
    """Launches that may be outstanding before a launch call blocks."""
    matmul_flops_per_s: float | None = None
    strided_elements_per_s: float | None = None
    """Of an elementwise kernel over an expanded operand: it computes an address for each."""
