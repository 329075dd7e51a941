"""Errors of captures, as versions of PyTorch and CUDA word them, and the rule each breaks."""

from __future__ import annotations

import pytest

from decodeprof.analysis.graph_refusals import refusal
from decodeprof.model.graph_check import CaptureError
from decodeprof.model.ops import OpCall, OpRecord, Place, StepOps, TensorRef

LATE = (
    "\nCUDA kernel errors might be asynchronously reported at some other API call, so the "
    "stacktrace below might be incorrect."
)
CUDA = TensorRef(1, (4,), "float32", "cuda:0")
HOST = TensorRef(2, (4,), "float32", "cpu")


def error(message: str, code: str = "x = step(x)", phase: str = "capture") -> CaptureError:
    place = Place(file="loop.py", line=7, function="step", code=code)
    return CaptureError(kind="AcceleratorError", message=message, phase=phase, place=place)  # type: ignore[arg-type]


def recorded(*calls: OpCall) -> OpRecord:
    steps = StepOps(step=1, calls=calls), StepOps(step=2, calls=calls)
    place = Place(file="loop.py", line=7, function="step")
    return OpRecord(first=steps[0], second=steps[1], places=(place,))


@pytest.mark.parametrize(
    ("message", "rule"),
    [
        (
            "Cannot copy between CPU and CUDA tensors during CUDA graph capture unless the CPU "
            "tensor is pinned. Please use tensor.pin_memory() or allocate the tensor with "
            "pin_memory=True.",
            "pageable memory",
        ),
        (
            "CUDA error: operation not permitted on an event last recorded in a capturing stream",
            "event",
        ),
        (
            "CUDA error: operation would make the legacy stream depend on a capturing blocking "
            "stream",
            "default stream",
        ),
        ("CUDA error: capturing stream has unjoined work", "joins it again"),
        (
            "CUDA error: dependency created on uncaptured work in another stream",
            "outside of the capture",
        ),
        (
            "CUDA error: operation would result in a merge of separate capture sequences",
            "one capture at a time",
        ),
        ("Capture must end on the same stream it began on.", "ends where it began"),
        ("Offset increment outside graph capture encountered unexpectedly.", "generators"),
        ("philox_cuda_state for an unexpected CUDA generator used during capture", "generators"),
        (
            "Cannot call CUDAGeneratorImpl::current_seed during CUDA graph capture. If you need "
            "this call to be captured, please file an issue. Current cudaStreamCaptureStatus: "
            "cudaStreamCaptureStatusActive",
            "generators",
        ),
        (
            "cudnn.benchmark in graph capture is prohibited. Possible causes of this error: 1. No "
            "warmup iterations occurred before capture.",
            "measuring of kernels",
        ),
        ("Capturing NCCL collectives is only allowed with NCCL >= 2.9.6", "NCCL"),
        ("CUDA out of memory. Tried to allocate 2.00 GiB.", "memory for itself"),
        ("CUDA error: operation failed due to a previous error during capture", "any thread"),
        ("CUDA error: cudaErrorStreamCaptureUnjoined", "joins it again"),
    ],
)
def test_a_text_is_known_by_what_has_stayed_the_same(message: str, rule: str) -> None:
    found = refusal(error(message + LATE), None)
    assert rule in found.rule
    assert found.why
    assert found.change


NOT_PERMITTED = "CUDA error: operation not permitted when stream is capturing" + LATE


@pytest.mark.parametrize(
    ("code", "rule"),
    [
        ("token = int(logits.argmax())", "no value is read"),
        ("if x.sum() > 0:", "no value is read"),
        ("kept = x.nonzero()", "size depends on data"),
        ("torch.cuda.synchronize()", "waiting for the device"),
        ("out = my_extension.run(x)", "cudaMalloc"),
    ],
)
def test_the_commonest_refusal_is_told_apart_by_its_line(code: str, rule: str) -> None:
    assert rule in refusal(error(NOT_PERMITTED, code), None).rule


def test_the_recorded_operation_at_the_line_is_named() -> None:
    read = OpCall(
        name="aten::_local_scalar_dense",
        inputs=(CUDA,),
        wait="the host reads a value that the device computes",
    )
    found = refusal(error(NOT_PERMITTED, "t = pick(x)"), recorded(OpCall(name="aten::mm"), read))
    assert found.op == "aten::_local_scalar_dense"
    assert "no value is read" in found.rule


def test_a_size_that_depends_on_data_is_told_by_the_operation() -> None:
    call = OpCall(
        name="aten::nonzero", inputs=(CUDA,), wait="the size of the result depends on values"
    )
    assert "size depends on data" in refusal(error(NOT_PERMITTED), recorded(call)).rule


def test_a_copy_from_pageable_memory_is_told_by_the_operation() -> None:
    call = OpCall(name="aten::copy_", inputs=(CUDA, HOST), outputs=(CUDA,))
    assert "pageable memory" in refusal(error(NOT_PERMITTED), recorded(call)).rule


def test_what_is_not_known_is_told_as_it_is() -> None:
    found = refusal(error("CUDA error: something that is new"), None)
    assert found.rule.startswith("unknown")
    assert found.error.message == "CUDA error: something that is new"


def test_a_failure_before_the_capture_breaks_another_rule() -> None:
    found = refusal(error("IndexError: index 64 is out of bounds", phase="warm-up"), None)
    assert "run again" in found.rule
