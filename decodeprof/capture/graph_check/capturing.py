"""How is a function captured so that a refusal leaves its first error, and the process going on?"""

from __future__ import annotations

import contextlib
import statistics
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import torch

from decodeprof.capture.op_record import place_of
from decodeprof.capture.places import Frame, Places
from decodeprof.capture.timing import new_event
from decodeprof.model.graph_check import CaptureError, StepTimes
from decodeprof.model.ops import Place

_OWN = __name__.rpartition(".")[0].rpartition(".")[0].replace(".", "/")
_LATER_ERRORS = ("previous error during capture", "StreamCaptureInvalidated")
"""What comes after the error that matters."""
_HEAD_START_CYCLES = 400_000
"""0.2 ms at 2 GHz: several times as long as the launch of a graph of a few thousand nodes."""
_NS_PER_MS = 1_000_000
_MOST_LINES = 3


@contextlib.contextmanager
def capturing(graph: Any, pool: Any) -> Iterator[None]:
    """Capture what is run inside; whatever is raised there, the capture is ended.

    `torch.cuda.graph` does the same, but leaves its stream current when the end of a failed
    capture raises. Other threads may do as they like meanwhile.
    """
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    with torch.cuda.stream(stream):
        graph.capture_begin(pool=pool, capture_error_mode="thread_local")
        try:
            yield
        except BaseException:
            # What ending a broken capture raises only repeats that it is broken.
            with contextlib.suppress(RuntimeError):
                graph.capture_end()
            raise
        graph.capture_end()
    torch.cuda.current_stream().wait_stream(stream)


def first_error(error: BaseException, *, phase: str, places: Places) -> CaptureError:
    """The error that matters of those that a capture raised, and where it arose."""
    while any(text in _said(error) for text in _LATER_ERRORS) and error.__context__ is not None:
        error = error.__context__
    lines = [line.strip() for line in _said(error).splitlines() if line.strip()]
    message = "\n".join(lines[:_MOST_LINES])
    for prefix, short in places.prefixes:
        message = message.replace(prefix, short)
    return CaptureError(
        kind=type(error).__name__,
        message=message,
        phase=phase,  # type: ignore[arg-type]
        place=_place(error, places),
    )


def _said(error: BaseException) -> str:
    try:
        return str(error)
    # The class may be the user's own, and may raise anything: what it is stays known.
    except Exception:
        return "it does not say what it is"


def _place(error: BaseException, places: Places) -> Place | None:
    frames = [
        Frame(frame.f_code.co_filename, line, frame.f_code.co_qualname)
        for frame, line in traceback.walk_tb(error.__traceback__)
        if f"/{_OWN}/" not in frame.f_code.co_filename.replace("\\", "/")
    ]
    return place_of(places, tuple(reversed(frames))) if frames else None


def pool_bytes(pool: Any) -> int | None:
    """Device memory that a graph pool holds, by the allocator's account; None: it gives none."""
    try:
        segments = torch.cuda.memory_snapshot()
        return sum(
            int(segment["total_size"])
            for segment in segments
            if tuple(segment["segment_pool_id"]) == tuple(pool)
        )
    except (KeyError, TypeError, AttributeError, RuntimeError):
        return None


def sum_up(samples: list[int]) -> StepTimes | None:
    """Median and spread; None: there are no samples."""
    if not samples:
        return None
    ordered = sorted(samples)
    tenth = (len(ordered) - 1) // 10
    return StepTimes(
        median_ns=int(statistics.median_low(ordered)),
        p10_ns=ordered[tenth],
        p90_ns=ordered[-1 - tenth],
        n=len(ordered),
    )


def time_alone(run: Callable[[], Any], *, between: Callable[[], None], times: int) -> list[int]:
    """Each run until the device is done, by the host's clock; `between` is not timed."""
    samples = []
    for _ in range(times):
        torch.cuda.synchronize()
        begin = time.perf_counter_ns()
        run()
        torch.cuda.synchronize()
        samples.append(time.perf_counter_ns() - begin)
        between()
    return samples


def time_replays(
    graph: Any, *, between: Callable[[], None], times: int
) -> tuple[list[int], list[int]]:
    """Each replay on the device, queued behind other work, and the call that launches it."""
    cuda: Any = torch.cuda
    device, host = [], []
    for _ in range(times):
        cuda.synchronize()
        before, after = new_event(), new_event()
        if hasattr(torch._C, "_cuda_sleep"):
            cuda._sleep(_HEAD_START_CYCLES)
        before.record()
        begin = time.perf_counter_ns()
        graph.replay()
        host.append(time.perf_counter_ns() - begin)
        after.record()
        cuda.synchronize()
        device.append(round(before.elapsed_time(after) * _NS_PER_MS))
        between()
    return device, host
