"""What a profiler would have recorded of a synthetic run, and the truth about it.

The truth is computed event by event, slowly and plainly, from what the program is known to have
done; nothing of the package's own code is in it.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

MAIN_STREAM = 7
MAIN_THREAD = "429"
CAUSES = ("sync", "launch", "dispatch", "python", "device", "dependency", "unknown")
LATE_START_NS = 20_000


@dataclass(frozen=True)
class Call:
    """An API call on a host thread."""

    start_ns: int
    end_ns: int
    name: str
    thread: str = MAIN_THREAD
    correlation: int = 0
    external: int = 0
    blocks: bool = False
    driver: bool = False


@dataclass(frozen=True)
class Activity:
    """A kernel, copy or set on a device."""

    start_ns: int
    end_ns: int
    name: str
    kind: str = "kernel"
    device: int = 0
    stream: int = MAIN_STREAM
    correlation: int = 0
    external: int = 0
    call: Call | None = None
    arrival_ns: int | None = None
    """Launch call's start + latency floor; None: no launch was recorded."""
    waited: bool = False
    """A stream wait stands between its launch and its stream's previous one."""
    bytes: int = -1
    node: int = -1
    grid: tuple[int, int, int] = (4, 4, 1)
    block: tuple[int, int, int] = (128, 1, 1)


@dataclass(frozen=True)
class Range:
    """An op, an annotation or a Python frame on a host thread."""

    start_ns: int
    end_ns: int
    name: str
    thread: str = MAIN_THREAD
    external: int = 0
    shapes: tuple[tuple[int, ...], ...] | None = None


@dataclass(frozen=True)
class Wait:
    """The profiler's own record of a wait (`cuda_sync`)."""

    start_ns: int
    end_ns: int
    kind: str
    stream: int
    correlation: int
    device: int = 0


@dataclass(frozen=True)
class Gap:
    """A stretch in which the device ran nothing, and why."""

    start_ns: int
    end_ns: int
    causes_ns: dict[str, int]
    opened_by_ns: int | None
    """Start of the launching thread's blocking call in which the device drained."""


@dataclass(frozen=True)
class Scenario:
    """What a profiler would have recorded. Times are in ns from the first event."""

    activities: tuple[Activity, ...]
    calls: tuple[Call, ...]
    ops: tuple[Range, ...]
    annotations: tuple[Range, ...]
    frames: tuple[Range, ...]
    waits: tuple[Wait, ...]
    pauses: tuple[tuple[int, int], ...]
    states: dict[str, tuple[tuple[int, int, str], ...]]
    """What each thread did: (start, end, state), without holes."""
    latency_ns: dict[str, int]
    steps: tuple[tuple[str, int], ...]
    """Phase and host start of each step."""
    shift_ns: int = 0
    """What `build` subtracted from the builder's clock."""

    def devices(self) -> list[int]:
        return sorted({a.device for a in self.activities})

    def busy_ns(self, device: int = 0) -> int:
        return sum(end - start for start, end in self._busy(device))

    def span_ns(self, device: int = 0) -> tuple[int, int]:
        mine = [a for a in self.activities if a.device == device]
        return min(a.start_ns for a in mine), max(a.end_ns for a in mine)

    def _busy(self, device: int) -> list[tuple[int, int]]:
        merged: list[tuple[int, int]] = []
        for a in sorted(self.activities, key=lambda a: a.start_ns):
            if a.device != device or a.end_ns == a.start_ns:
                continue
            if merged and a.start_ns <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(merged[-1][1], a.end_ns))
            else:
                merged.append((a.start_ns, a.end_ns))
        return merged

    def gaps(self, device: int = 0) -> list[Gap]:
        """Every gap of a device and its causes, as the program really spent them."""
        return [
            self._gap(before[1], after[0], device)
            for before, after in itertools.pairwise(self._busy(device))
        ]

    def _gap(self, start: int, end: int, device: int) -> Gap:
        enders = [
            a
            for a in self.activities
            if a.device == device and a.start_ns == end and a.end_ns > a.start_ns
        ]
        by = min(enders, key=lambda a: a.call.start_ns if a.call else float("inf"))
        causes = dict.fromkeys(CAUSES, 0)
        if by.call is None or by.arrival_ns is None:
            causes["unknown"] = end - start
            return Gap(start, end, causes, None)
        # The launch's first activity ended the gap, or lies in it and has no length.
        first = start <= min(a.start_ns for a in self.activities if a.call is by.call)
        if not first or by.arrival_ns <= start:
            causes["dependency" if first and by.waited else "device"] = end - start
            return Gap(start, end, causes, None)
        floor = by.arrival_ns - by.call.start_ns
        until = min(by.arrival_ns, end)
        for a, b, state in self.states[by.call.thread]:
            # A recording without ops cannot tell Python from the framework.
            known = "unknown" if state == "python" and not self.ops else state
            causes[known] += max(0, min(b, until - floor) - max(a, start - floor))
        rest = end - until
        causes["launch"] += min(rest, max(LATE_START_NS, by.call.end_ns - until))
        causes["unknown"] += end - start - sum(causes.values())
        opened = [
            call.start_ns
            for call in self.calls
            if call.blocks
            and call.thread == by.call.thread
            and call.start_ns <= start <= call.end_ns
        ]
        return Gap(start, end, causes, max(opened, default=None))

    def causes_ns(self, device: int = 0) -> dict[str, int]:
        """Idle ns by cause over the whole recording."""
        gaps = self.gaps(device)
        return {cause: sum(gap.causes_ns[cause] for gap in gaps) for cause in CAUSES}
