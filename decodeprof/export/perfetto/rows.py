"""The trace's own rows as slices: what ran on each stream, and what each host thread did."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import repeat

import numpy as np

from decodeprof.diagnosis.evidence import Evidence
from decodeprof.export.perfetto.lanes import Apart, Nested
from decodeprof.export.perfetto.pieces import pieces
from decodeprof.export.perfetto.writer import Writer
from decodeprof.export.window import Window
from decodeprof.model.trace import I64, NONE, ActivityKind, Bool, Trace

_CATEGORY = {int(kind): kind.name.lower() for kind in ActivityKind}


def write_devices(evidence: Evidence, window: Window, writer: Writer) -> None:
    """Write each device activity as a slice on its stream, with the flow from its launch."""
    trace = evidence.trace
    table = trace.device
    names = {info.index: info.name for info in trace.devices}
    for device in np.unique(table.device[window.device]).tolist():
        mine = window.device[table.device[window.device] == device]
        name = names.get(device)
        group = writer.track(f"Device {device}: {name}" if name else f"Device {device}")
        for stream in np.unique(table.stream[mine]).tolist():
            title = f"stream {stream}" if stream != NONE else "no stream given"
            _write_stream(evidence, mine[table.stream[mine] == stream], writer, group, title)


def _write_stream(evidence: Evidence, rows: I64, writer: Writer, group: int, title: str) -> None:
    trace, table = evidence.trace, evidence.trace.device
    lanes, tracks = Apart(), list[int]()
    flows = has_flow(trace)
    size = evidence.traffic.bytes if evidence.traffic is not None else table.bytes
    for piece in pieces(rows):
        columns = (
            piece,
            table.start_ns[piece],
            table.end_ns[piece],
            table.name[piece],
            table.kind[piece],
            table.correlation[piece],
            table.blocks[piece],
            table.threads_per_block[piece],
            table.graph_node[piece],
            size[piece],
            evidence.steps.activity_step[piece],
            flows[piece],
        )
        for row, start, end, name, kind, *numbers, flow in zip(
            *(column.tolist() for column in columns), strict=True
        ):
            lane = lanes.place(start, end)
            if lane == len(tracks):
                tracks.append(writer.track(_lane_title(title, lane), parent=group))
            writer.begin(
                tracks[lane],
                start,
                trace.names[name],
                category=_CATEGORY[kind],
                args=[(k, n) for k, n in zip(_KEYS, numbers, strict=True) if n != NONE],
                flow_in=row + 1 if flow else None,
            )
            writer.end(tracks[lane], end)


_KEYS = ("correlation", "blocks", "threads per block", "graph node", "bytes", "step")


def has_flow(trace: Trace) -> Bool:
    """Rows of `Trace.device` to which a flow leads: their launch is known and began before them.

    Where clocks differ, an activity seems to start before its launch; a flow cannot go back.
    """
    call = trace.device.call
    if not len(trace.calls):
        return np.zeros(len(call), bool)
    return np.asarray((call != NONE) & (trace.device.start_ns >= trace.calls.start_ns[call]))


def write_host(evidence: Evidence, window: Window, writer: Writer) -> None:
    """Write what each host thread did: annotations, ops, API calls and Python frames."""
    trace = evidence.trace
    launched = _Launched(trace, window)
    tables = (
        ("annotations", "annotation", trace.annotations, window.annotations),
        ("operators", "op", trace.ops, window.ops),
        ("API calls", "api", trace.calls, window.calls),
        ("Python", "frame", trace.frames, window.frames),
    )
    used = np.unique(np.concatenate([table.thread[rows] for _, _, table, rows in tables]))
    for thread in used.tolist():
        group = writer.track(f"Thread {trace.threads[thread]}")
        for title, category, table, rows in tables:
            tracks = _NestedTracks(writer, group, title)
            for piece in pieces(rows[table.thread[rows] == thread]):
                calls = launched.of(piece) if table is trace.calls else repeat(_NO_CALL)
                columns = (table.start_ns[piece], table.end_ns[piece], table.name[piece])
                spans = zip(*(column.tolist() for column in columns), strict=True)
                # Ops are no calls: the second sequence may be endless.
                for (start, end, name), (args, flows) in zip(spans, calls, strict=False):
                    writer.begin(
                        tracks.place(start, end),
                        start,
                        trace.names[name],
                        category=category,
                        args=args,
                        flows_out=flows,
                    )
            tracks.finish()


class _NestedTracks:
    """The lanes of one thread's table, as tracks that are made when they are needed."""

    def __init__(self, writer: Writer, group: int, title: str) -> None:
        self._writer, self._group, self._title = writer, group, title
        self._lanes = Nested()
        self._tracks: list[int] = []

    def place(self, start_ns: int, end_ns: int) -> int:
        """End what ends before, and give the track for a slice that begins now."""
        lane, closed = self._lanes.place(start_ns, end_ns)
        self._end(closed)
        if lane == len(self._tracks):
            title = _lane_title(self._title, lane)
            self._tracks.append(self._writer.track(title, parent=self._group))
        return self._tracks[lane]

    def finish(self) -> None:
        """End all that is open."""
        self._end(self._lanes.rest())

    def _end(self, closed: list[tuple[int, int]]) -> None:
        for lane, end in closed:
            self._writer.end(self._tracks[lane], end)


_Call = tuple[tuple[tuple[str, int], ...], Sequence[int]]
_NO_CALL: _Call = ((), ())


class _Launched:
    """For each API call the device activities that it launched."""

    def __init__(self, trace: Trace, window: Window) -> None:
        self._correlation = trace.calls.correlation
        rows = window.device[has_flow(trace)[window.device]]
        rows = rows[np.argsort(trace.device.call[rows], kind="stable")]
        self._call = trace.device.call[rows]
        self._flows = rows + 1

    def of(self, calls: I64) -> Iterator[_Call]:
        """Each call's arguments, and a flow for each activity: its row, counted from 1."""
        first = np.searchsorted(self._call, calls, side="left").tolist()
        last = np.searchsorted(self._call, calls, side="right").tolist()
        correlations = self._correlation[calls].tolist()
        for begin, end, correlation in zip(first, last, correlations, strict=True):
            args = (("correlation", correlation),) if correlation != NONE else ()
            yield args, self._flows[begin:end].tolist() if end > begin else ()


def _lane_title(title: str, lane: int) -> str:
    return f"{title}, overlap {lane}" if lane else title
