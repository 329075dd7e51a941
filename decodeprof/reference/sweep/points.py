"""How does a sweep go from point to point, so that one that fails ends alone?

Times first, for every point; then, in the same order, a profile of each: a profiler stays attached
to its process and makes the host slower from then on. At the end of the timing the first point is
timed again: what it says of the host's own drift stands beside the result.
"""

from __future__ import annotations

import dataclasses
import gc
import gzip
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import torch

from decodeprof.reference.graphs import CapturedGraph, capture
from decodeprof.reference.sweep.clock import Speed, launch_ns, load, samples_in_turn, samples_ns
from decodeprof.reference.sweep.counts import count, trace
from decodeprof.reference.sweep.spec import SweepSpec
from decodeprof.reference.sweep.subjects import Builder, Subject

Message = dict[str, Any]
TIMED, COUNTED, FAILED, AGAIN = "timed", "counted", "failed", "again"
"""Kinds of a message about a point."""
COUNT_LOAD_SECONDS = 0.5
"""Before a profile: starting one leaves the device idle, which undoes more than that would do."""
TRACE_STEPS = 3
"""The first and the last are no whole steps of a steady loop; the one between them is."""
TIMING_SHARE = 0.6
"""Of the seconds; profiling the points takes about as long as timing them."""


@dataclasses.dataclass(frozen=True)
class Limits:
    """How far a sweep goes.

    Attributes:
        seconds: no point is begun after so long; the points left out can be measured later.
        trace: file for a trace of the smallest point; none: no trace.
    """

    seconds: float = float("inf")
    trace: Path | None = None


def device_about(device: torch.device) -> Message:
    """What the points were measured on."""
    on_device = device.type == "cuda"
    return {
        "device": torch.cuda.get_device_name() if on_device else None,
        "torch": torch.__version__,
        "dtype": "bfloat16" if on_device else "float32",
    }


def measure(
    spec: SweepSpec,
    done: Mapping[int, set[str]],
    *,
    device: torch.device,
    limits: Limits,
    begin: Callable[[int], None] | None = None,
) -> Iterator[Message]:
    """Measure the points that are missing, saying each as soon as it is known.

    Args:
        spec: the sweep.
        done: by value, the kinds of message that an earlier run has said of it.
        device: where to run; without CUDA there are no graphs and nothing to count.
        limits: when to stop, and what else to keep.
        begin: told of each point before it is measured: the process may not outlive it.

    Yields:
        ``{"value", "kind", …}``: a `TIMED` and, with CUDA, a `COUNTED` message for each point, or
        one `FAILED` with its reason, which ends that point alone; `AGAIN` for the first point.

    Raises:
        RuntimeError: a point's failure left the device unusable for this process.
    """
    until = time.monotonic() + limits.seconds
    timed_until = time.monotonic() + TIMING_SHARE * limits.seconds
    on_device = device.type == "cuda"
    builder = Builder(device)
    failed = {value for value, kinds in done.items() if FAILED in kinds}

    def left(kind: str) -> list[int]:
        known = {value for value, kinds in done.items() if kind in kinds}
        return [value for value in spec.values if value not in known | failed]

    def told(kind: str, value: int, make: Callable[[Subject], Message]) -> Message:
        if begin is not None:
            begin(value)
        message = _attempt(builder, spec.at(value), make)
        if "reason" in message:
            failed.add(value)
            kind = FAILED
        return {"value": value, "kind": kind, **message}

    for value in left(TIMED):
        if time.monotonic() < timed_until:
            _refuse_a_lost_device(device)
            yield told(TIMED, value, lambda subject: _timed(subject, on_device=on_device))
    first = min(spec.values)
    if len(spec.values) > 1 and first in left(AGAIN) and time.monotonic() < until:
        yield told(AGAIN, first, lambda s: {"eager_ns": samples_ns(s.step, on_device=on_device)})
    if not on_device:
        return
    for value in left(COUNTED):
        if time.monotonic() < until:
            _refuse_a_lost_device(device)
            yield told(COUNTED, value, _counted)
        if value == first and limits.trace is not None and value not in failed:
            _write_trace(spec, limits.trace, device)


def record(
    spec: SweepSpec, value: int, *, device: torch.device, steps: int, graph: bool
) -> Message:
    """Trace one point, with shapes.

    Args:
        spec: the sweep.
        value: of the point.
        device: where to run.
        steps: how many to record, behind one that is not.
        graph: replay a graph instead of launching kernel by kernel.

    Returns:
        ``{"trace": the file's text}``, or ``{"reason": why there is none}``.
    """
    phase = "prefill" if spec.phase == "prefill" else "decode"

    def make(subject: Subject) -> Message:
        run = _graph(subject).replay if graph else subject.step
        run()
        return {"trace": trace(run, steps, phase=phase)}

    return _attempt(Builder(device), spec.at(value), make)


def _refuse_a_lost_device(device: torch.device) -> None:
    """After some errors no call of CUDA works any more: the points left are not to blame."""
    if device.type == "cuda":
        torch.cuda.synchronize()


def _write_trace(spec: SweepSpec, path: Path, device: torch.device) -> None:
    """Write the smallest point's trace, zipped, whole or not at all."""
    message = record(spec, min(spec.values), device=device, steps=TRACE_STEPS, graph=False)
    if "trace" in message:
        unfinished = path.with_name(path.name + ".unfinished")
        unfinished.write_bytes(gzip.compress(message["trace"], mtime=0))
        unfinished.replace(path)


def _timed(subject: Subject, *, on_device: bool) -> Message:
    message: Message = {
        "tokens": subject.tokens,
        "weight_bytes": subject.weight_bytes,
        "kv_bytes": subject.kv_bytes,
        "flops": subject.flops,
    }
    if not on_device:
        return {**message, "eager_ns": samples_ns(subject.step, on_device=False)}
    graph = _graph(subject)
    eager_ns, graph_ns = samples_in_turn([subject.step, graph.replay], on_device=True)
    return {
        **message,
        "eager_ns": eager_ns,
        "node_ns": Speed().node_ns(),
        "launch_ns": launch_ns(),
        "graph_ns": graph_ns,
        "capture_seconds": graph.seconds,
        "graph_pool_bytes": graph.pool_bytes,
        "peak_bytes": torch.cuda.max_memory_allocated(),
    }


def _counted(subject: Subject) -> Message:
    captured = _graph(subject)
    load(captured.replay, seconds=COUNT_LOAD_SECONDS)
    eager = count(subject.step, graph=False)
    graph = count(captured.replay, graph=True)
    return {"eager": dataclasses.asdict(eager), "graph": dataclasses.asdict(graph)}


def _graph(subject: Subject) -> CapturedGraph:
    return capture(
        subject.step,
        pool=torch.cuda.graph_pool_handle(),
        generator=torch.Generator("cuda"),
        kept=nullcontext(),
    )


def _attempt(builder: Builder, point: SweepSpec, make: Callable[[Subject], Message]) -> Message:
    """Build a point and measure it; or the reason why that was not possible."""
    reason = ""
    try:
        if builder.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats()
        return make(builder.build(point))
    except torch.OutOfMemoryError as error:
        reason = f"out of memory: {str(error).splitlines()[0]}"
    except MemoryError as error:
        reason = f"out of memory: {str(error) or 'the host has no more'}"
    except (RuntimeError, ValueError) as error:  # CUDA's errors are RuntimeErrors.
        first = (str(error).splitlines() or [""])[0]
        # The allocator of a CPU has no error of its own.
        kind = "out of memory" if "can't allocate memory" in first else type(error).__name__
        reason = f"{kind}: {first}"
    finally:
        # What a failed point held must not make the next one fail.
        gc.collect()
        if builder.device.type == "cuda":
            with suppress(RuntimeError):  # Of a device that is lost; the next point says so.
                torch.cuda.empty_cache()
    return {"reason": reason}
