"""What does a torch.profiler (Kineto) JSON trace hold, exactly?

Reads the forms of 2020 to 2026 that `kineto_events` describes into a `Trace`, and keeps every
device activity: nothing is rounded, and what cannot be placed is counted in a caveat.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np

from decodeprof import units
from decodeprof.errors import InputError
from decodeprof.ingest import kineto_events as kineto
from decodeprof.ingest.blocks import BLOCK_BYTES, Surroundings, UnknownLayoutError, read_blocks
from decodeprof.ingest.byte_source import Source, is_packed, open_source, source_of
from decodeprof.ingest.distributed import member_of
from decodeprof.ingest.gather import Rows
from decodeprof.ingest.kineto_lines import BLOCK_BYTES as FORMS_BLOCK_BYTES
from decodeprof.ingest.kineto_lines import WORTH_BYTES as FORMS_WORTH_BYTES
from decodeprof.ingest.kineto_lines import KinetoLines
from decodeprof.ingest.one_piece import read_in_one_piece
from decodeprof.ingest.two_processes import WORTH_BYTES, can_use_two, read_in_two
from decodeprof.model.calls import LAUNCHING
from decodeprof.model.trace import NONE, CallTable, DeviceInfo, DeviceTable, Trace

# Relative times are counted from a base in the past, absolute ones from 1970: an event at exactly
# 0 beside others a second and more later has no time, it is not the first event.
_NO_TIME_BEFORE_NS = 10**9
# Profilers' JSON packs 10 to 60 to 1.
_PACKS = 20
_VERSION_FIELDS = ("cuda_driver", "cuda_runtime", "cupti", "hip_runtime")


def parse(data: bytes, *, name: str) -> Trace:
    """Parse a whole torch.profiler file that is in memory, packed or not.

    Args:
        data: the JSON text.
        name: the file's name, for the trace's own.

    Raises:
        InputError: it is not JSON, or JSON of something else, or holds no events.
    """
    return parse_source(lambda: source_of(data), name=name)


def parse_file(path: Path, *, two_processes: bool | None = None) -> Trace:
    """Parse a torch.profiler file.

    Args:
        path: plain or gzip.
        two_processes: whether a second process reads half of it; None: where that is faster. The
            trace is the same.

    Raises:
        InputError: it is not JSON, or JSON of something else, or holds no events.
        OSError: it cannot be read.
    """
    if two_processes is None:
        two_processes = path.stat().st_size >= WORTH_BYTES and can_use_two()
    both = read_in_two(path) if two_processes and not is_packed(path) else None
    if both is not None and both.rows.any():
        return _assemble(both.rows, both.surroundings, name=path.name, damage="")
    return parse_source(
        lambda: open_source(path), name=path.name, by_forms=_text_bytes(path) >= FORMS_WORTH_BYTES
    )


def _text_bytes(path: Path) -> int:
    """About how large a file's text is."""
    return path.stat().st_size * (_PACKS if is_packed(path) else 1)


def parse_source(
    open_source: Callable[[], Source],
    *,
    name: str,
    by_forms: bool = False,
    block_bytes: int | None = None,
) -> Trace:
    """Parse a torch.profiler file as its bytes come.

    Args:
        open_source: gives the file's bytes from the first one on; called again where the file has
            to be read in one piece.
        name: the file's name.
        by_forms: whether events that differ in their numbers alone are parsed once, where the file
            lies as Kineto writes it; the trace is the same, and a large one is read in less time.
        block_bytes: how much is read at once; None: what is fastest.

    Raises:
        InputError: it is not JSON, or JSON of something else, or holds no events.
    """
    if block_bytes is None:
        block_bytes = FORMS_BLOCK_BYTES if by_forms else BLOCK_BYTES
    rows, around = Rows(), Surroundings()
    source = open_source()
    try:
        reader = KinetoLines(rows) if by_forms else None
        for events in read_blocks(source, around, reader=reader, block_bytes=block_bytes):
            rows.add(events)
    except UnknownLayoutError:
        source.close()
        source = open_source()
        rows, around = Rows(), Surroundings()
        rows.add(read_in_one_piece(source, around, name=name))
    finally:
        source.close()
    if not rows.any():
        raise InputError(
            f"`{name}` holds no events of torch.profiler",
            why=source.damage
            or f"it has {units.counted(rows.events, 'entry', 'entries')}, and none is an op, a "
            "call or a device activity",
            hint="record one with `decodeprof diagnose my_script.py:generate`",
        )
    return _assemble(rows, around, name=name, damage=source.damage)


def _assemble(rows: Rows, around: Surroundings, *, name: str, damage: str) -> Trace:
    """Shift times to start at 0, sort, and join activities to their launches."""
    origin = _origin(rows)
    top = around.top
    calls = rows.calls.build(origin_ns=origin)
    device = join(rows.device.build(origin_ns=origin), calls)
    ops, frames = rows.ops.build(origin_ns=origin), rows.frames.build(origin_ns=origin)
    syncs = rows.syncs.build(origin_ns=origin)
    captured = {"annotations"}
    captured |= {"calls"} if len(calls) else set()
    captured |= {"device"} if len(device) or len(calls) else set()
    captured |= {"ops"} if len(ops) else set()
    captured |= {"frames"} if len(frames) or top.with_stack else set()
    captured |= {"syncs"} if len(syncs) else set()
    captured |= {"shapes"} if rows.details.any_shapes else set()
    versions = [(key, str(getattr(top, key))) for key in _VERSION_FIELDS]
    trace = Trace(
        kind="torch",
        name=name,
        names=rows.names.all(),
        threads=rows.threads.all(),
        op_details=rows.details.all(),
        device=device,
        calls=calls,
        ops=ops,
        annotations=rows.annotations.build(origin_ns=origin),
        frames=frames,
        syncs=syncs,
        devices=_devices(top, device),
        captured=frozenset(captured),
        origin_ns=origin + max(kineto.whole(top.base_ns, 0), 0),
        profiler_overhead_ns=tuple((a - origin, b - origin) for a, b in sorted(rows.overhead)),
        versions=tuple((k, v) for k, v in versions if v != "None"),
        member=member_of(bytes(top.distributed)),
    )
    return replace(trace, caveats=_caveats(rows, around, trace, damage))


def _caveats(rows: Rows, around: Surroundings, trace: Trace, damage: str) -> tuple[str, ...]:
    """What was wrong with the file, what was done about it, and what is lost."""
    losses = around.losses
    texts = [
        f"the file is not valid JSON: {what} ({count:,})"
        for what, count in sorted(losses.changes.items())
    ]
    ends = [int(table.end_ns.max()) for table in (trace.ops, trace.calls) if len(table)]
    span = trace.span_ns()
    if damage:
        texts.append(damage)
    if around.cut_short:
        # Profilers write neither by time nor by kind alone: the end of the file is no end in time.
        text = (
            "the file ends before its list of events does: every whole event was read; what is "
            "missing may be of any time, and how much it is cannot be told"
        )
        behind = max(ends, default=0) - span[1] if span else 0
        if behind > 0:
            text += f"; host events go on for {units.time(behind)} after the last device activity"
        texts.append(text)
    if losses.lost_bytes:
        last = max([*ends, span[1] if span else 0])
        share = losses.lost_bytes / max(around.total_bytes, losses.lost_bytes)
        texts.append(
            f"{units.counted(losses.lost_bytes, 'byte')} in "
            f"{units.counted(losses.lost_places, 'place')} of the file could not be read: "
            f"by their size, events of about {units.time(round(last * share))}"
        )
    if around.tail_lost_bytes:
        lost = units.counted(around.tail_lost_bytes, "byte")
        texts.append(f"{lost} after the list of events could not be read")
    dropped = rows.dropped + losses.dropped
    texts += [
        units.counted(n, f"event {why} was", f"events {why} were") + " left out"
        for why, n in sorted(dropped.items())
        if n
    ]
    return tuple(texts)


def _origin(rows: Rows) -> int:
    """The first event's time; drops events at 0 beside others a second and more later."""
    tables = list(rows.tables().values())
    starts = [table.starts() for table in tables]
    timed = [column[column > 0] for column in starts]
    first = min((int(column.min()) for column in timed if len(column)), default=0)
    if first >= _NO_TIME_BEFORE_NS:
        for table, column, kept in zip(tables, starts, timed, strict=True):
            if len(kept) < len(column):
                rows.dropped["without a time"] += len(column) - len(kept)
                table.keep(column > 0)
        return first
    return min((int(column.min()) for column in starts if len(column)), default=0)


def join(device: DeviceTable, calls: CallTable) -> DeviceTable:
    """Fill `DeviceTable.call` by correlation: many activities may share one call (a graph).

    Where a correlation occurs on several calls (a driver call inside a runtime call), the one that
    launches wins, then the first.
    """
    if not len(device) or not len(calls):
        return device
    rank = np.where(np.isin(calls.kind, [int(k) for k in LAUNCHING]), 0, 1)
    usable = np.flatnonzero(calls.correlation != NONE)
    order = usable[np.lexsort((usable, rank[usable], calls.correlation[usable]))]
    keys, first = np.unique(calls.correlation[order], return_index=True)
    if not len(keys):
        return device
    at = np.searchsorted(keys, device.correlation)
    at[at == len(keys)] = 0
    found = (keys[at] == device.correlation) & (device.correlation != NONE)
    call = np.where(found, order[first[at]], NONE).astype(np.int64)
    return replace(device, call=call)


def _devices(top: kineto.Top, device: DeviceTable) -> tuple[DeviceInfo, ...]:
    """What the file says of each device that something ran on."""
    try:
        listed = kineto.DEVICES.decode(bytes(top.devices) or b"[]")
    except (msgspec.DecodeError, UnicodeDecodeError):
        listed = []
    known = {kineto.whole(p.id): p for p in listed}
    infos = []
    for index in np.unique(device.device).tolist():
        found = known.get(index, kineto.DeviceProperties())
        memory = kineto.whole(found.total_memory)
        sms = kineto.whole(found.sm_count)
        capability = (kineto.whole(found.major), kineto.whole(found.minor))
        infos.append(
            DeviceInfo(
                index=index,
                name=re.sub(r"\s+", " ", found.name).strip() or None if found.name else None,
                memory_bytes=memory if memory > 0 else None,
                sm_count=sms if sms > 0 else None,
                compute_capability=f"{capability[0]}.{capability[1]}"
                if NONE not in capability
                else None,
            )
        )
    return tuple(infos)
