"""What does an event of torch.profiler's JSON look like? Typed structs, decoded by msgspec.

Only the fields that the analysis uses are named; msgspec skips the rest without building objects.
Fields whose JSON type differs between versions (times, process and thread ids) stay raw text, so
that one odd value cannot refuse a whole file, and so that times keep their digits.
"""

from __future__ import annotations

import msgspec

_NOTHING = msgspec.Raw(b"")
Number = int | float | str | None


class Event(msgspec.Struct, gc=False):
    """One entry of `traceEvents`."""

    ph: str = ""
    cat: str = ""
    name: str | int | float | None = ""
    ts: msgspec.Raw = _NOTHING
    dur: msgspec.Raw = _NOTHING
    pid: msgspec.Raw = _NOTHING
    tid: msgspec.Raw = _NOTHING
    args: msgspec.Raw = _NOTHING


class DeviceProperties(msgspec.Struct, gc=False):
    """One entry of `deviceProperties`."""

    id: Number = None
    name: str | None = None
    total_memory: Number = msgspec.field(default=None, name="totalGlobalMem")
    major: Number = msgspec.field(default=None, name="computeMajor")
    minor: Number = msgspec.field(default=None, name="computeMinor")
    sm_count: Number = msgspec.field(default=None, name="numSms")


class File(msgspec.Struct):
    """The top level; a file of 2020 is the bare list of events instead."""

    events: list[Event] = msgspec.field(name="traceEvents")
    devices: msgspec.Raw = msgspec.field(default=_NOTHING, name="deviceProperties")
    base_ns: Number = msgspec.field(default=None, name="baseTimeNanoseconds")
    record_shapes: Number | bool = None
    with_stack: Number | bool = None
    cuda_driver: Number = msgspec.field(default=None, name="cuda_driver_version")
    cuda_runtime: Number = msgspec.field(default=None, name="cuda_runtime_version")
    cupti: Number = msgspec.field(default=None, name="cupti_version")
    hip_runtime: Number = msgspec.field(default=None, name="hip_runtime_version")


class DeviceArgs(msgspec.Struct, gc=False):
    """Arguments of a kernel, copy or set."""

    device: Number = None
    stream: Number = None
    correlation: Number = None
    external: Number = msgspec.field(default=None, name="External id")
    old_external: Number = msgspec.field(default=None, name="external id")
    bytes: Number = None
    old_bytes: Number = msgspec.field(default=None, name="Bytes")
    graph_node: Number = msgspec.field(default=None, name="graph node id")
    grid: list[Number] | None = None
    block: list[Number] | None = None


class CallArgs(msgspec.Struct, gc=False):
    """Arguments of a runtime or driver call."""

    correlation: Number = None
    external: Number = msgspec.field(default=None, name="External id")
    old_external: Number = msgspec.field(default=None, name="external id")


class OpArgs(msgspec.Struct, gc=False):
    """Arguments of a framework op; the text of shapes is kept raw, since it repeats."""

    external: Number = msgspec.field(default=None, name="External id")
    old_external: Number = msgspec.field(default=None, name="external id")
    dims: msgspec.Raw = msgspec.field(default=_NOTHING, name="Input Dims")
    old_dims: msgspec.Raw = msgspec.field(default=_NOTHING, name="Input dims")
    strides: msgspec.Raw = msgspec.field(default=_NOTHING, name="Input Strides")
    types: msgspec.Raw = msgspec.field(default=_NOTHING, name="Input type")
    scalars: msgspec.Raw = msgspec.field(default=_NOTHING, name="Concrete Inputs")


class SyncArgs(msgspec.Struct, gc=False):
    """Arguments of a cuda_sync row."""

    kind: str | None = msgspec.field(default=None, name="cuda_sync_kind")
    stream: Number = None
    device: Number = None
    correlation: Number = None
    waits_stream: Number = msgspec.field(default=None, name="wait_on_stream")
    waits_event: Number = msgspec.field(default=None, name="wait_on_cuda_event_id")
    recorded_by: Number = msgspec.field(default=None, name="wait_on_cuda_event_record_corr_id")


DEVICE_ARGS = msgspec.json.Decoder(DeviceArgs)
CALL_ARGS = msgspec.json.Decoder(CallArgs)
OP_ARGS = msgspec.json.Decoder(OpArgs)
SYNC_ARGS = msgspec.json.Decoder(SyncArgs)
DEVICES = msgspec.json.Decoder(list[DeviceProperties])
FILE = msgspec.json.Decoder(File)
BARE_LIST = msgspec.json.Decoder(list[Event])

_INT64_MAX = 2**63 - 1


def whole(value: Number, default: int = -1) -> int:
    """An integer out of what may be an int, a float, a numeric string or nothing.

    What does not fit int64 is `default`: such values occur in arguments and mean nothing here.
    """
    if type(value) is int:
        return value if -_INT64_MAX <= value <= _INT64_MAX else default
    if isinstance(value, str):
        text = value.removeprefix("stream ").strip()
        # isdecimal() alone would accept digits of other scripts.
        if text.isascii() and text.removeprefix("-").isdecimal() and len(text) < 19:
            return int(text)
        return default
    if isinstance(value, float) and abs(value) < 2**53 and value == int(value):
        return int(value)
    return default
