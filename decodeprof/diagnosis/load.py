"""What is at this path: a recording, or a trace from elsewhere?"""

from __future__ import annotations

import stat
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from decodeprof import units
from decodeprof.errors import InputError, UsageError
from decodeprof.ingest.read import is_nsys, read_nsys, read_trace
from decodeprof.model.calls import LAUNCHING, CallKind
from decodeprof.model.ops import OpRecord
from decodeprof.model.trace import ActivityKind, Trace
from decodeprof.recording import (
    FIRST_CALL_TRACE_FILE,
    NSYS_FILE,
    RECORDING_FILE,
    TRACE_FILE,
    Recording,
    read_operations,
    read_recording,
)


@dataclass(frozen=True)
class Loaded:
    """A trace, and the recording that it is part of, if any."""

    trace: Trace
    recording: Recording | None
    name: str
    first_call: Trace | None = None
    """The first call's trace, where graphs were captured in it: it names and sizes their nodes."""
    whole: Trace | None = None
    """All processes of the file, where `trace` is one of several."""
    nsys: Trace | None = None
    """The same target's trace as nsys recorded it, where it was asked for."""
    ops: OpRecord | None = None
    """The operations of two decode steps, where they were recorded."""

    @property
    def whole_file(self) -> Trace:
        """What figures of the whole file are of."""
        return self.whole if self.whole is not None else self.trace


def load(path: Path, *, process: int | None = None) -> Loaded:
    """Read a recording directory, its recording.json, or a trace file.

    Args:
        path: the directory or the file.
        process: of a file that holds several processes, the one whose steps are wanted; None: the
            busiest.

    Raises:
        UsageError: there is nothing at the path, or no file that can be read twice.
        InputError: there is nothing that can be analysed.
    """
    _must_be_a_file(path)
    if path.name == RECORDING_FILE and path.is_file():
        path = path.parent
    if not path.is_dir():
        if is_nsys(path):
            return _load_nsys(path, process)
        _has_one_process(process, path)
        trace = read_trace(path)
        _must_hold_gpu_activity(trace, path.name)
        return Loaded(trace=trace, recording=None, name=path.name)
    if not (path / RECORDING_FILE).is_file():
        traces = sorted(p.name for p in path.glob("*.json*") if not p.name.startswith("."))
        raise InputError(
            f"`{path}` is no recording",
            why=f"it holds no {RECORDING_FILE}{'' if traces else ' and no trace'}",
            hint=f"name one trace file in it: `decodeprof analyze {path / traces[0]}`"
            if traces
            else "name the folder of the traces (.json, .json.gz), or record one with "
            "`decodeprof diagnose my_script.py:generate`",
        )
    _has_one_process(process, path)
    recording = read_recording(path)
    trace_path = path / TRACE_FILE
    if not trace_path.is_file():
        _must_hold_timing(recording, path)
        # What was timed is told all the same; all that a trace would say is unknown.
        return Loaded(
            trace=Trace.nothing(TRACE_FILE), recording=recording, name=path.resolve().name
        )
    first_call = path / FIRST_CALL_TRACE_FILE
    return Loaded(
        trace=read_trace(trace_path),
        recording=recording,
        name=path.resolve().name,
        first_call=read_trace(first_call) if first_call.is_file() else None,
        nsys=_nsys_of(path),
        ops=read_operations(path),
    )


def _nsys_of(path: Path) -> Trace | None:
    """What nsys recorded of the same target; an unreadable export takes nothing with it."""
    export = path / NSYS_FILE
    if not export.is_file():
        return None
    try:
        return read_trace(export)
    except InputError as error:
        told = f"{error.what}: {error.why}" if error.why else error.what
        return replace(Trace.nothing(NSYS_FILE), kind="nsys", caveats=(told,))


def _load_nsys(path: Path, process: int | None) -> Loaded:
    export = read_nsys(path)
    _must_hold_gpu_activity(export.whole, path.name)
    trace = export.process(process)
    return Loaded(
        trace=trace,
        recording=None,
        name=path.name,
        whole=None if trace is export.whole else export.whole,
    )


def _has_one_process(process: int | None, path: Path) -> None:
    if process is not None:
        raise UsageError(
            f"`--process` does not apply to `{path}`",
            why="it is of one process; only an nsys report can hold several",
        )


def _must_be_a_file(path: Path) -> None:
    """Refuse what is not there, and what a read would wait on for ever: a pipe, a device."""
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        raise UsageError(f"there is no file `{path}`") from None
    except OSError as error:
        raise UsageError(f"cannot read `{path}`", why=str(error.strerror)) from None
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        kind = next((name for is_kind, name in _SPECIAL if is_kind(mode)), "a special file")
        raise UsageError(
            f"`{path}` is {kind}, no file or folder",
            why="a trace is read from its beginning more than once",
            hint="write it to a file, and name that",
        )


_SPECIAL = (
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a character device"),
    (stat.S_ISBLK, "a block device"),
)


def _must_hold_timing(recording: Recording, path: Path) -> None:
    """Refuse a recording that holds neither a trace nor a timed run."""
    if recording.timing is not None and recording.timing.runs:
        return
    failed = [p for p in recording.passes if p.status in ("failed", "partial")]
    raise InputError(
        f"`{path}` holds no trace and no timed run",
        why="\n".join(f"pass {p.name}: {p.reason}" for p in failed) or f"it holds no {TRACE_FILE}",
        hint="the target ended before anything was measured; mend that and record again",
    )


def _must_hold_gpu_activity(trace: Trace, name: str) -> None:
    """Refuse a trace from elsewhere without what ran on a device: there is nothing to say.

    Copies alone are no answer where kernels were launched: a step of which only they are seen looks
    idle, and would be called launch-bound.
    """
    calls, table = trace.calls, trace.device
    # Graphs that were recorded as a whole stand for their kernels.
    if np.isin(table.kind, [int(ActivityKind.KERNEL), int(ActivityKind.GRAPH)]).any():
        return
    # Without any activity, a copy's call shows as well that the driver delivered nothing.
    kinds = (CallKind.LAUNCH, CallKind.GRAPH_LAUNCH) if len(table) else LAUNCHING
    launches = int(np.isin(calls.kind, [int(kind) for kind in kinds]).sum())
    if len(table) and not launches:
        return
    if trace.kind == "torch" and trace.caveats:
        # What the profiler recorded may have been in the part that is missing.
        raise InputError(
            f"`{name}` is damaged, and what is left of it holds no kernels",
            why="\n".join(trace.caveats),
            hint="was the program that wrote it ended while writing? export it again",
        )
    if launches:
        seen = "not one activity on a device" if not len(table) else "copies and sets alone"
        raise InputError(
            f"`{name}` holds launches but no kernels",
            why="\n".join(
                [
                    f"{units.counted(launches, 'launch call')}, and {seen}: the profiler got "
                    f"{'nothing' if not len(table) else 'no kernels'} from the driver (CUPTI)",
                    *trace.caveats,
                ]
            ),
            hint="`decodeprof doctor` on that machine says whether CUPTI gives kernels",
        )
    if trace.kind == "nsys":
        raise InputError(
            f"`{name}` holds no GPU activity",
            why="\n".join(
                [
                    "it has no kernels, copies, sets or graph launches: nsys ran without CUDA "
                    "tracing, or nothing ran on a GPU while it collected",
                    *trace.caveats,
                ]
            ),
            hint="record with `nsys profile --trace=cuda,nvtx --cuda-graph-trace=node`, and mind "
            "that a `--capture-range` may hold nothing",
        )
    events = len(trace.ops) + len(calls) + len(trace.annotations) + len(trace.frames)
    raise InputError(
        f"`{name}` holds no GPU activity",
        why=f"0 of {units.counted(events, 'event')} are kernels; the profiler ran with CPU "
        "activity only",
        hint="record with `decodeprof diagnose my_script.py:generate`, or add "
        "ProfilerActivity.CUDA to the profiler's activities",
    )
