"""What can this very device and host do at best?

Each figure is measured by itself, in about two seconds together, without a profiler. Large
buffers come from a memory pool of their own, so that the target's cached memory stays as it is.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch

from decodeprof.capture.statistics import lower_median
from decodeprof.capture.timing import new_event
from decodeprof.model.ceilings import Ceilings

_NS_PER_MS = 1_000_000
_NS_PER_S = 1_000_000_000
LAUNCHES = 200
"""Launches timed together: far fewer than the queue holds, so that none of them waits."""
_REPEATS = 20
NODES = 1_000
_BUFFER_BYTES = 1 << 30
"""Far larger than any cache of a GPU."""
_SMALLEST_BUFFER_BYTES = 1 << 27
_MEMORY_PARTS = 8
"""At most this part of the free memory goes into one buffer."""
_MAX_QUEUE = 4_096
_SLEEP_CYCLES = 400_000_000
"""0.2 s at 2 GHz: longer than `_MAX_QUEUE` launches take to issue."""
_BLOCKED_NS = 5_000_000
"""A launch call this long waits for room in the queue; it lasts 10 µs otherwise."""
_MATMUL_SIZE = 4_096
"""Large enough for the peak, and no more than 100 MB of memory."""
_EXPANDED_SHAPE = (64, 8, 2, 512, 128)
"""Keys of 64 rows for pairs of heads, as grouped-query attention copies them: twice the caches."""


def measure() -> tuple[Ceilings, list[str]]:
    """Measure all; the second value says what could not be measured, and why."""
    problems: list[str] = []
    found: dict[str, Any] = {}

    def attempt(name: str, function: Callable[[], Any]) -> None:
        try:
            found[name] = function()
        except RuntimeError as error:  # CUDA errors and out of memory are RuntimeErrors.
            first_line = str(error).splitlines()[0] if str(error) else type(error).__name__
            problems.append(f"{name}: {first_line}")

    attempt("launch_ns", launch_ns)
    attempt("graph", lambda: graph_times_ns(tiny_graph()))
    attempt("queue_depth", queue_depth)
    # Outside of the pool, where a workspace that the libraries keep would outlive it.
    attempt("matmul_flops_per_s", matmul_flops_per_s)
    with _own_memory():
        attempt("copy_bytes_per_s", copy_bytes_per_s)
        attempt("read_bytes_per_s", read_bytes_per_s)
        attempt("strided_elements_per_s", strided_elements_per_s)
    node_ns, graph_launch_ns = found.pop("graph", (None, None))
    ceilings = Ceilings(graph_node_ns=node_ns, graph_launch_ns=graph_launch_ns, **found)
    return ceilings, problems


@contextlib.contextmanager
def _own_memory() -> Iterator[None]:
    pool_class: Any = getattr(torch.cuda, "MemPool", None)
    use: Any = getattr(torch.cuda, "use_mem_pool", None)
    if pool_class is None or use is None:
        yield
        return
    with use(pool_class()):
        yield


def device_ns(function: Callable[[], object], *, repeats: int = _REPEATS) -> int:
    """Median device time of what a function launches, in ns."""
    function()
    pairs = []
    for _ in range(repeats):
        before, after = new_event(), new_event()
        before.record()
        function()
        after.record()
        pairs.append((before, after))
    torch.cuda.synchronize()
    return lower_median([round(a.elapsed_time(b) * _NS_PER_MS) for a, b in pairs])


def launch_ns() -> int:
    """Host time of one eager in-place add on one element."""
    one = torch.zeros(1, device="cuda")
    samples = []
    for _ in range(_REPEATS):
        torch.cuda.synchronize()
        begin = time.perf_counter_ns()
        for _ in range(LAUNCHES):
            one.add_(1)
        samples.append((time.perf_counter_ns() - begin) // LAUNCHES)
    torch.cuda.synchronize()
    return lower_median(samples)


def tiny_graph(nodes: int = NODES) -> Any:
    """A CUDA graph of in-place adds on one element, in a row."""
    one = torch.zeros(1, device="cuda")

    def adds() -> None:
        for _ in range(nodes):
            one.add_(1)

    return capture(adds)


def capture(function: Callable[[], object]) -> Any:
    """A CUDA graph of what a function launches; it keeps the function's tensors alive."""
    cuda: Any = torch.cuda
    side = cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        function()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        result = function()
    graph._decodeprof_holds = (function, result)  # type: ignore[attr-defined]
    return graph


def graph_times_ns(graph: Any) -> tuple[int, int]:
    """Device time of a node, its kernel included, and host time of one launch of the graph."""
    node_ns = device_ns(graph.replay) // NODES
    samples = []
    for _ in range(_REPEATS):
        torch.cuda.synchronize()
        begin = time.perf_counter_ns()
        graph.replay()
        samples.append(time.perf_counter_ns() - begin)
    torch.cuda.synchronize()
    return node_ns, lower_median(samples)


def _buffer_bytes() -> int:
    free, _ = torch.cuda.mem_get_info()
    size = min(_BUFFER_BYTES, free // _MEMORY_PARTS)
    if size < _SMALLEST_BUFFER_BYTES:
        raise RuntimeError(f"only {free:,} bytes of GPU memory are free")
    return size // 1024 * 1024


def copy_bytes_per_s() -> float:
    """Device-to-device copy, bytes read plus bytes written."""
    size = _buffer_bytes()
    source = torch.empty(size, dtype=torch.uint8, device="cuda").zero_()
    target = torch.empty_like(source)
    return 2 * size * _NS_PER_S / device_ns(lambda: target.copy_(source))


def read_bytes_per_s() -> float:
    """Sum over a large buffer: reads alone."""
    size = _buffer_bytes()
    values = torch.zeros(size // 4, dtype=torch.float32, device="cuda")
    return size * _NS_PER_S / device_ns(values.sum)


def strided_elements_per_s() -> float:
    """Elements of 2 bytes that a copy writes whose source is expanded.

    Its kernel computes an address for every element, so that instructions bound it and not bytes.
    """
    copy = expanded_copy()
    return math.prod(_EXPANDED_SHAPE) * _NS_PER_S / device_ns(copy)


def expanded_copy() -> Callable[[], object]:
    """A copy that writes `_EXPANDED_SHAPE` from half of it; 200 MB in all."""
    rows, heads, _, length, width = _EXPANDED_SHAPE
    keys = torch.zeros((rows, heads, 1, length, width), dtype=torch.bfloat16, device="cuda")
    expanded = keys.expand(_EXPANDED_SHAPE)
    target = torch.empty(_EXPANDED_SHAPE, dtype=torch.bfloat16, device="cuda")
    return lambda: target.copy_(expanded)


def queue_depth() -> int:
    """Launches behind a long kernel until a launch call waits; at most `_MAX_QUEUE`."""
    one = torch.zeros(1, device="cuda")
    one.add_(1)
    torch.cuda.synchronize()
    cuda: Any = torch.cuda
    cuda._sleep(_SLEEP_CYCLES)
    depth = _MAX_QUEUE
    for issued in range(1, _MAX_QUEUE):
        begin = time.perf_counter_ns()
        one.add_(1)
        if time.perf_counter_ns() - begin > _BLOCKED_NS:
            depth = issued
            break
    torch.cuda.synchronize()
    return depth


def matmul_flops_per_s() -> float:
    """Multiply-adds counted as two, of a large bf16 matrix product."""
    size = _MATMUL_SIZE
    left = torch.randn(size, size, dtype=torch.bfloat16, device="cuda")
    right = torch.randn(size, size, dtype=torch.bfloat16, device="cuda")
    out = torch.empty_like(left)
    elapsed_ns = device_ns(lambda: torch.mm(left, right, out=out))
    return 2 * size**3 * _NS_PER_S / elapsed_ns
