"""What does a timeline show, from top to bottom?

Steps, idle gaps by cause, blocking calls with their source line, two counters, each device's
streams and each host thread. Times are the trace's own, in ns from its first event, so that a
number in a report is found at its place. Every row of the trace becomes a slice.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO

import numpy as np

from decodeprof.analysis.gaps import Gaps
from decodeprof.analysis.sites import BlockingSite, waits
from decodeprof.diagnosis.evidence import Evidence
from decodeprof.export.perfetto.lanes import Apart
from decodeprof.export.perfetto.pieces import pieces
from decodeprof.export.perfetto.rates import bandwidth_points, depth_points
from decodeprof.export.perfetto.rows import write_devices, write_host
from decodeprof.export.perfetto.writer import Value, Writer
from decodeprof.export.window import Window, window_of
from decodeprof.model.diagnosis import IDLE_CAUSES
from decodeprof.model.trace import I64, NONE

_PROFILED = "Times are profiled time: the profiler makes the host slower than it is."


def write_timeline(
    evidence: Evidence, file: IO[bytes], *, steps: tuple[int | None, int | None] | None = None
) -> None:
    """Write a timeline that ui.perfetto.dev and Perfetto's trace processor read.

    What is held in memory beside the trace does not grow with the number of its events, but for a
    few columns of numbers.

    Args:
        evidence: the trace, with what was found in it.
        file: where to; a binary file.
        steps: first step and the one after the last; None: the whole trace.

    Raises:
        DecodeprofError: the trace has no such steps, or the package `perfetto` is missing.
    """
    window = window_of(evidence, steps)
    writer = Writer(file)
    _write_steps(evidence, window, writer)
    if evidence.gaps is not None:
        _write_gaps(evidence, evidence.gaps, window, writer)
    _write_blocking(evidence, window, writer)
    _write_counters(evidence, window, writer)
    # Launches come before what they launch: of equal times, a flow must begin before it ends.
    write_host(evidence, window, writer)
    write_devices(evidence, window, writer)
    writer.close()


def _write_steps(evidence: Evidence, window: Window, writer: Writer) -> None:
    steps = evidence.steps
    if not len(window.steps):
        return
    group = writer.track("Steps", description=steps.text)
    device = writer.track("on the device", parent=group, description=_WINDOWS)
    host = writer.track("on the host", parent=group, description=_HOST_RANGES)
    counts = evidence.counts
    for index in window.steps:
        args: list[tuple[str, Value | None]] = [
            ("step", index),
            ("phase", steps.phases[index]),
            ("steady", bool(steps.steady[index])),
            ("why left out", steps.reasons[index]),
            ("query length", steps.query_lengths[index]),
            ("kernels", int(counts.kernels[index])),
            ("launches", int(counts.launches[index])),
            ("graph launches", int(counts.graph_launches[index])),
            ("blocking calls", int(counts.syncs[index])),
        ]
        name = f"{steps.phases[index]} {index}"
        spans = (
            (device, steps.device_start_ns, steps.device_end_ns),
            (host, steps.host_start_ns, steps.host_end_ns),
        )
        for track, starts, ends in spans:
            if starts[index] != NONE:
                writer.begin(track, int(starts[index]), name, category="step", args=args)
                writer.end(track, int(ends[index]))


_WINDOWS = (
    "From a step's first activity to the next step's first one; the last step ends with its last "
    "activity. " + _PROFILED
)
_HOST_RANGES = "From the start of one forward (or mark) to the start of the next. " + _PROFILED


def _write_gaps(evidence: Evidence, gaps: Gaps, window: Window, writer: Writer) -> None:
    track = writer.track(f"Idle, by cause (device {evidence.device})", description=_GAPS)
    names = evidence.trace.names
    calls, table = evidence.trace.calls, evidence.trace.device
    keys = [f"{cause} ns" for cause in IDLE_CAUSES]
    for rows in pieces(window.gaps):
        largest = gaps.causes_ns[rows].argmax(axis=1)
        for row, cause in zip(rows.tolist(), largest.tolist(), strict=True):
            parts = gaps.causes_ns[row].tolist()
            opened = int(gaps.opened_by[row])
            writer.begin(
                track,
                int(gaps.start_ns[row]),
                IDLE_CAUSES[cause],
                category="idle",
                args=[
                    *((key, part) for key, part in zip(keys, parts, strict=True) if part),
                    ("ended by", names[table.name[gaps.ended_by[row]]]),
                    ("opened by", names[calls.name[opened]] if opened != NONE else None),
                ],
            )
            writer.end(track, int(gaps.end_ns[row]))


_GAPS = (
    "A gap is a stretch in which the device ran nothing. It bears the name of its largest cause; "
    "its arguments hold all of them, which sum to it."
)


def _write_blocking(evidence: Evidence, window: Window, writer: Writer) -> None:
    trace = evidence.trace
    rows = np.intersect1d(waits(trace, evidence.nesting), window.calls)
    if not len(rows):
        return
    site_of = {
        row: site
        for site in (*evidence.decode_sites, *evidence.prefill_sites)
        for row in site.calls.tolist()
    }
    group = writer.track("Blocking calls", description=_BLOCKING)
    lanes, tracks = Apart(), dict[int, int]()
    for row in rows.tolist():
        start, end = int(trace.calls.start_ns[row]), int(trace.calls.end_ns[row])
        lane = lanes.place(start, end)
        if lane not in tracks:
            tracks[lane] = writer.track(f"overlap {lane}" if lane else "calls", parent=group)
        api = trace.names[trace.calls.name[row]]
        site = site_of.get(row)
        args = _site_args(evidence, site, op=evidence.nesting.op_name(trace, row))
        name = api
        if site is not None and site.place is not None:
            name = f"{site.place.file}:{site.place.line}"
        writer.begin(
            tracks[lane],
            start,
            name,
            category="blocking",
            args=[
                ("api", api),
                ("thread", trace.threads[trace.calls.thread[row]]),
                ("step", _known(evidence.steps.call_step[row])),
                *args,
            ],
        )
        writer.end(tracks[lane], end)


_BLOCKING = (
    "Calls in which a host thread waited for a device, by the source line that made them where "
    "that is known. How long a call lasts is not what removing it would save."
)


def _site_args(
    evidence: Evidence, site: BlockingSite | None, *, op: str | None
) -> Iterator[tuple[str, Value | None]]:
    yield "op", op
    if site is None or site.place is None:
        return
    place = site.place
    sources = evidence.recording.sources if evidence.recording else {}
    code = place.code or sources.get(place.file, {}).get(place.line)
    yield "file", place.file
    yield "line", place.line
    yield "function", place.function
    yield "code", code.strip() if code else None
    yield "seen by", ", ".join(site.seen_by)


def _write_counters(evidence: Evidence, window: Window, writer: Writer) -> None:
    if evidence.launches is None or not len(window.device):
        return
    group = writer.track("Counters")
    depth = writer.counter(
        f"queue depth (device {evidence.device})", parent=group, unit="launches", description=_DEPTH
    )
    _write_points(writer, depth, *depth_points(evidence.trace, evidence.launches, window.calls))
    if evidence.traffic is not None:
        times, rates = bandwidth_points(evidence.trace, evidence.traffic, window.device)
        if len(times):
            track = writer.counter(
                "achieved bandwidth", parent=group, unit="B/s", description=_BANDWIDTH
            )
            _write_points(writer, track, times, rates)


_DEPTH = "Launches whose call has begun and whose first activity has not started."
_BANDWIDTH = (
    "Bytes read and written ÷ duration, of copies and of kernels whose bytes are known from "
    "shapes; 0 also where a kernel runs whose bytes are not known."
)


def _write_points(writer: Writer, track: int, times: I64, values: I64) -> None:
    for rows in pieces(np.arange(len(times), dtype=np.int64)):
        for time, value in zip(times[rows].tolist(), values[rows].tolist(), strict=True):
            writer.value(track, time, value)


def _known(value: np.int32) -> int | None:
    return int(value) if value != NONE else None
