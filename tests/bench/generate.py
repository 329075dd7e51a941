"""Writes decode traces of any size in the exact text of torch.profiler, with the truth about them.

    python -m tests.bench.generate trace.json --megabytes 500

A step is that of an eager decoder: per kernel three nested ops with shapes, a launch call, a flow's
two ends and the kernel; a key cache that grows, so that shapes change every step; a blocking read
at the end. Times are whole ns, written as µs with three places, 59 days after their base: there
float64 just fails to be exact. Nothing is held in memory but one step.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

PID = 414
OFFSET_NS = 5_124_341_941_650_554
LATENCY_NS = 5_000
_NODE_GAP_NS = 300
_BYTES_PER_KERNEL = 2_400
_HEAD = """
  {
    "schemaVersion": 1,
    "deviceProperties": [
    {
      "id": 0, "name": "NVIDIA H200", "totalGlobalMem": 150109880320,
      "computeMajor": 9, "computeMinor": 0,
      "maxThreadsPerBlock": 1024, "maxThreadsPerMultiprocessor": 2048,
      "regsPerBlock": 65536, "warpSize": 32,
      "sharedMemPerBlock": 49152, "numSms": 132
    , "regsPerMultiprocessor": 65536, "sharedMemPerBlockOptin": 232448
    }
    ],
      "trace_id": "F94F15A3DBBD40148B32CC8B1AC386AD",
      "record_shapes": 1,
      "cuda_driver_version": 13000,
      "cuda_runtime_version": 13000,
      "cupti_version": 130001,
  "displayTimeUnit": "ms",
  "baseTimeNanoseconds": 1790857026000000000,
  "traceEvents": ["""
_TAIL = """
  ],
  "traceName": "generated.json"
}"""
_ELEMENTWISE = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::{name}(at::TensorIteratorBase&)"
    "::{{lambda()#1}}::operator()() const::{{lambda(float)#1}}, std::array<char*, 2ul> >(int, "
    "at::native::{name}(at::TensorIteratorBase&)::{{lambda()#1}}::operator()() const::"
    "{{lambda(float)#1}}, std::array<char*, 2ul>)"
)
# Op, its two inner ops, and the kernel that it launches.
_PROGRAM = (
    (("aten::linear", "aten::matmul", "aten::mm"), "nvjet_tst_64x8_64x16_4x1_v_bz_TNT"),
    (("aten::mul", "aten::expand", "aten::as_strided"), _ELEMENTWISE.format(name="mul_kernel")),
    (("aten::cat", "aten::narrow", "aten::slice"), _ELEMENTWISE.format(name="cat_kernel")),
    (("aten::to", "aten::_to_copy", "aten::copy_"), _ELEMENTWISE.format(name="copy_kernel")),
    (("aten::rsqrt", "aten::add", "aten::empty"), _ELEMENTWISE.format(name="rsqrt_kernel")),
    (("aten::softmax", "aten::_softmax", "aten::resize_"),
     "void (anonymous namespace)::softmax_warp_forward<float, float, float, 8, false, false>"),
)  # fmt: skip


@dataclass(frozen=True)
class Model:
    """What a decode step is made of."""

    name: str
    layers: int
    kernels_per_layer: int

    @property
    def kernels(self) -> int:
        """Kernels of a step, but the read at its end."""
        return self.layers * self.kernels_per_layer


QWEN = Model("like Qwen3-0.6B, eager", layers=28, kernels_per_layer=18)
GPT2 = Model("like GPT-2 small, eager", layers=12, kernels_per_layer=25)


@dataclass(frozen=True)
class Truth:
    """What a correct reader finds in a generated trace."""

    steps: int
    ops: int
    calls: int
    launches: int
    kernels: int
    activities: int
    flows: int
    busy_ns: int
    span_ns: int


@dataclass
class _Clock:
    """The host's time and the device's, and ids, as the program runs."""

    host_ns: int = OFFSET_NS
    device_ns: int = 0
    external: int = 0
    correlation: int = 134_644
    index: int = 0

    def work(self, ns: int) -> int:
        """Let the host work; returns when it began."""
        began = self.host_ns
        self.host_ns += ns
        return began


def _us(ns: int) -> str:
    return f"{ns // 1000}.{ns % 1000:03d}"


def _complete(cat: str, name: str, place: tuple[int, int], start: int, end: int, args: str) -> str:
    return (
        f'\n  {{\n    "ph": "X", "cat": "{cat}", "name": "{name}", "pid": {place[0]}, '
        f'"tid": {place[1]},\n    "ts": {_us(start)}, "dur": {_us(end - start)},\n'
        f'    "args": {{\n      {args}\n    }}\n  }}'
    )


def _flow(end: str, correlation: int, place: tuple[int, int], ts: int) -> str:
    bp = ', "bp": "e"' if end == "f" else ""
    return (
        f'\n  {{\n    "ph": "{end}", "id": {correlation}, "pid": {place[0]}, "tid": {place[1]}, '
        f'"ts": {_us(ts)},\n    "cat": "ac2g", "name": "ac2g"{bp}\n  }}'
    )


def _kernel_args(external: int, correlation: int) -> str:
    return (
        f'"External id": {external},      "queued": 0, "device": 0, "context": 1,      '
        f'"stream": 7, "correlation": {correlation},      "registers per thread": 32,      '
        '"shared memory": 0,      "blocks per SM": 0.242424,      "warps per SM": 0.969697,      '
        '"grid": [32, 1, 1],      "block": [128, 1, 1],      "est. achieved occupancy %": 0'
    )


class _Run:
    """Runs the program once; each event's text goes to `host` or to `device`, as Kineto sorts."""

    def __init__(
        self, steps: int, model: Model, host: Callable[[str], None], device: Callable[[str], None]
    ) -> None:
        self.steps, self.model, self.host, self.device = steps, model, host, device
        self.clock = _Clock()
        self.counts = dict.fromkeys(
            ("ops", "calls", "launches", "kernels", "activities", "flows"), 0
        )
        self.busy_ns = 0
        self.first_ns = self.last_ns = 0

    def truth(self) -> Truth:
        for step in range(self.steps):
            self._step(step)
        return Truth(
            steps=self.steps, busy_ns=self.busy_ns, span_ns=self.last_ns - self.first_ns,
            **self.counts,
        )  # fmt: skip

    def _step(self, step: int) -> None:
        clock, began = self.clock, self.clock.work(2_345)
        for layer in range(self.model.layers):
            for at in range(self.model.kernels_per_layer):
                self._launch(step, layer, at)
        self._read(step)
        for mark in (f"ProfilerStep#{step}", "decodeprof.step phase=decode"):
            self._op_text("user_annotation", mark, began, clock.host_ns, f'"Ev Idx": {step}')

    def _op_text(self, cat: str, name: str, start: int, end: int, args: str) -> None:
        self.host(_complete(cat, name, (PID, PID), start, end, args))

    def _op(self, names: tuple[str, ...], step: int, end_after: Callable[[int], int]) -> None:
        """Nested ops; `end_after` runs the inside, given the innermost's external id."""
        clock = self.clock
        starts, externals = [], []
        for _ in names:
            starts.append(clock.work(2_101))
            clock.external += 1
            externals.append(clock.external)
        inner_end = end_after(externals[-1])
        for depth, name in enumerate(names):
            length = 16 + step if name.startswith(("aten::cat", "aten::narrow")) else 1024
            args = (
                f'"External id": {externals[depth]},"Record function id": 0, '
                f'"Concrete Inputs": ["", "", "{depth}"], '
                '"Input type": ["c10::BFloat16", "c10::BFloat16", "Scalar"], '
                f'"Input Strides": [[{length}, {length}, 1], [1024, 1], []], '
                f'"Input Dims": [[1, 1, {length}], [{length}, 1024], []], "Ev Idx": {clock.index}'
            )
            clock.index += 1
            end = inner_end + 700 * (len(names) - depth)
            self._op_text("cpu_op", name, starts[depth], end, args)
        clock.host_ns = inner_end + 700 * len(names) + 1_250
        self.counts["ops"] += len(names)

    def _launch(self, step: int, layer: int, at: int) -> None:
        names, kernel = _PROGRAM[at % len(_PROGRAM)]
        # Different from kernel to kernel, the same on every machine.
        length = 1_152 + (layer * 7919 + at * 104_729 + step * 31) % 4_096

        def inside(external: int) -> int:
            self._activity("kernel", kernel, "cudaLaunchKernel", length, external)
            self.counts["launches"] += 1
            self.counts["kernels"] += 1
            return self.clock.host_ns

        self._op(names, step, inside)

    def _activity(self, cat: str, name: str, api: str, length: int, external: int) -> None:
        clock = self.clock
        clock.correlation += 11
        called = clock.work(4_321)
        begin = max(called + LATENCY_NS, clock.device_ns + _NODE_GAP_NS)
        clock.device_ns = begin + length
        correlation = clock.correlation
        host = f'"External id": {external}, "cbid": 211, "correlation": {correlation}'
        args = _kernel_args(external, correlation)
        if cat == "gpu_memcpy":
            args = (
                f'"External id": {external},      "device": 0, "context": 1,      "stream": 7, '
                f'"correlation": {correlation},      "bytes": 8, "memory bandwidth (GB/s)": 0.0052'
            )
        write = self.device
        write(_complete("cuda_runtime", api, (PID, PID), called, clock.host_ns, host))
        write(_flow("s", correlation, (PID, PID), called))
        write(_complete(cat, name, (0, 7), begin, begin + length, args))
        write(_flow("f", correlation, (0, 7), begin))
        self.counts["calls"] += 1
        self.counts["activities"] += 1
        self.counts["flows"] += 2
        self.busy_ns += length
        self.first_ns = self.first_ns or begin
        self.last_ns = begin + length

    def _read(self, step: int) -> None:
        def inside(external: int) -> int:
            clock = self.clock
            self._activity("gpu_memcpy", "Memcpy DtoH (Device -> Pageable)", "cudaMemcpyAsync",
                           1_216, external)  # fmt: skip
            clock.correlation += 11
            called = clock.host_ns
            clock.host_ns = max(clock.device_ns, called) + 8_000
            args = f'"cbid": 131, "correlation": {clock.correlation}'
            self.device(_complete("cuda_runtime", "cudaStreamSynchronize", (PID, PID), called,
                                  clock.host_ns, args))  # fmt: skip
            self.counts["calls"] += 1
            return clock.host_ns

        self._op(("aten::item", "aten::_local_scalar_dense"), step, inside)


def steps_for(megabytes: float, model: Model = QWEN) -> int:
    """Steps that make a file of about this size."""
    return max(round(megabytes * 1e6 / (_BYTES_PER_KERNEL * model.kernels)), 3)


def write(path: Path, *, steps: int, model: Model = QWEN) -> Truth:
    """Write a trace of so many decode steps."""

    def nothing(_: str) -> None:
        pass

    with path.open("w", encoding="utf-8") as file:
        first = True

        def put(text: str) -> None:
            nonlocal first
            file.write(text if first else "," + text)
            first = False

        file.write(_HEAD)
        # Kineto writes ops first and what CUPTI gave behind them: the program runs twice.
        _Run(steps, model, put, nothing).truth()
        truth = _Run(steps, model, nothing, put).truth()
        end = _us(OFFSET_NS + 86_400 * 10**9)
        put(f'\n  {{\n    "name": "process_name", "ph": "M", "ts": {_us(OFFSET_NS)}, "pid": {PID}, '
            '"tid": 0,\n    "args": {\n      "name": "python3"\n    }\n  }')  # fmt: skip
        put('\n  {\n    "name": "Record Window End", "ph": "i", "s": "g",\n    "pid": "", '
            f'"tid": "", "ts": {end}\n  }}')  # fmt: skip
        file.write(_TAIL)
    return truth


def main() -> None:
    """Write a file and print the truth about it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("path", type=Path)
    parser.add_argument("--megabytes", type=float, default=500)
    options = parser.parse_args()
    print(json.dumps(asdict(write(options.path, steps=steps_for(options.megabytes)))))


if __name__ == "__main__":
    main()
