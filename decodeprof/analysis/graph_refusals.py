"""Which rule of CUDA graphs does an error of a capture break, and what is to be changed?

The texts are CUDA's and PyTorch's own, of several versions: they are searched for what has stayed
the same, and an error that none fits is told as it is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from decodeprof.analysis.hazard_texts import TEXTS
from decodeprof.model.graph_check import CaptureError, Refusal
from decodeprof.model.ops import OpCall, OpRecord

_UNDERWAY = "nothing runs while a stream is captured"


@dataclass(frozen=True)
class _Rule:
    text: str
    """A pattern, looked for in the message."""
    rule: str
    why: str
    change: str


_RULES = (
    _Rule(
        r"unless the CPU tensor is pinned|copy between CPU and CUDA tensors",
        "no copy to or from pageable memory of the host",
        TEXTS["host_tensor"].why,
        TEXTS["host_tensor"].change,
    ),
    _Rule(
        r"event last recorded in a capturing stream|StreamCaptureCapturedEvent|\b907\b",
        "no waiting for, and no asking of, an event that was recorded during the capture",
        f"{_UNDERWAY}, so the event never comes to pass",
        "order streams with `stream.wait_event(event)`, and look at events after the replay",
    ),
    _Rule(
        r"legacy stream depend on a capturing|StreamCaptureImplicit|\b906\b",
        "no work on the default stream",
        "a library launched on the default stream instead of PyTorch's current one, which would "
        "make that stream wait for the capture",
        "give the library `torch.cuda.current_stream().cuda_stream`, or leave the call outside of "
        "the step",
    ),
    _Rule(
        r"unjoined work|StreamCaptureUnjoined|\b904\b",
        "every stream that the step forks to joins it again",
        "work on a side stream had not been waited for when the capture ended",
        "end with `torch.cuda.current_stream().wait_stream(side)`",
    ),
    _Rule(
        r"uncaptured work in another stream|StreamCaptureIsolation|\b905\b",
        "no waiting for work from outside of the capture",
        "the step waits for an event or a stream that is not part of the capture",
        "let side streams begin with `side.wait_stream(torch.cuda.current_stream())` inside the "
        "step, and record the event there",
    ),
    _Rule(
        r"merge of separate capture sequences|StreamCaptureMerge|\b902\b|"
        r"Only one capture at a time|already capturing|captures? (?:is|are) already under",
        "one capture at a time",
        "the step captures a graph of its own, or joins another capture",
        "capture the outer step alone, and call the inner code without its graph",
    ),
    _Rule(
        r"not ended in the same stream|must end on the same stream|StreamCaptureUnmatched|\b903\b|"
        r"StreamCaptureWrongThread|\b908\b|terminate a thread-local capture",
        "a capture ends where it began",
        "the step leaves another stream, or another thread, current than it found",
        "enter side streams by `with torch.cuda.stream(side):` alone, and capture in one thread",
    ),
    _Rule(
        r"CUDAGeneratorImpl|philox|RNG op|CUDA generator|Offset increment outside graph capture",
        "only generators that the graph was told of, and no reading or setting of their state",
        TEXTS["generator"].why,
        TEXTS["generator"].change,
    ),
    _Rule(
        r"No warmup iterations occurred before capture|cudnn\.?benchmark",
        "no measuring of kernels during a capture",
        "cuDNN tries its kernels out at a shape that it has not met",
        "run the step with exactly these shapes before, or set `torch.backends.cudnn.benchmark = "
        "False`",
    ),
    _Rule(
        r"NCCL",
        "collectives need an NCCL that can be captured",
        "the step communicates with other GPUs through an NCCL older than 2.9.6, or one that "
        "watches for errors asynchronously",
        "update NCCL, and set TORCH_NCCL_ASYNC_ERROR_HANDLING=0 while capturing",
    ),
    _Rule(
        r"stale reference to the default stream|autograd node",
        "no backward through tensors that were made on another stream",
        "autograd remembers the stream of the warm-up",
        "decode under `torch.no_grad()` or `torch.inference_mode()`",
    ),
    _Rule(
        r"out of memory|OutOfMemory",
        "a graph keeps its memory for itself",
        "the pool of the graph does not fit beside what is there already",
        "capture a smaller bucket, or let graphs share one pool: `torch.cuda.graph(g, pool=…)`",
    ),
    _Rule(
        r"previous error during capture|StreamCaptureInvalidated|\b901\b",
        "no forbidden call from any thread",
        "something broke the capture that raised no error here: another thread, or a library that "
        "swallows errors",
        "look for threads that use the GPU meanwhile: data loaders that pin memory, NCCL's "
        "watchdog, monitoring",
    ),
)
_NOT_PERMITTED = re.compile(
    r"not permitted when stream is capturing|StreamCaptureUnsupported|\b900\b", re.I
)
_SIZED = re.compile(r"nonzero|masked_select|unique|size of the result")
_READS = re.compile(
    r"\bint\(|\bfloat\(|\bbool\(|\.item\(|\.tolist\(|\.cpu\(|\.numpy\(|\bif |while "
)
_WAITS = re.compile(r"synchronize\(|\.query\(")
_UNKNOWN = (
    "unknown: no rule that decodeprof knows has this error",
    "the step ran before, and failed when it was captured",
    "read the error; `torch.cuda.is_current_stream_capturing()` tells a line that it is captured",
)
_NOT_REPEATED = (
    "a step can be run again from the same state",
    "it failed in the warm-up, before any capture: run again with the same inputs it raises",
    "make one step a function of tensors that are updated in place",
)


def refusal(error: CaptureError, record: OpRecord | None) -> Refusal:
    """An error in words.

    Args:
        error: the first one of the capture.
        record: the operations of two steps, to name the one at the error's line; None: unknown.
    """
    call = _call_at(error, record)
    rule, why, change = _told(error, call)
    op = call.name if call is not None else None
    return Refusal(error=error, op=op, rule=rule, why=why, change=change)


def _call_at(error: CaptureError, record: OpRecord | None) -> OpCall | None:
    """The operation at the error's line that makes the host wait, or reads what the host holds."""
    if record is None or error.place is None:
        return None
    here = {
        index
        for index, place in enumerate(record.places)
        if (place.file, place.line) == (error.place.file, error.place.line)
    }
    calls = [call for call in record.second.calls if call.place in here]
    return next((call for call in calls if stops(call)), None)


def stops(call: OpCall) -> bool:
    """Whether no graph can hold an operation: the host waits in it, or it reads pageable memory."""
    if call.wait:
        return True
    tensors = (*call.inputs, *call.outputs)
    pageable = any(each.device == "cpu" and each.shape for each in call.inputs)
    return pageable and any(each.on_device for each in tensors)


def _told(error: CaptureError, call: OpCall | None) -> tuple[str, str, str]:
    message = f"{error.kind}: {error.message}"
    if _NOT_PERMITTED.search(message):
        return _not_permitted(error, call)
    found = next((each for each in _RULES if re.search(each.text, message, re.I)), None)
    if found is not None:
        return found.rule, found.why, found.change
    return _NOT_REPEATED if error.phase == "warm-up" else _UNKNOWN


def _not_permitted(error: CaptureError, call: OpCall | None) -> tuple[str, str, str]:
    """The commonest refusal, which CUDA tells in the same words whatever was forbidden."""
    code = error.place.code if error.place is not None else ""
    waits = f"{call.name} {call.wait}" if call is not None else ""
    text = TEXTS["sync"]
    if _SIZED.search(waits) or (not waits and _SIZED.search(code)):
        return (
            "no result whose size depends on data",
            f"the host must read how large the result is, and {_UNDERWAY}",
            "keep the full size and mask it (`torch.where`, `masked_fill`), or state the size",
        )
    if call is not None and not call.wait:
        return _RULES[0].rule, _RULES[0].why, _RULES[0].change
    if waits or _READS.search(code):
        return "no value is read by the host", text.why, text.change
    if _WAITS.search(code):
        return (
            "no waiting for the device",
            text.why,
            "wait after the replay, or order streams with `wait_stream`",
        )
    return (
        "no call that waits for the device, allocates with cudaMalloc or asks an event",
        f"{_UNDERWAY}; an extension that allocates by itself is refused as well",
        "look at what this line calls: let it use PyTorch's allocator and current stream, or leave "
        "it outside of the captured step",
    )
